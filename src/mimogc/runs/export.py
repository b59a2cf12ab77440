"""Stored runs as one flat table: rows for a CSV file, a pandas frame, or Parquet."""

import csv
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mimogc.runs.run import Record

if TYPE_CHECKING:
    import pandas

    from mimogc.runs.store import Store

FORMATS = ("csv", "parquet")
Row = dict[str, Any]
_ORDER = {"hparams": 1, "metrics": 2}  # after what a run is


def rows(records: Sequence[Record], curves: bool = False) -> list[Row]:
    """A row per run; with `curves` one per point of a run's curves. What a run does not have is None.

    Columns are ``id``, ``study``, ``dataset``, ``method``, ``variant``, ``split``, ``seed``, ``status``, ``seconds``,
    ``finished_at``, then ``hparams.NAME`` and ``metrics.NAME`` or, with `curves`, the names of the curves.
    """
    found = [row for record in records for row in (_points(record) if curves else [_result(record)])]
    names = dict.fromkeys(name for row in found for name in row)  # a set that keeps its order
    columns = sorted(names, key=lambda name: _ORDER.get(name.partition(".")[0], 0))
    return [{name: row.get(name) for name in columns} for row in found]


def _identity(record: Record) -> Row:
    run = record.run
    names = ("id", "study", "dataset", "method", "variant", "split", "seed")
    return {name: getattr(run, name) for name in names}


def _result(record: Record) -> Row:
    row = _identity(record)
    row |= {"status": record.status, "seconds": record.outcome.seconds, "finished_at": record.finished_at}
    row |= {f"hparams.{name}": value for name, value in record.run.hparams}
    return row | {f"metrics.{name}": value for name, value in record.outcome.metrics.items()}


def _points(record: Record) -> list[Row]:
    curves = record.outcome.curves
    length = max(map(len, curves.values()), default=0)
    named = _identity(record)
    return [
        {**named, "point": i, **{name: values[i] for name, values in curves.items() if i < len(values)}}
        for i in range(length)
    ]


def frame(found: list[Row]) -> "pandas.DataFrame":
    """The rows as a pandas frame."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise RuntimeError('a frame needs pandas; install it with: pip install "mimogc[pandas]"') from error
    return pandas.DataFrame(found)


def write(store: "Store", kind: str, output: Path | None, study: str | None, curves: bool) -> int:
    """Write a table of the store's runs into a file, or as CSV to stdout; returns how many rows there are."""
    found = rows(store.records(study), curves)
    try:
        return _write(found, kind, output)
    except OSError as error:  # which does not name the file where the disk is full
        if output is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(output)) from error


def _write(found: list[Row], kind: str, output: Path | None) -> int:
    if kind == "parquet":
        assert output is not None
        table = frame(found)
        try:
            table.to_parquet(output)
        except ImportError as error:
            raise RuntimeError('parquet needs pyarrow; install it with: pip install "mimogc[pandas]"') from error
        return len(found)
    with nullcontext(sys.stdout) if output is None else output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(found[0]) if found else ["id"])
        writer.writeheader()
        writer.writerows(found)
    return len(found)
