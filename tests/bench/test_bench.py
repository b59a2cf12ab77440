"""The baselines of the node benchmark: the same model as the library's, and all of them are measured."""

from pathlib import Path

import pytest
import torch
from benchmarks import nodes, waiting
from benchmarks.zinc import bfloat16_ratio

from mimogc.bench import zinc as matrix
from mimogc.cli import run
from mimogc.models import NodeClassifier, num_parameters
from mimogc.ops import _thresholds
from mimogc.studies.heterophilic_models import task


@pytest.mark.usefixtures("datasets")
def test_the_plain_node_classifier_is_the_same_model() -> None:
    found = task("texas", False)
    data = found.data
    torch.manual_seed(0)
    model = NodeClassifier(data.num_features, 12, data.num_classes, "lmgc", nodes.LAYERS, nodes.HEADS, gain=None)
    plain = nodes.PlainClassifier(data.num_features, 12, data.num_classes, "naive")
    assert num_parameters(plain) == num_parameters(model)
    with torch.no_grad():
        plain.encoder.weight.copy_(model.encoder.weight.t())
        plain.encoder.bias.copy_(model.encoder.bias)
        plain.decoder.load_state_dict(model.decoder.state_dict())
    for mine, theirs in zip(plain.layers, model.layers, strict=True):
        mine.copy_from(theirs)  # type: ignore[operator]
    expected = model.eval()(found.x, found.graph)
    torch.testing.assert_close(plain.eval()(data.x, nodes.with_loops(data)), expected, rtol=1e-4, atol=1e-5)


def test_every_model_takes_its_turn(datasets: Path) -> None:
    seconds = nodes.seconds_per_epoch("texas", rounds=1, epochs=1)
    assert set(seconds) == {"lmgc", "GATv2Conv"}
    assert all(value > 0 for value in seconds.values())


def test_the_ratio_of_bfloat16_is_a_number() -> None:
    assert bfloat16_ratio(rows=8, channels=4, times=3) > 0


def test_waits_are_measured_or_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {
        "help": waiting._WAITS["help"],
        "never": waiting._Wait("what fails", "raise OSError('no disk')"),
        "killed": waiting._Wait("what is killed", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
        "talks": waiting._Wait("what talks", "print('a word before'); print(2.5)"),
    }
    monkeypatch.setattr(waiting, "_WAITS", waits)
    said: list[str] = []
    found = waiting.run(said.append)
    assert set(found) == {"help", "talks"}
    assert found["talks"] == 2.5
    assert "  left out: what fails: OSError: no disk" in said
    assert "  left out: what is killed: exit code -9" in said


def test_every_cell_of_table_2_takes_its_turn(datasets: Path) -> None:
    runs = matrix.cells(("gin", "lmgc"), ("basic", "all", "rings"))
    assert [(run.method, run.variant) for run in runs] == [
        ("gin", "basic"), ("lmgc", "basic"), ("gin", "all"), ("lmgc", "all"), ("lmgc", "rings")
    ]  # fmt: skip
    assert {dict(run.hparams)["layers"] for run in runs if run.variant == "all"} == {10}
    seconds = matrix.seconds_per_epoch(runs, rounds=1, steps=1)
    assert seconds.keys() == {(run.method, run.variant) for run in runs} | {matrix.EACH_ATOM}
    assert all(value > 0 for value in seconds.values())


def test_cells_within_twice_the_basic_one_are_counted() -> None:
    seconds = {matrix.BASIC: 1.0, ("gin", "basic"): 2.0, ("gin", "all"): 2.5, ("acm", "all"): 3.1}
    others = {("eq12", "basic"): 1.0, ("lmgc", "bonds"): 1.5, matrix.EACH_ATOM: 1.4}
    said = matrix.within_twice(seconds | others)
    assert said.startswith("2 of the 4 cells of Table 2 take at most twice that; ")
    assert said.endswith(" would take 1.40 times as long with each by itself")


def test_each_atom_by_itself_is_the_basic_model(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, float]] = []
    monkeypatch.setattr(matrix, "train_epoch", lambda model, *_: seen.append((model, _thresholds.ALIKE)))
    matrix.seconds_per_epoch(matrix.cells(("lmgc", "gin"), ("basic",)), rounds=1, steps=1)
    (lmgc, usual), (gin, same), (again, each), *_ = seen
    assert usual == same == _thresholds.ALIKE > 0 > each
    assert again is lmgc
    assert again is not gin


def test_a_part_that_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "zync"]) == 2
    assert "expected nothing, zinc or large, got 'zync'" in capsys.readouterr().err
