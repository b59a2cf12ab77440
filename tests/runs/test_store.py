"""The store: nothing is lost, nothing is half there, one writer, and clear words about a file that is not ours."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mimogc import studies
from mimogc.runs import export
from mimogc.runs.driver import make_plan
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store, StoreError
from mimogc.runs.study import Options


def record(seed: int = 0, loss: float = 0.5, study: str = "study") -> Record:
    run = Run(study, "data", "method", "plain", hparams(lr=0.1, name="x", on=True), 0, seed)
    return Record(run, "done", Outcome({"loss": loss}, {"loss": [1.0, loss]}, 1.25), {"torch": "2"}, "2026-01-01")


def failed(seed: int = 0) -> Record:
    return replace(record(seed), status="failed", outcome=Outcome(), error="ValueError: no\ntrace")


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    written = [record(0), record(1, 1e-300), record(2, 0.1 + 0.2), record(3, study="other")]
    with Store(tmp_path / "runs.db", write=True) as store:
        store.add(written[:2])
        store.add(written[2:])
    with Store(tmp_path / "runs.db") as store:
        assert store.records() == written
        assert store.records("study") == written[:3]


def test_divergence_comes_back(tmp_path: Path) -> None:
    values = [math.nan, math.inf, -math.inf]
    outcome = Outcome(dict(zip("abc", values, strict=True)), {"loss": values}, 1.0, "diverged")
    with Store(tmp_path / "runs.db", write=True) as store:
        store.add([replace(record(), status="diverged", outcome=outcome)])
        back = store.records()[0]
    assert back.status == back.outcome.status == "diverged"
    for numbers in (list(back.outcome.metrics.values()), back.outcome.curves["loss"]):
        assert math.isnan(numbers[0])
        assert numbers[1:] == values[1:]


def test_the_table_is_readable_without_the_library(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db", write=True) as store:
        store.add([record(7)])
    db = sqlite3.connect(tmp_path / "runs.db")
    rows = db.execute("SELECT id, seed, json_extract(metrics, '$.loss') FROM runs").fetchall()
    assert rows == [(record(7).run.id, 7, 0.5)]
    assert [row[5] for row in db.execute("PRAGMA table_info(runs)") if row[1] == "id"] == [1]  # the primary key


def test_failures_are_shown_until_the_run_is_done(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db", write=True) as store:
        store.add([failed(0), failed(1)])
        store.add([failed(0)])
        assert store.failures() == [failed(1), failed(0)]
        assert store.records() == []
        store.add([record(0)])
        assert store.failures() == [failed(1)]
        assert store.records() == [record(0)]


def test_a_batch_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db", write=True) as store:
        store.add([record(0)])
        with pytest.raises(StoreError, match=r"it already has the run [0-9a-f]{16} \(study data method plain"):
            store.add([record(1), record(2), record(0)])
        assert store.records() == [record(0)]
        store.add([record(1)])


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from test_store import record
from mimogc.runs.store import Store
store = Store({path!r}, write=True)
store.add([record(0)])
if {half}:
    db = store._db
    db.execute("PRAGMA cache_size = 1")  # so that the open transaction reaches the file
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE runs SET metrics = ?", ("x" * 100_000,))
    db.execute("CREATE TABLE half AS SELECT * FROM runs")
print("ready", flush=True)
time.sleep(60)
"""


def holder(path: Path, half: bool = False) -> subprocess.Popen[str]:
    code = CHILD.format(tests=str(Path(__file__).parent), path=str(path), half=half)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def test_one_writer_until_it_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    child = holder(path)
    try:
        with pytest.raises(StoreError, match=rf"another run \(process {child.pid}\) is writing"):
            Store(path, write=True)
        with Store(path) as reader:
            assert reader.records() == [record(0)]
    finally:
        child.kill()
        child.wait()
    with Store(path, write=True) as store:
        store.add([record(1)])


def test_kill_in_a_transaction_leaves_the_state_before_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    child = holder(path, half=True)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert (tmp_path / "runs.db-journal").exists()
    with Store(path) as reader:
        assert reader.records() == [record(0)]
    with Store(path, write=True) as store:
        store.add([record(1)])
        assert store.records() == [record(0), record(1)]


def test_reading_does_not_stop_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Store(path, write=True) as writer:
        writer.add([record(0)])
        with Store(path) as reader:
            assert len(reader.records()) == 1
            writer.add([record(1)])
            assert len(reader.records()) == 2


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    Store(tmp_path / "runs.db", write=True).close()
    with Store(tmp_path / "runs.db") as reader, pytest.raises(StoreError, match="readonly"):
        reader.add([record()])


def foreign(path: Path) -> None:
    sqlite3.connect(path).executescript("CREATE TABLE runs (id TEXT); CREATE TABLE cats (name TEXT)")


def newer(path: Path) -> None:
    Store(path, write=True).close()
    sqlite3.connect(path).execute("PRAGMA user_version = 4")


