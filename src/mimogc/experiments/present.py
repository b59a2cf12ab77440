"""Plans, results and methods as tables for people and as JSON for programs."""

import inspect
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mimogc.experiments import registry
from mimogc.experiments.driver import Plan, Summary
from mimogc.experiments.progress import duration
from mimogc.experiments.run import Record
from mimogc.experiments.study import Cell, Study


def as_json(document: object) -> str:
    """Strict JSON: NaN and infinity, which JSON does not have, become null."""
    return json.dumps(_strict(document), indent=2, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value


def document(
    study: Study, store: Path, summary: Summary, records: Sequence[Record], failures: Sequence[Record]
) -> dict[str, Any]:
    """What ``mimogc reproduce --json`` prints: counts, cells, and every run asked for with its state."""
    known = {record.run.id: record for record in [*failures, *records]}
    runs = []
    for run in summary.plan.runs:
        record = known.get(run.id)
        row: dict[str, Any] = {
            "id": run.id,
            "dataset": run.dataset,
            "method": run.method,
            "variant": run.variant,
        }
        row |= {"hparams": dict(run.hparams), "split": run.split, "seed": run.seed}
        row |= {"status": record.status if record else "missing"}
        if record:
            row |= {"metrics": record.outcome.metrics, "seconds": record.outcome.seconds}
            row |= {"error": record.error.partition("\n")[0]} if record.error else {}
        runs.append(row)
    return {
        "study": study.name,
        "store": str(store),
        "planned": len(summary.plan.runs),
        "stored_before": summary.stored_before,
        **{status: summary.count(status) for status in ("done", "diverged", "failed")},
        "missing": summary.plan.missing,
        "interrupted": summary.interrupted,
        "seconds": summary.seconds,
        "cells": [_cell(cell) for cell in aggregate(study, summary.plan, records)],
        "runs": runs,
    }


def aggregate(study: Study, plan: Plan, records: Sequence[Record]) -> list[Cell]:
    """The cells of the runs asked for only, whatever else is in the store."""
    asked = {run.id for run in plan.runs}
    return study.aggregate([record for record in records if record.run.id in asked])


def _cell(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "hparams": dict(cell.hparams)}


def table(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """Print rows with the same keys as a table on stdout."""
    if not rows:
        return
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        grid.add_column(name, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(escape(_text(value)) for value in row.values()))
    # A file or a pipe has no width: nothing is folded there.
    Console(width=None if sys.stdout.isatty() else 1000).print(grid)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def results(study: Study, plan: Plan, records: Sequence[Record]) -> None:
    """Print the cells of the runs asked for."""
    rows = []
    for cell in aggregate(study, plan, records):
        spread = f" ± {cell.std:.2g}" if cell.count > 1 else ""
        chosen = " ".join(f"{name}={value}" for name, value in cell.hparams)
        row = {"dataset": cell.dataset, "variant": cell.variant, "method": cell.method, "metric": cell.metric}
        rows.append(row | {"mean ± std": f"{cell.mean:.3g}{spread}", "of": f"{cell.count}/{cell.expected}"})
        rows[-1] |= {"selected": chosen}
    table(rows, title=study.title)


def plan(plan: Plan) -> None:
    """Print what would be computed, by method."""
    todo = Counter((run.dataset, run.method, run.variant) for batch in plan.batches for run in batch)
    asked = Counter((run.dataset, run.method, run.variant) for run in plan.runs)
    table(
        [
            {
                "dataset": key[0],
                "method": key[1],
                "variant": key[2],
                "runs": count,
                "stored": count - todo[key],
            }
            for key, count in asked.items()
        ]
    )
    stored = len(plan.runs) - plan.missing
    print(
        f"{len(plan.runs)} runs, {stored} of them stored; to do: {plan.missing}, batches: {len(plan.batches)}"
    )


def conclusion(console: Console, summary: Summary, store: Path) -> None:
    """Say what was done and how to go on."""
    stored = len(summary.plan.runs) - summary.plan.missing
    lines = [f"{stored} of {len(summary.plan.runs)} runs are in {store} ({duration(summary.seconds)})"]
    if summary.count("diverged"):
        lines.append(f"{summary.count('diverged')} of them diverged, which is a result")
    if summary.count("failed"):
        lines.append(f"{summary.count('failed')} failed; the same command tries them again")
    elif summary.interrupted:
        lines[0] = "interrupted: " + lines[0]
        lines.append("the same command goes on from there")
    elif not summary.plan.missing and {run.study for run in summary.plan.runs} <= set(registry.names()) - set(
        registry.WITHOUT_PAGE
    ):
        lines.append(f"see them with: mimogc report --store {store}")
    console.print("; ".join(lines), markup=False, highlight=False, soft_wrap=True)


def methods_document(studies: Sequence[Study]) -> dict[str, Any]:
    """What ``mimogc methods --json`` prints: coefficient classes for layers, and the studies with their names."""
    from mimogc.nn.coefficients import BY_NAME

    listed = ("name", "title", "methods", "datasets", "variants", "extras")
    return {
        "coefficients": {name: _first_sentence(kind) for name, kind in BY_NAME.items()},
        "studies": [{name: getattr(study, name) for name in listed} for study in studies],
    }


def _first_sentence(kind: type) -> str:
    first, *rest = (inspect.getdoc(kind) or "").replace("``", "").split("\n\n")
    return " ".join(f"{first} {rest[0] if first.endswith(':') else ''}".split())


def methods(studies: Sequence[Study]) -> None:
    """Print the methods and the studies."""
    document = methods_document(studies)
    rows = [{"name": name, "what it is": text} for name, text in document["coefficients"].items()]
    table(rows, title="Coefficients, for LMGConv(coefficients=NAME)")
    for study in studies:
        print(f"\nmimogc reproduce {study.name}: {study.title}")
        for kind in ("methods", "datasets", "variants"):
            usual = f"  (unless named: {','.join(study.usual[kind])})" if kind in study.usual else ""
            print(f"  --{kind} {','.join(getattr(study, kind))}{usual}")
        for name, default in study.extras.items():
            flag = f"--{name.replace('_', '-')}"
            print(f"  {flag}" if isinstance(default, bool) else f"  {flag} {default}".rstrip())
