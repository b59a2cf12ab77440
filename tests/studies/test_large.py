"""The study of large graphs, on a small folder in the layout of OGB's files."""

import signal
import subprocess
import sys
from pathlib import Path

import large_process
import pytest
import torch

from harness import Watch
from mimogc.data import DataError, ogb
from mimogc.runs import driver
from mimogc.runs.options import UsageError
from mimogc.runs.store import Store
from mimogc.runs.study import Options, complete
from mimogc.studies import large, load
from mimogc.studies.large import STUDY


@pytest.fixture
def arxiv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    monkeypatch.setitem(ogb.SOURCES, "ogbn-arxiv", large_process.write_arxiv(tmp_path / "data"))
    large.task.cache_clear()
    return tmp_path


def test_its_datasets_are_those_that_can_be_read() -> None:
    assert set(STUDY.datasets) == set(ogb.SOURCES)
    assert load("large") is STUDY


def test_a_run_is_stored_and_not_run_again(arxiv: Path, watch: Watch) -> None:
    extras = (("epochs", 30), ("channels", 16))
    asked = Options(datasets=("ogbn-arxiv",), methods=("lmgc", "gcn", "gin"), seeds=1, extras=extras)
    options = complete(STUDY, asked)
    driver.reproduce(STUDY, options, arxiv / "runs.db", watch)
    assert driver.reproduce(STUDY, options, arxiv / "runs.db", watch).stored_before == 3
    with Store(arxiv / "runs.db") as store:
        records = store.records()
    assert {record.run.method for record in records} == {"lmgc", "gcn", "gin"}
    for record in records:
        assert record.outcome.metrics["val_accuracy"] > 50  # by chance 33
        assert record.outcome.metrics["epochs"] == 30
    assert len(watch.batches) == 3
    cells = STUDY.aggregate(records)
    assert {cell.metric for cell in cells} == {"test_accuracy"}


def test_the_graph_is_that_of_the_method(arxiv: Path) -> None:
    assert large.task("ogbn-arxiv", False, True).graph.looped
    given = large.task("ogbn-arxiv", False, False).graph
    assert given.num_edges == large_process.EDGES
    assert not given.is_undirected
    assert large.task("ogbn-arxiv", True, False).graph.is_undirected


def test_killed_and_resumed_gives_the_same_bits(arxiv: Path) -> None:
    whole, weights = large_process.trained(arxiv / "whole")
    child = subprocess.run([sys.executable, large_process.__file__, str(arxiv / "killed")], timeout=300)
    assert child.returncode == -signal.SIGKILL
    epochs = []
    resumed, again = large_process.trained(arxiv / "killed", tell=epochs.append)
    assert epochs == [4, 5, 6]
    assert (resumed.losses, resumed.vals, resumed.best) == (whole.losses, whole.vals, whole.best)
    assert all(torch.equal(a, b) for a, b in zip(weights, again, strict=True))


def test_recomputed_layers_train_alike(arxiv: Path) -> None:
    plain, weights = large_process.trained(arxiv / "plain")
    recomputed, again = large_process.trained(arxiv / "recomputed", recompute=True)
    assert recomputed.losses == plain.losses
    assert all(torch.equal(a, b) for a, b in zip(weights, again, strict=True))


def test_divergence_ends_a_run(arxiv: Path) -> None:
    large_process.trained(arxiv / "one")
    (run,) = STUDY.runs(complete(STUDY, Options(datasets=("ogbn-arxiv",), methods=("gcn",), seeds=1)))
    model, task = large.build(run)
    with torch.no_grad():
        model.decoder.weight.fill_(torch.inf)
    history = large_process.training.train(model, task, 0, 0.01, 9, arxiv / "last.pt")
    assert (len(history.losses), history.diverged) == (1, True)


def test_where_the_data_is_missing_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    options = complete(STUDY, Options(datasets=("ogbn-arxiv",)))
    with pytest.raises(DataError, match=r"arxiv\.zip .*mimogc\[ogb\]"):
        driver.reproduce(STUDY, options, tmp_path / "runs.db", watch)
    with pytest.raises(UsageError, match="--epochs"):
        complete(STUDY, Options(extras=(("epochs", 0),)))
