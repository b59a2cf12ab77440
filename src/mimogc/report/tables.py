"""A table of the paper filled with what the store has: values, ranks, differences, and how to fill the gaps."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mimogc.experiments import registry
from mimogc.experiments.study import Cell, Study
from mimogc.report import numbers
from mimogc.report.names import label
from mimogc.report.published import Published, published
from mimogc.report.specs import Column, TableSpec

RANKS = ("best", "second")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one cell shows, as text."""

    column: str
    ours: str  # empty where missing
    rank: str  # "best", "second" or ""
    paper: str  # empty where the paper has no value
    paper_rank: str
    difference: str
    remark: str  # what is incomplete about it
    command: str  # that completes it; empty where nothing is missing
    possible: bool = True  # whether the method has the variant of the column


@dataclass(frozen=True, slots=True)
class Row:
    method: str
    entries: tuple[Entry, ...]
    ranked: bool  # whether the method is in the paper's table
    paper: str  # its value there, where all columns share it
    paper_rank: str


@dataclass(frozen=True, slots=True)
class FilledTable:
    spec: TableSpec
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    shared: bool  # whether the paper has one value for all columns
    commands: tuple[str, ...]  # that fill everything still missing

    @property
    def complete(self) -> int:
        return sum(bool(entry.ours) and not entry.remark for row in self.rows for entry in row.entries)

    @property
    def common_remark(self) -> str:
        """What all values that are there lack, as after --quick; empty where they differ."""
        remarks = {entry.remark for row in self.rows for entry in row.entries if entry.ours}
        return remarks.pop() if len(remarks) == 1 else ""

    @property
    def total(self) -> int:
        return sum(entry.possible for row in self.rows for entry in row.entries)


def fill(spec: TableSpec, study: Study, cells: Sequence[Cell], options: Sequence[str]) -> FilledTable:
    """The table of ``spec`` with these cells; ``options`` are added to the commands (the store, for instance)."""
    found = {(cell.method, cell.dataset, cell.variant, cell.metric): cell for cell in cells}
    columns = (*spec.columns, *_further_columns(spec, cells))
    methods = (*spec.methods, *sorted({cell.method for cell in cells} - set(spec.methods)))
    theirs = {(m, c): value for m in methods for c in columns if (value := _published(spec, m, c))}
    ours = {
        (m, c): cell
        for m in methods
        for c in columns
        if (cell := found.get((m, c.dataset, c.variant, c.metric)))
    }
    shared = len(columns) > 1 and len({(c.dataset, c.published_variant, c.metric) for c in columns}) == 1
    in_paper = [m for m in methods if any((m, c) in theirs for c in columns)]
    rank = {
        c: _ranks({m: ours[m, c].mean for m in in_paper if (m, c) in ours}, spec.lower_is_better)
        for c in columns
    }
    paper_rank = {
        c: _ranks({m: theirs[m, c].mean for m in in_paper if (m, c) in theirs}, spec.lower_is_better)
        for c in columns
    }
    rows = []
    for method in methods:
        entries = []
        for column in columns:
            cell, paper = ours.get((method, column)), theirs.get((method, column))
            remark = _remark(_study(study, column), cell) if cell else ""
            possible = _study(study, column).has(method, column.variant)
            incomplete = possible and (cell is None or bool(remark))
            entries.append(
                Entry(
                    column=column.label,
                    ours=numbers.mean_std(cell.mean, cell.std, spec.decimals) if cell else "",
                    rank=rank[column].get(method, ""),
                    paper=numbers.mean_std(paper.mean, paper.std, spec.published_decimals) if paper else "",
                    paper_rank=paper_rank[column].get(method, ""),
                    difference=numbers.difference(cell.mean, paper.mean, spec.decimals)
                    if cell and paper
                    else "",
                    remark=remark,
                    command=command(_study(study, column), [method], [column], options) if incomplete else "",
                    possible=possible,
                )
            )
        first = entries[0]
        rows.append(Row(label(method), tuple(entries), method in in_paper, first.paper, first.paper_rank))
    gaps = {
        method: [column for column, entry in zip(columns, row.entries, strict=True) if entry.command]
        for method, row in zip(methods, rows, strict=True)
    }
    return FilledTable(
        spec, tuple(c.label for c in columns), tuple(rows), shared, _commands(study, gaps, options)
    )


