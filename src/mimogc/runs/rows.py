"""Records as rows of the store, and back; what is damaged in a row is said with its column."""

import json
import sqlite3
from dataclasses import asdict
from typing import Any

from mimogc.runs.run import Outcome, Record, Run

CHANGED = ("zinc12k", "zinc", "heterophilic")  # the studies whose names of methods and variants changed


def to_row(record: Record) -> dict[str, Any]:
    """The columns of a record."""
    run, outcome = record.run, record.outcome
    row = {"id": run.id, **asdict(run), "hparams": json.dumps(dict(run.hparams))}
    row |= {"environment": json.dumps(dict(record.environment)), "finished_at": record.finished_at}
    if record.status == "failed":
        return row | {"error": record.error}
    return row | {
        "status": record.status,
        "metrics": json.dumps({name: _number(value) for name, value in outcome.metrics.items()}),
        "curves": json.dumps({name: [_number(y) for y in curve] for name, curve in outcome.curves.items()}),
        "seconds": outcome.seconds,
    }


def _number(value: float) -> float | str:
    # JSON has no NaN and no infinity: they are stored as the strings that float() reads back.
    value = float(value)
    return value if value - value == 0 else str(value)


def run_of(row: sqlite3.Row, version: int) -> Run:
    """The run of a row, in a file of an older format as it is called now."""
    method, variant = row["method"], row["variant"]
    if row["study"] in CHANGED:
        method = "eq12" if version < 2 and method == "lmgc" else method
        variant = variant.split()[0] if version < 3 else variant  # the options are hyper-parameters, too
    values = tuple(sorted(_object(row, "hparams").items()))
    return Run(row["study"], row["dataset"], method, variant, values, row["split"], row["seed"])


def record_of(row: sqlite3.Row, version: int) -> Record:
    """The record of a row; a ValueError or TypeError where it is damaged."""
    run = run_of(row, version)
    environment = _object(row, "environment")
    if "error" in row.keys():  # noqa: SIM118 (a Row is no mapping)
        return Record(run, "failed", Outcome(), environment, row["finished_at"], row["error"])
    metrics = {name: float(value) for name, value in _object(row, "metrics").items()}
    curves = {name: [float(y) for y in curve] for name, curve in _object(row, "curves").items()}
    outcome = Outcome(metrics, curves, row["seconds"], row["status"])
    return Record(run, row["status"], outcome, environment, row["finished_at"])


def _object(row: sqlite3.Row, column: str) -> dict[str, Any]:
    """The JSON object in a column."""
    text = row[column]
    try:
        found = json.loads(text)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{column}: expected a JSON object, got {str(text)[:40]!r}")
    return found
