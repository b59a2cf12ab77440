"""A table filled with what the store has: values, ranks, differences, and how to fill the gaps."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mimogc import studies
from mimogc.methods import in_order
from mimogc.report import numbers
from mimogc.report.names import label
from mimogc.report.published import Published, published
from mimogc.report.specs import Column, TableSpec
from mimogc.runs.driver import make_plan, to_come
from mimogc.runs.options import UsageError
from mimogc.runs.run import HParams, Record, hparams
from mimogc.runs.selection import Cell, diverged, lacks, place
from mimogc.runs.study import Options, Study, arguments, says_what_follows
from mimogc.runs.times import about, duration, expected

RANKS = ("best", "second")
UNRANKED = ("seconds_per_epoch",)  # runs are of several machines


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
    diverged: str  # how many of its runs did
    command: str  # that completes it; empty where nothing is missing
    possible: bool = True  # whether the method can be had in the column


@dataclass(frozen=True, slots=True)
class Row:
    method: str
    entries: tuple[Entry, ...]
    ranked: bool  # whether the method takes part in the ranks
    paper: str  # its value in the paper, where all columns share it
    paper_rank: str


@dataclass(frozen=True, slots=True)
class FilledTable:
    spec: TableSpec
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    shared: bool  # whether the paper has one value for all columns
    direction: str  # whether lower or higher is better
    commands: tuple[str, ...]  # that fill everything still missing
    time: str  # that they take
    hidden: int = 0  # columns without any value

    @property
    def complete(self) -> int:
        return sum(bool(entry.ours) and not entry.remark for row in self.rows for entry in row.entries)

    @property
    def common_remark(self) -> str:
        """What all values that are there lack, as after --quick; empty where they differ."""
        remarks = {entry.remark for row in self.rows for entry in row.entries if entry.ours}
        return remarks.pop() if len(remarks) == 1 else ""

    @property
    def usual_remark(self) -> str:
        """What more than half of the values lack; empty where they differ more."""
        remarks = [entry.remark for row in self.rows for entry in row.entries if entry.ours]
        return next((remark for remark in set(remarks) if 2 * remarks.count(remark) > len(remarks)), "")

    @property
    def standing(self) -> str:
        """What the values lack, in a sentence that stands above them; empty where most of them lack nothing."""
        but = "" if self.common_remark else ", unless a cell says otherwise"
        return f"A first look: {'all ' * (not but)}values rest on {self.usual_remark}{but}." * bool(self.usual_remark)

    def remark(self, entry: Entry) -> str:
        """What a cell has to say of its own standing."""
        lacks = "" if entry.remark == self.usual_remark else entry.remark or "complete"
        return ", ".join(filter(None, (lacks, entry.diverged)))

    @property
    def total(self) -> int:
        return sum(entry.possible for row in self.rows for entry in row.entries)


def fill(
    spec: TableSpec,
    study: Study,
    cells: Sequence[Cell],
    options: Sequence[str],
    records: Mapping[str, Sequence[Record]] | None = None,
    everything: bool = True,
) -> FilledTable:
    """The table of a study with these cells.

    ``options`` are added to the commands (the store, for instance); from the stored ``records`` of each study comes
    the time that they take. Columns and methods without any value are there only with ``everything``.
    """
    found = {(cell.method, *_key(cell)): cell for cell in cells}
    filled = {_key(cell) for cell in cells}
    usual = [column for column in spec.columns if _key(column) in filled or (everything and not column.further)]
    columns = (*usual, *_further_columns(spec, cells))
    by_name = {name: studies.load(name) for name in {column.study for column in columns} - {""}} | {"": study}
    methods = (*spec.methods, *in_order({cell.method for cell in cells} - set(spec.methods)))
    theirs = {(m, c): value for m in methods for c in columns if (value := _published(spec, m, c))}
    ours = {(m, c): cell for m in methods for c in columns if (cell := found.get((m, *_key(c))))}
    methods = tuple(m for m in methods if everything or any((m, c) in ours or (m, c) in theirs for c in columns))
    shared = bool(theirs) and len(columns) > 1 and len({_published_key(c) for c in columns}) == 1
    ranked = [m for m in methods if any((m, c) in theirs for c in columns)] or list(methods)
    lower = {c: study.lower_is_better(c.metric) for c in columns}
    peers = {c: {} if c.metric in UNRANKED else _peers(by_name[c.study], c, ours, ranked) for c in columns}
    rank = {c: _ranks(peers[c], lower[c]) for c in columns}
    paper_rank = {c: _ranks({m: theirs[m, c].mean for m in ranked if (m, c) in theirs}, lower[c]) for c in columns}
    rows, gaps = [], {}
    for method in methods:
        entries = []
        for column in columns:
            cell, paper, owner = ours.get((method, column)), theirs.get((method, column)), by_name[column.study]
            lacking = lacks(owner, cell) if cell else []
            possible = _possible(owner, method, column)
            if possible and (cell is None or lacking):
                request = Options((method,), (column.dataset,), (column.variant,), extras=column.options)
                gaps[method, column] = _command(owner, request, options)
            entries.append(
                Entry(
                    column=column.label,
                    ours=numbers.mean_std(cell.mean, cell.std, spec.decimals) if cell else "",
                    rank=rank[column].get(method, ""),
                    paper=numbers.mean_std(paper.mean, paper.std, spec.published_decimals) if paper else "",
                    paper_rank=paper_rank[column].get(method, ""),
                    difference=numbers.difference(cell.mean, paper.mean, spec.decimals) if cell and paper else "",
                    remark=", ".join(lacking),
                    diverged=", ".join(diverged(cell)) if cell else "",
                    command=gaps.get((method, column), ""),
                    possible=possible,
                )
            )
        paper_value = (entries[0].paper, entries[0].paper_rank) if entries else ("", "")
        rows.append(Row(label(method, methods), tuple(entries), method in ranked, *paper_value))
    requests = _requests(by_name, gaps)
    return FilledTable(
        spec,
        tuple(column.label for column in columns),
        tuple(rows),
        shared,
        _direction(lower),
        tuple(dict.fromkeys(_command(owner, request, options) for owner, request in requests)),
        _time(requests, records or {}),
        sum(not column.further for column in spec.columns if column not in usual),
    )


def _key(place: Cell | Column) -> tuple[object, ...]:
    return place.dataset, place.variant, place.options, place.metric


def _further_columns(spec: TableSpec, cells: Sequence[Cell]) -> list[Column]:
    """Columns for results that the table has no place for, such as another dataset or another value of an option."""
    in_table = {_key(column) for column in spec.columns}
    metrics, variants = ({getattr(column, name) for column in spec.columns} for name in ("metric", "variant"))
    owner = {column.dataset: column.study for column in spec.columns}
    further: dict[tuple[object, ...], Column] = {}
    datasets = {cell.dataset for cell in cells}
    for cell in cells:
        if _key(cell) in in_table or (not spec.number and metrics and cell.metric not in metrics):
            continue
        extra = [cell.title] * (cell.variant not in variants or bool(cell.options))
        extra += [cell.metric.replace("_", " ")] * (cell.metric not in metrics)
        name = ", ".join([label(cell.dataset, datasets), *extra])
        column = Column(
            name, cell.dataset, cell.variant, cell.metric, study=owner.get(cell.dataset, ""), options=cell.options
        )
        further.setdefault(_key(cell), column)
    return list(further.values())


def _published_key(column: Column) -> tuple[str, str, str]:
    return column.dataset, column.published_variant or column.variant, column.published_metric or column.metric


def _published(spec: TableSpec, method: str, column: Column) -> Published | None:
    """What the paper has there; it has nothing with other options."""
    return None if column.options else published().get((spec.study, method, *_published_key(column)))


def _peers(
    study: Study, column: Column, cells: Mapping[tuple[str, Column], Cell], methods: Sequence[str]
) -> dict[str, float]:
    """The means of the cells that were trained alike, as long and on as much: the largest group of them."""
    groups: dict[tuple[object, ...], dict[str, float]] = {}
    for method in methods:
        if cell := cells.get((method, column)):
            values = dict(cell.hparams)
            standing = (cell.lacks, *(values.get(option.name) for option in study.options if option.extent))
            groups.setdefault(standing, {})[method] = cell.mean
    return max(groups.values(), key=len, default={})


def _ranks(means: Mapping[str, float], lower_is_better: bool) -> dict[str, str]:
    """The best and the second-best of at least two finite values; those that are equal share a place."""
    finite = {name: mean for name, mean in means.items() if math.isfinite(mean)}
    order = sorted(finite.values(), reverse=not lower_is_better)
    places = {name: order.index(mean) for name, mean in finite.items()}
    return {name: RANKS[place] for name, place in places.items() if place < len(RANKS)} if len(order) > 1 else {}


def _direction(lower: Mapping[Column, bool]) -> str:
    if len(set(lower.values())) < 2:
        return f"{'lower' if all(lower.values()) else 'higher'} is better"
    return f"lower is better, but higher in {', '.join(column.label for column, low in lower.items() if not low)}"


def _possible(study: Study, method: str, column: Column) -> bool:
    """Whether the study can compute the cell: it knows the names, there are such runs, and they are of this column."""
    for kind, name in (("method", method), ("dataset", column.dataset), ("variant", column.variant)):
        if name not in getattr(study, f"{kind}s") and not (":" in name and kind in study.own_names):
            return False
    values = {option.name: option.default for option in study.options} | dict(column.options)
    where = column.dataset, method, column.variant
    if not study.has(*where, values):
        return False
    with suppress(OSError, RuntimeError, ValueError):  # of a file or module of one's own that is no longer there
        options = Options(extras=hparams(**values), asked=frozenset(dict(column.options)))
        return study.unusual(hparams(**study.values(*where, options))) == column.options
    return True


def _command(study: Study, request: Options, options: Sequence[str]) -> str:
    return shlex.join(["mimogc", "reproduce", studies.called(study), *arguments(study, request), *options])


def _requests(by_name: Mapping[str, Study], gaps: Iterable[tuple[str, Column]]) -> list[tuple[Study, Options]]:
    """As few as fill the gaps and nothing else: a request is for all its methods on all its datasets and variants."""
    datasets: dict[tuple[str, str, HParams, str], tuple[str, ...]] = {}
    for method, column in gaps:
        key = method, column.study, column.options, column.variant
        datasets[key] = (*datasets.get(key, ()), column.dataset)
    variants: dict[tuple[str, str, HParams, tuple[str, ...]], tuple[str, ...]] = {}
    for (method, owner, options, variant), where in datasets.items():
        block = method, owner, options, _ordered(where, by_name[owner].datasets)
        variants[block] = (*variants.get(block, ()), variant)
    methods: dict[tuple[str, Options], tuple[str, ...]] = {}
    for (method, owner, options, where), which in variants.items():
        rest = Options(datasets=where, variants=_ordered(which, by_name[owner].variants), extras=options)
        methods[owner, rest] = (*methods.get((owner, rest), ()), method)
    return [(by_name[owner], replace(rest, methods=who)) for (owner, rest), who in methods.items()]


def _ordered(names: Iterable[str], order: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=lambda name: place(order, name)))


def _time(requests: Sequence[tuple[Study, Options]], records: Mapping[str, Sequence[Record]]) -> str:
    """How long the runs take one after the other, in words."""
    found: list[float] = []
    estimated, rough = 0, False
    for study, request in requests:
        stored = records.get(study.name, ())
        try:
            plan = make_plan(study, request, stored)
        except (UsageError, RuntimeError, OSError):  # a file of one's own that is no longer there
            continue
        seconds, from_another = expected(study, [*plan.todo, *to_come(study, request, plan, stored)], stored)
        estimated += seconds is not None and says_what_follows(study)
        found += [] if seconds is None else [seconds]
        rough |= from_another
    if not found:
        return "an unknown time"
    time = about(sum(found)) if estimated == len(requests) else f"more than {duration(sum(found))}"
    return f"{time} (roughly, from another machine)" if rough else time
