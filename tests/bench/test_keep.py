"""Runs as text: what is added comes back from it, once, and what was there stays."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import keep

from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store


def record(seed: int, study: str = "zinc12k", mae: float = 0.25) -> Record:
    run = Run(study, "zinc12k", "lmgc", "basic", hparams(lr=0.001), 0, seed)
    return Record(run, "done", Outcome({"test_mae": mae}, {"val_mae": [1.0, mae]}, 2.0), {"torch": "2"}, "2026-01-01")


def store(path: Path, *records: Record) -> str:
    with Store(path, write=True) as target:
        target.add(records)
        target.remember("zinc12k", "mimogc.studies.zinc:ZINC12K")
    return str(path)


def back(text: Path, path: Path) -> list[Record]:
    db = sqlite3.connect(path)
    db.executescript(text.read_text())
    db.close()
    with Store(path) as found:
        assert found.references() == {"zinc12k": "mimogc.studies.zinc:ZINC12K"}
        return found.records()


def test_runs_come_back_from_the_text(tmp_path: Path) -> None:
    text = tmp_path / "runs.sql"
    keep.main([str(text), store(tmp_path / "first.db", record(0))])
    keep.main([str(text), store(tmp_path / "second.db", record(0, mae=9.0), record(1))])
    assert back(text, tmp_path / "back.db") == [record(0), record(1)]  # of two values the first stays


def test_curves_and_other_studies_can_be_left_out(tmp_path: Path) -> None:
    text = tmp_path / "runs.sql"
    given = store(tmp_path / "runs.db", record(0), record(1, study="starts"))
    keep.main([str(text), given, "--study", "zinc12k", "--no-curves"])
    (found,) = back(text, tmp_path / "back.db")
    assert found.run == record(0).run
    assert found.outcome.metrics == {"test_mae": 0.25}
    assert found.outcome.curves == {}


def test_few_curves_are_those_of_the_first_split_and_repeat(tmp_path: Path) -> None:
    text = tmp_path / "runs.sql"
    keep.main([str(text), store(tmp_path / "runs.db", record(0), record(1), record(2)), "--few-curves"])
    found = back(text, tmp_path / "back.db")
    assert [sorted(one.outcome.curves) for one in found] == [[], ["val_mae"], []]
    assert [one.run for one in found] == [record(seed).run for seed in range(3)]


def test_what_runs_share_is_written_once(tmp_path: Path) -> None:
    text = tmp_path / "runs.sql"
    with_quotes = replace(record(7), environment={"processor": 'it\'s "one"'})
    keep.main([str(text), store(tmp_path / "runs.db", *(record(seed) for seed in range(5)), with_quotes)])
    assert text.read_text().count('{"torch": "2"}') == 1
    assert back(text, tmp_path / "back.db") == [*(record(seed) for seed in range(5)), with_quotes]


def test_a_missing_store_leaves_the_text_as_it_was(tmp_path: Path) -> None:
    text = tmp_path / "runs.sql"
    keep.main([str(text), store(tmp_path / "runs.db", record(0))])
    before = text.read_text()
    with pytest.raises(SystemExit, match="no results"):
        keep.main([str(text), str(tmp_path / "none.db")])
    assert text.read_text() == before


def test_texts_can_be_read_into_one_store(tmp_path: Path) -> None:
    first, second = tmp_path / "first.sql", tmp_path / "second.sql"
    keep.main([str(first), store(tmp_path / "first.db", record(0))])
    keep.main([str(second), store(tmp_path / "second.db", record(0, mae=9.0), record(1))])
    for text in (first, second, second):
        found = back(text, tmp_path / "back.db")
    assert found == [record(0), record(1)]
