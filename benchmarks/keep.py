"""Keeps runs as text that can be committed: adds those of stores to an SQL file, and makes a store of such a file.

    python benchmarks/keep.py docs/results/runs.sql results/runs.db --study zinc12k   # add these runs to the text
    python benchmarks/keep.py docs/results/runs.sql                                   # say what is in the text
    sqlite3 results/kept.db < docs/results/runs.sql                                   # a store again

A run that is in the text already stays as it is, and several texts may be read into one store. Curves take most of the
room: --no-curves leaves them out, and --few-curves keeps those of each setting's first split and first repeat. What
many runs share is written once.
"""

import argparse
import collections
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from mimogc.runs.run import Run
from mimogc.runs.store import Store, StoreError

SHARED = ("hparams", "environment")  # columns that say the same of many runs
FIRST_REPEAT = 1  # of Table 3, whose grid has the seed 0
HEAD = "-- Runs behind the tables that say so: sqlite3 results/kept.db < {}\n"


def kept(text: Path, folder: Path) -> Path:
    """A store of what the text has."""
    path = folder / "kept.db"
    if text.exists():
        with sqlite3.connect(path) as db:
            db.executescript(text.read_text())
        db.close()
    return path


def add(store: Path, new: Path, studies: list[str], has_curves: Callable[[Run], bool]) -> int:
    """Copy the runs of `new` that `store` does not have; how many there were."""
    with Store(new) as source, Store(store, write=True) as target:
        have = {record.run.id for record in target.records()}
        wanted = [record for record in source.records() if not studies or record.run.study in studies]
        found = [record for record in wanted if record.run.id not in have]
        target.add(r if has_curves(r.run) else replace(r, outcome=replace(r.outcome, curves={})) for r in found)
        for study, reference in source.references().items():
            if any(record.run.study == study for record in found):
                target.remember(study, reference)
    return len(found)


def written(store: Path, text: Path) -> None:
    """The store as SQL, in the order of the runs; the old text stays until the new one is whole."""
    db = sqlite3.connect(store)
    numbers = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    pragmas = [f"PRAGMA application_id = {numbers[0]};", f"PRAGMA user_version = {numbers[1]};"]
    shared: dict[str, int] = {}
    tables = list(_tables(db, shared))
    db.close()
    values = [f"INSERT INTO shared VALUES ({number}, {_literal(value)});" for value, number in shared.items()]
    lines = [*pragmas, "CREATE TEMP TABLE shared (n INTEGER PRIMARY KEY, value TEXT);", "BEGIN;", *values, *tables]
    part = text.with_suffix(".part")
    part.write_text(HEAD.format(text) + "\n".join([*lines, "COMMIT;", "DROP TABLE shared;"]) + "\n")
    os.replace(part, text)


def _tables(db: sqlite3.Connection, shared: dict[str, int]) -> Iterator[str]:
    """The tables; what `SHARED` columns have is numbered in `shared`."""
    for name, schema in db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"):
        yield f"{schema.replace('CREATE TABLE', 'CREATE TABLE IF NOT EXISTS', 1)};"
        found = db.execute(f"SELECT * FROM {name} ORDER BY rowid")
        columns = [column[0] for column in found.description]
        for row in found:
            cells = (
                f"(SELECT value FROM shared WHERE n = {shared.setdefault(value, len(shared))})"
                if column in SHARED
                else _literal(value)
                for column, value in zip(columns, row, strict=True)
            )
            yield f"INSERT INTO {name} VALUES ({', '.join(cells)}) ON CONFLICT({columns[0]}) DO NOTHING;"


def _literal(value: str | float) -> str:
    """A value of SQL; repr gives a number back as it was."""
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else repr(value)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="the SQL file")
    parser.add_argument("stores", type=Path, nargs="*", help="stores whose runs are added")
    parser.add_argument("--study", action="append", default=[], help="only this study's runs; may be given again")
    curves = parser.add_mutually_exclusive_group()
    curves.add_argument("--no-curves", action="store_true", help="leave the curves of added runs out")
    curves.add_argument(
        "--few-curves", action="store_true", help="leave them out but for the first split's of the first repeat"
    )
    asked = parser.parse_args(arguments)

    def has_curves(run: Run) -> bool:
        return not asked.no_curves and (not asked.few_curves or (run.split, run.seed) == (0, FIRST_REPEAT))

    with tempfile.TemporaryDirectory() as folder:
        store = kept(asked.text, Path(folder))
        try:
            for new in asked.stores:
                print(f"{new}: {add(store, new, asked.study, has_curves)} runs added")
            if asked.stores:
                written(store, asked.text)
            with Store(store) as whole:
                cells = collections.Counter(
                    (r.run.study, r.run.dataset, r.run.method, r.run.variant) for r in whole.records()
                )
        except StoreError as error:
            sys.exit(f"error: {error}")
    for cell, number in cells.items():
        print(*cell, number)


if __name__ == "__main__":
    main()
