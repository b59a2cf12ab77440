"""Plans and results as tables for people and as JSON for programs."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mimogc.runs.driver import Summary
from mimogc.runs.options import variant_title
from mimogc.runs.run import Run, Scalar
from mimogc.runs.selection import Cell, diverged, lacks
from mimogc.runs.store import DEFAULT
from mimogc.runs.study import Options, Study, complete, says_what_follows
from mimogc.runs.times import duration, expected

UNSEEN = ("data", "start")  # what belongs to the identity of a run, and nobody has chosen


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


def document(study: Study, store: Path, summary: Summary) -> dict[str, Any]:
    """What ``mimogc reproduce --json`` prints: counts, cells, and every run asked for with its state."""
    known = {record.run.id: record for record in [*summary.failures, *summary.stored]}
    runs = []
    for run in summary.plan.runs:
        record = known.get(run.id)
        row: dict[str, Any] = {"id": run.id, "dataset": run.dataset, "method": run.method, "variant": run.variant}
        row |= {"hparams": dict(run.hparams), "split": run.split, "seed": run.seed}
        row |= {"status": record.status if record else "missing"}
        if record:
            row |= {"metrics": record.outcome.metrics, "seconds": record.outcome.seconds}
            row |= {"error": record.error.partition("\n")[0]} if record.error else {}
        runs.append(row)
    time = expected(study, summary.plan.todo, summary.stored)
    return {
        "study": study.name,
        "store": str(store),
        "planned": len(summary.plan.runs),
        "stored_before": summary.stored_before,
        **{status: summary.count(status) for status in ("done", "diverged", "failed")},
        "missing": summary.plan.missing,
        "missing_seconds": time.seconds,
        "missing_seconds_are_rough": time.rough,
        "interrupted": summary.interrupted,
        "seconds": summary.seconds,
        "cells": [_cell(cell) for cell in _cells(study, summary)],
        "runs": runs,
    }


def _cells(study: Study, summary: Summary) -> list[Cell]:
    """The cells of the runs asked for only, whatever else is in the store."""
    asked = {run.id for run in summary.plan.runs}
    return study.aggregate([record for record in summary.stored if record.run.id in asked])


def _cell(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "hparams": dict(cell.hparams), "options": dict(cell.options)}


def table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with the same keys as a table on stdout."""
    if not rows:
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        grid.add_column(name, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(escape(_text(value)) for value in row.values()))
    # A file or a pipe has no width: nothing is folded there.
    Console(width=None if sys.stdout.isatty() else 1000).print(grid)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def results(study: Study, summary: Summary) -> None:
    """Print the cells of the runs asked for: what differs between them in a table, what they share once, below."""
    cells = _cells(study, summary)
    values = {id(cell): [pair for pair in cell.hparams if pair[0] not in UNSEEN] for cell in cells}
    shared = set.intersection(*map(set, values.values())) if len(cells) > 1 else set()
    rows = []
    for cell in cells:
        spread = f" ± {cell.std:.2g}" if cell.count > 1 else ""
        row = {"dataset": cell.dataset, "variant": cell.title, "method": cell.method, "metric": cell.metric}
        whole = f"{cell.count} {'repeat' if cell.count == 1 else 'repeats'}"
        rests = [*(lacks(study, cell) or [whole]), *diverged(cell)]
        row |= {"mean ± std": f"{cell.mean:.3g}{spread}", "rests on": ", ".join(rests)}
        rows.append(row | {"selected": _pairs(pair for pair in values[id(cell)] if pair not in shared)})
    alike = [name for name in ("dataset", "variant", "metric", "rests on") if len({row[name] for row in rows}) == 1]
    alike = alike if len(rows) > 1 else []
    unseen = {*alike, *([] if any(row["selected"] for row in rows) else ["selected"])}
    print(study.title)
    table([{name: value for name, value in row.items() if name not in unseen} for row in rows])
    if alike or shared:
        metrics = {cell.metric for cell in cells}
        better = {study.lower_is_better(metric) for metric in metrics}
        said = [f"{name} {rows[0][name]}" for name in alike]
        said += [_pairs(sorted(shared))] if shared else []
        print(f"all with {', '.join(said)}")
        if len(better) == 1 and cells[0].metric:
            print(f"{'lower' if better.pop() else 'higher'} is better")


def _pairs(pairs: Iterable[tuple[str, Scalar]]) -> str:
    return " ".join(f"{name}={value}" for name, value in pairs)


def following(study: Study, summary: Summary, later: Sequence[Run]) -> dict[str, Any]:
    """What the document of a dry run has besides: how many runs follow from those asked for, and for how long."""
    time = expected(study, later, summary.stored)
    return {"following": len(later), "following_seconds": time.seconds, "following_seconds_are_rough": time.rough}


def plan(study: Study, options: Options, summary: Summary, later: Sequence[Run]) -> None:
    """Print what would be computed, by method, what will follow from it, and how long both would take."""

    def row(run: Run) -> tuple[str, str, str]:
        return run.dataset, run.method, variant_title(run.variant, study.unusual(run.hparams))

    missing = summary.plan.todo
    todo, asked = Counter(map(row, missing)), Counter(map(row, summary.plan.runs))
    names = ("dataset", "method", "variant")
    table([dict(zip(names, key, strict=True)) | {"runs": n, "stored": n - todo[key]} for key, n in asked.items()])
    if study.options:
        print(f"each with {_pairs(complete(study, options).extras)}")
    runs, batches = len(summary.plan.runs), len(summary.plan.batches)
    print(f"{runs} runs, {summary.stored_before} of them stored; to do: {len(missing)}, batches: {batches}")
    if missing:
        time = expected(study, missing, summary.stored)
        why = ", nothing comparable of this study is stored" if time.seconds is None else ""
        print(f"computing time, one run after the other: {time}{why}")
    if later:
        time = expected(study, later, summary.stored)
        print(f"then {len(later):,} runs at the settings that these select; computing time, estimated: {time}")
    elif missing and not says_what_follows(study):
        print("then the runs that follow from the results of these")


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
    elif not summary.plan.missing:
        lines.append("see them with: mimogc report" + f" --store {store}" * (store != DEFAULT))
    console.print("; ".join(lines), markup=False, highlight=False, soft_wrap=True)