def _further_columns(spec: TableSpec, cells: Iterable[Cell]) -> list[Column]:
    """Columns for results that the paper's table has no place for, such as another dataset."""
    known = {(column.dataset, column.variant, column.metric) for column in spec.columns}
    metrics = {column.metric for column in spec.columns}
    further = dict.fromkeys((cell.dataset, cell.variant, cell.metric) for cell in cells)
    variants = {column.variant for column in spec.columns}
    study = {column.dataset: column.study for column in spec.columns}
    return [
        Column(
            _name(dataset, variant, metric, metrics, variants),
            dataset,
            variant,
            metric,
            variant,
            study.get(dataset, ""),
        )
        for dataset, variant, metric in further
        if (dataset, variant, metric) not in known
    ]


def _name(dataset: str, variant: str, metric: str, metrics: set[str], variants: set[str]) -> str:
    extra = [variant] * (variant not in variants) + [metric.replace("_", " ")] * (metric not in metrics)
    return ", ".join([label(dataset), *extra])


def _published(spec: TableSpec, method: str, column: Column) -> Published | None:
    return published().get((spec.study, method, column.dataset, column.published_variant, column.metric))


def _ranks(means: Mapping[str, float], lower_is_better: bool) -> dict[str, str]:
    """The best and the second-best of at least two finite values."""
    finite = {name: mean for name, mean in means.items() if math.isfinite(mean)}
    order = sorted(finite, key=lambda name: finite[name], reverse=not lower_is_better)
    return dict(zip(order, RANKS, strict=False)) if len(order) > 1 else {}


def _remark(study: Study, cell: Cell) -> str:
    """How a value falls short of the full study: fewer repeats or splits, or shorter training as with --quick."""
    remarks = []
    if cell.count < cell.expected:
        remarks.append(f"{cell.count} of {cell.expected} repeats")
    if cell.lacks:
        remarks.append(cell.lacks)
    for name, value in cell.hparams:
        full = study.extras.get(name)
        if isinstance(full, int) and isinstance(value, int) and type(full) is not bool and value < full:
            remarks.append(f"{value:,} of {full:,} {name}")
    return ", ".join(remarks)


def command(study: Study, methods: Sequence[str], columns: Sequence[Column], options: Sequence[str]) -> str:
    """The command that computes these methods in these columns."""
    parts = ["mimogc", "reproduce", study.name]
    if set(methods) != set(study.usual.get("methods", study.methods)):
        parts += ["--methods", ",".join(methods)]
    for kind, available, wanted in (
        ("datasets", study.datasets, [column.dataset for column in columns]),
        ("variants", study.variants, [column.variant.split()[0] for column in columns]),
    ):
        names = [name for name in available if name in wanted]
        names += [name for name in dict.fromkeys(wanted) if ":" in name]  # of one's own
        if names and set(names) != set(study.usual.get(kind, available)):
            parts += [f"--{kind}", ",".join(names)]
    return shlex.join([*parts, *options])


def _study(study: Study, column: Column) -> Study:
    return registry.load(column.study) if column.study else study


def _commands(study: Study, gaps: Mapping[str, list[Column]], options: Sequence[str]) -> tuple[str, ...]:
    """As few commands as fill all gaps: methods with the same gaps in the columns of a study share one."""
    groups: dict[tuple[str, tuple[Column, ...]], list[str]] = {}
    for method, missing in gaps.items():
        for name in dict.fromkeys(column.study for column in missing):
            columns = tuple(column for column in missing if column.study == name)
            groups.setdefault((name, columns), []).append(method)
    return tuple(
        dict.fromkeys(
            command(_study(study, columns[0]), methods, columns, options)
            for (_, columns), methods in groups.items()
        )
    )
