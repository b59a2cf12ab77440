"""Stored runs as a table: what is selected, what is not there, and rows that are damaged."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mimogc.runs import export
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store, StoreError

pandas = pytest.importorskip("pandas")


def node(lr: float, seed: int, val: float) -> Record:
    values = hparams(lr=lr, dropout=0.25, epochs=1000, layers=2, heads=4, budget=100_000)
    run = Run("heterophilic", "texas", "gcn", "residual", values, 0, seed)
    metrics = {"test_accuracy": 100 * lr, "val_accuracy": val, "train_accuracy": 99.0}
    return Record(run, "done", Outcome(metrics, {"epoch": [1.0], "loss": [1.0]}), {}, "2026")


def own(study: str, lr: float, loss: float) -> Record:
    run = Run(study, "gaussian", "sgd", "plain", hparams(lr=lr, steps=100), 0, 0)
    return Record(run, "done", Outcome({"loss": loss}), {}, "2026")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A grid (seed 0) of two settings with the repeats of the better one, and studies of one's own."""
    grid = [node(0.01, 0, 70.0), node(0.1, 0, 60.0)]
    path = tmp_path / "runs.db"
    with Store(path, write=True) as results:
        results.add([*grid, node(0.01, 1, 65.0), node(0.01, 2, 75.0)])
        results.add([own("least-squares", 0.1, 1.0), own("least-squares", 0.2, 0.5), own("gone", 0.1, 1.0)])
        results.remember("least-squares", "tiny_study:STUDY")
    return path


def test_selected_are_the_runs_that_the_study_counts(store: Path) -> None:
    with Store(store) as results:
        frame, curves = results.frame("heterophilic"), results.frame("heterophilic", curves=True)
        everything = results.frame()
    chosen = frame[frame["selected"]]
    assert sorted(chosen["seed"]) == [1, 2]  # the repeats, not the grid
    assert chosen["metrics.test_accuracy"].mean() == pytest.approx(1.0)
    assert set(curves[curves["selected"]]["id"]) == set(chosen["id"])
    mine = everything[everything["study"] == "least-squares"]
    assert list(mine[mine["selected"]]["hparams.lr"]) == [0.2]
    assert everything[everything["study"] == "gone"]["selected"].isna().all()
    assert len(everything[everything["selected"]]) == 3  # a mask also where some are missing


def test_a_study_that_is_not_there(store: Path) -> None:
    with Store(store) as results:
        with pytest.raises(UsageError, match="unknown study 'universalty'; did you mean 'universality'"):
            results.frame("universalty")
        empty, curves = results.frame("universality"), results.frame("universality", curves=True)
        assert results.studies() == ["gone", "heterophilic", "least-squares"]
    assert list(empty)[7:] == ["status", "selected", "seconds", "finished_at"]
    assert list(curves)[-2:] == ["selected", "point"]
    assert len(empty) == len(curves) == 0


def test_the_mark_needs_no_torch(store: Path) -> None:
    code = (
        "import sys; from mimogc.cli import run\n"
        f"assert run(['export', '--study', 'heterophilic', '--store', {str(store)!r}]) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "True" in done.stdout


def test_a_setting_of_several_types_is_text_in_parquet(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    runs = [Run("mixed", "d", "m", "v", hparams(w=w), 0, 0) for w in ("auto", 3)]
    with Store(store, write=True) as results:
        results.add([Record(run, "done", Outcome({"loss": 1.0}), {}, "2026") for run in runs])
        assert export.write(results, "parquet", tmp_path / "x.parquet", None, False) == 9
    assert sorted(pandas.read_parquet(tmp_path / "x.parquet")["hparams.w"].dropna()) == ["3", "auto"]


def test_stores_can_be_joined(store: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "all.db", write=True) as together, Store(store) as other:
        together.add(other.records("gone"))
        have = {record.run.id for record in together.records()}
        together.add(record for record in other.records() if record.run.id not in have)
        assert len(together.records()) == len(other.records())


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("hparams", "{", "hparams: expected a JSON object, got '{'"),
        ("metrics", "[1]", "metrics: expected a JSON object, got '[1]'"),
        ("metrics", '{"a": "x"}', "could not convert"),
        ("curves", "no", "curves: expected a JSON object, got 'no'"),
        ("curves", '{"a": 1}', "not iterable"),
        ("environment", "", "environment: expected a JSON object, got ''"),
    ],
)
def test_a_damaged_row_is_named_with_its_file(store: Path, column: str, text: str, reason: str) -> None:
    run = node(0.1, 0, 60.0).run.id
    with sqlite3.connect(store) as db:
        db.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (text, run))
    with Store(store) as results, pytest.raises(StoreError) as caught:
        results.records()
    assert str(caught.value).startswith(f"cannot read the store {store}: run {run} is damaged: ")
    assert reason in str(caught.value)