def corrupt(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


def truncated(path: Path) -> None:
    with Store(path, write=True) as store:
        store.add([record(seed) for seed in range(50)])
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (foreign, "of another program"),
        (newer, "has format 4; this version of mimogc knows format 3"),
        (corrupt, "not a database"),
        (truncated, "malformed"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_a_file_that_is_not_a_store(tmp_path: Path, spoil: object, message: str, write: bool) -> None:
    path = tmp_path / "runs.db"
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as caught, Store(path, write=write) as store:
        store.records()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()  # what a writer leaves that is killed before its first transaction
    with Store(path) as reader:
        assert reader.records() == reader.failures() == []
    with Store(path, write=True) as store:
        store.add([record()])


@pytest.mark.parametrize("write", [False, True])
def test_a_place_that_cannot_be_written(write: bool) -> None:
    with pytest.raises(StoreError, match=r"/proc/runs.db"):
        Store("/proc/runs.db", write=write)


def old_store(path: Path) -> list[Record]:
    """A file of format 1 with runs in which "lmgc" is the paper's equation 12; gives what should be read now."""
    runs = [
        Run(study, "texas", method, "residual", hparams(lr=0.01), split, 0)
        for study in ("heterophilic", "zinc12k", "universality", "module:STUDY")
        for method in ("lmgc", "gin")
        for split in range(3)
    ]
    written = [replace(record(), run=run) for run in runs]
    lost = replace(failed(), run=replace(runs[0], seed=9))
    with Store(path, write=True) as store:
        store.add([*written, lost])
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 1")
    db.close()
    renamed = {"heterophilic": "eq12", "zinc12k": "eq12"}
    return [
        replace(one, run=replace(one.run, method=renamed.get(one.run.study, "lmgc")))
        if one.run.method == "lmgc"
        else one
        for one in written
    ]


def test_a_store_from_before_the_offset_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    expected = old_store(path)
    with Store(path) as reader:
        assert reader.records() == expected
        assert reader.failures()[0].run.method == "eq12"
    with Store(path, write=True) as writer:
        assert writer.records() == expected
        new = replace(record(), run=Run("heterophilic", "texas", "lmgc", "residual", hparams(lr=0.01, start="x"), 0, 0))
        writer.add([new])
        writer.add([replace(record(), run=replace(expected[0].run, seed=9))])  # the failed one, under its new name
        assert not writer.failures()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (3,)
    rows = db.execute("SELECT id, method FROM runs ORDER BY finished_at, rowid").fetchall()
    assert rows[: len(expected)] == [(one.run.id, one.run.method) for one in expected]
    with Store(path) as reader:
        assert reader.records()[-2] == new


def test_a_store_of_format_2_loses_nothing(tmp_path: Path) -> None:
    """The file is what the code of format 2 wrote: variants have their options appended there."""
    path = tmp_path / "runs.db"
    db = sqlite3.connect(path)
    db.executescript(Path(__file__).with_name("format_2.sql").read_text())
    before = {row[0]: row[1:] for row in db.execute("SELECT id, variant, hparams, metrics, curves, split FROM runs")}
    db.close()
    with Store(path) as reader:
        read, lost = reader.records(), reader.failures()
        assert reader.references() == {}
    with Store(path, write=True) as writer:
        assert (writer.records(), writer.failures()) == (read, lost)
        writer.remember("own", "module:OWN")
        assert writer.references() == {"own": "module:OWN"}
    assert (len(read), len(lost)) == (len(before), 2) == (14, 2)
    assert {one.run.variant for one in [*read, *lost]} == {"n16", "residual", "averaged", "basic", "plain"}
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (3,)
    after = {row[0]: row[1:] for row in db.execute("SELECT id, variant, hparams, metrics, curves, split FROM runs")}
    assert set(after) == {one.run.id for one in read}
    assert sorted(row[1:] for row in after.values()) == sorted(row[1:] for row in before.values())
    same = {name for name, row in before.items() if " " not in row[0]}
    assert same == before.keys() & after.keys()
    assert len(same) == 5


def test_what_format_2_has_with_unusual_options_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    sqlite3.connect(path).executescript(Path(__file__).with_name("format_2.sql").read_text())
    with Store(path) as reader:
        records = reader.records("heterophilic")
    study = studies.load("heterophilic")
    asked = Options(("mlp",), ("texas",), quick=True, extras=(("epochs", 2), ("heads", 8), ("budget", 2000)))
    plan = make_plan(study, asked, records)
    assert (len(plan.runs), plan.missing) == (3, 1)  # the file was cut to two splits
    cells = {cell.method: dict(cell.options) for cell in study.aggregate(records) if cell.variant == "residual"}
    assert cells == {
        "mlp": {"heads": 8, "budget": 2000},
        "lmgc": {"layers": 1, "undirected": True, "no_self_loops": True},
        "gatv2": {"gain": 0.0},
        "gin": {"gain": 0.0},
    }


def test_the_columns_of_a_table_keep_their_kinds_together() -> None:
    """Also where a later run has a hyper-parameter that the first has not."""
    runs = [Run("s", "d", "m", "", hparams(**values), 0, 0) for values in ({"lr": 0.1}, {"lr": 0.1, "start": "cold"})]
    found = export.rows([Record(run, "done", Outcome({"loss": 1.0}), {}, "") for run in runs])
    assert list(found[0])[-3:] == ["hparams.lr", "hparams.start", "metrics.loss"]
