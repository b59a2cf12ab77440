"""Stored runs as one flat table: rows for a CSV file, a pandas frame, or Parquet."""

import csv
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mimogc.runs import registry
from mimogc.runs.options import known
from mimogc.runs.run import Record

if TYPE_CHECKING:
    import pandas

    from mimogc.runs.store import Store

FORMATS = ("csv", "parquet")
Row = dict[str, Any]
_ORDER = {"hparams": 1, "metrics": 2}  # after what a run is


_IDENTITY = ("id", "study", "dataset", "method", "variant", "split", "seed")


def columns(curves: bool) -> tuple[str, ...]:
    """The columns that every table has, before those named after what runs have."""
    return (*_IDENTITY, "selected", "point") if curves else (*_IDENTITY, "status", "selected", "seconds", "finished_at")


def table(store: "Store", study: str | None = None, curves: bool = False) -> list[Row]:
    """The rows of a store; a study that is neither known nor stored is answered with the nearest name."""
    if study is not None:
        study = known("study", study, dict.fromkeys([*registry.BUILT_IN, *store.studies()]))
    records = store.records(study)
    return rows(records, curves, selected(records, store.references()))


def selected(records: Sequence[Record], references: Mapping[str, str]) -> dict[str, bool]:
    """By id, whether a run is one that its study's own selection counts; not of studies that cannot be loaded."""
    by_study: dict[str, list[Record]] = {}
    for record in records:
        by_study.setdefault(record.run.study, []).append(record)
    found: dict[str, bool] = {}
    for name, group in by_study.items():
        try:
            counted = {record.run.id for record in registry.stored(name, references).select(group)}
        except Exception:  # whatever a study of one's own does; mimogc report says what it is
            continue
        found |= {record.run.id: record.run.id in counted for record in group}
    return found


def rows(records: Sequence[Record], curves: bool = False, counted: Mapping[str, bool] | None = None) -> list[Row]:
    """A row per run; with `curves` one per point of a run's curves. What a run does not have is None.

    Columns are ``id``, ``study``, ``dataset``, ``method``, ``variant``, ``split``, ``seed``, ``status``, ``selected``,
    ``seconds``, ``finished_at``, then ``hparams.NAME`` and ``metrics.NAME``; with `curves` ``selected`` and ``point``
    after the seed, then the names of the curves. `counted` says by id what is selected.
    """
    mark = counted or {}
    found = [row for record in records for row in (_points(record, mark) if curves else [_result(record, mark)])]
    names = dict.fromkeys(name for row in found for name in row)  # a set that keeps its order
    order = sorted(names, key=lambda name: _ORDER.get(name.partition(".")[0], 0))
    return [{name: row.get(name) for name in order} for row in found]


def _identity(record: Record) -> Row:
    return {name: getattr(record.run, name) for name in _IDENTITY}


def _result(record: Record, mark: Mapping[str, bool]) -> Row:
    row = _identity(record) | {"status": record.status, "selected": mark.get(record.run.id)}
    row |= {"seconds": record.outcome.seconds, "finished_at": record.finished_at}
    row |= {f"hparams.{name}": value for name, value in record.run.hparams}
    return row | {f"metrics.{name}": value for name, value in record.outcome.metrics.items()}


def _points(record: Record, mark: Mapping[str, bool]) -> list[Row]:
    curves = record.outcome.curves
    length = max(map(len, curves.values()), default=0)
    named = _identity(record) | {"selected": mark.get(record.run.id)}
    return [
        {**named, "point": i, **{name: values[i] for name, values in curves.items() if i < len(values)}}
        for i in range(length)
    ]


def frame(found: list[Row], curves: bool = False) -> "pandas.DataFrame":
    """The rows as a pandas frame; ``selected`` is of pandas' type that knows missing values, and can be a mask."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise RuntimeError('a frame needs pandas; install it with: pip install "mimogc[pandas]"') from error
    made = pandas.DataFrame(found) if found else pandas.DataFrame(columns=list(columns(curves)))
    made["selected"] = made["selected"].astype("boolean")
    return made


def write(store: "Store", kind: str, output: Path | None, study: str | None, curves: bool) -> int:
    """Write a table of the store's runs into a file, or as CSV to stdout; returns how many rows there are."""
    found = table(store, study, curves)
    try:
        return _write(found, kind, output, curves)
    except OSError as error:  # which does not name the file where the disk is full
        if output is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(output)) from error


def _write(found: list[Row], kind: str, output: Path | None, curves: bool) -> int:
    if kind == "parquet":
        assert output is not None
        made = frame(found, curves)
        for name in made.select_dtypes("object"):
            if len({type(value) for value in made[name].dropna()}) > 1:  # a column of the file has one type
                made[name] = made[name].map(str, na_action="ignore")
        try:
            made.to_parquet(output)
        except ImportError as error:
            raise RuntimeError('parquet needs pyarrow; install it with: pip install "mimogc[pandas]"') from error
        return len(found)
    with nullcontext(sys.stdout) if output is None else output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(found[0]) if found else columns(curves))
        writer.writeheader()
        writer.writerows(found)
    return len(found)
