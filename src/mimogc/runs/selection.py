"""From records to cells: which trainings count, which setting is best, means over repeats, paired differences."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from mimogc.runs.options import variant_title
from mimogc.runs.run import HParams, Record, Run, Scalar

if TYPE_CHECKING:
    from mimogc.runs.study import Study


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table: mean and standard deviation over the repeats at the selected hyper-parameters."""

    dataset: str
    method: str
    variant: str
    metric: str
    mean: float
    std: float
    count: int  #: repeats behind the mean
    expected: int  #: repeats of a complete cell
    hparams: HParams  #: the selected ones
    lacks: str = ""  #: what each repeat lacks, such as "4 of 10 splits"
    options: HParams = ()  #: the options of the study that are not as usual
    diverged: int = 0  #: of the runs behind the mean

    @property
    def title(self) -> str:
        """The variant with its options."""
        return variant_title(self.variant, self.options)


@dataclass(frozen=True)
class Difference:
    """How much a method is ahead of another on the same splits or seeds, in the unit of the metric."""

    dataset: str
    variant: str
    method: str
    against: str
    metric: str
    mean: float
    standard_error: float  # over the pairs
    pairs: int


def place(names: Sequence[str], name: str) -> tuple[int, str]:
    """Where a name stands in an order; unknown ones come last."""
    return names.index(name) if name in names else len(names), name


def cells(study: "Study", records: Iterable[Record]) -> list[list[Record]]:
    """The records of each cell of the table, in the study's order; of each cell only its longest training counts."""

    def cell(record: Record) -> tuple[object, ...]:
        run = record.run
        options = variant_title("", study.unusual(run.hparams))
        where = place(study.variants, run.variant), options, place(study.datasets, run.dataset)
        return *where, place(study.methods, run.method)

    def order(record: Record) -> tuple[object, ...]:
        return cell(record), comparable(record.run.hparams), record.run.seed, record.run.split

    found = []
    for _, group in groupby(sorted(records, key=order), key=cell):
        members = list(group)
        longest = max((extent(study, record.run) for record in members), key=_sizes)
        found.append([record for record in members if extent(study, record.run) == longest])
    return found


def comparable(values: HParams) -> list[tuple[str, bool, Scalar]]:
    """Hyper-parameters as a key to sort by: where one is a text here and a number there, numbers come first."""
    return [(name, isinstance(value, str), value) for name, value in values]


def extent(study: "Study", run: Run) -> tuple[Scalar, ...]:
    """How much a run computes: the values of the study's options that say so."""
    values = dict(run.hparams)
    return tuple(values.get(option.name, option.default) for option in study.options if option.extent)


def _sizes(values: tuple[Scalar, ...]) -> list[tuple[bool, Scalar]]:
    return [(isinstance(value, str), value) for value in values]


def best(study: "Study", records: Iterable[Record], metric: str) -> list[Record]:
    """The records of the setting with the best mean of the metric, among the settings with the most records."""
    settings: dict[HParams, list[Record]] = {}
    for record in records:
        settings.setdefault(record.run.hparams, []).append(record)
    most = max(map(len, settings.values()))
    sign = 1 if study.lower_is_better(metric) else -1
    complete = [group for group in settings.values() if len(group) == most]
    return min(complete, key=lambda group: sign * statistics.fmean(scores(study, group, metric)))


def scores(study: "Study", records: Iterable[Record], metric: str) -> list[float]:
    """The values of a metric; what is not finite is as bad as can be."""
    worst = math.inf if study.lower_is_better(metric) else -math.inf
    values = [_value(record, metric) for record in records]
    return [value if math.isfinite(value) else worst for value in values]


def _value(record: Record, metric: str) -> float:
    if metric not in record.outcome.metrics:
        given = ", ".join(record.outcome.metrics) or "none"
        raise ValueError(f"expected the metric {metric!r} in every run, got {given} in {record.run.label()}")
    return record.outcome.metrics[metric]


def cell_of(
    study: "Study", records: Sequence[Record], metric: str, values: Sequence[float] = (), **more: object
) -> Cell:
    """The cell of records at one setting: over the ``values`` of their repeats, or of the metric in each record."""
    run = records[0].run
    found = list(values) or scores(study, records, metric)
    spread = statistics.stdev(found) if len(found) > 1 and all(map(math.isfinite, found)) else math.nan
    given = {"expected": max(1, study.seeds), "options": study.unusual(run.hparams), **more}
    given["diverged"] = sum(record.status == "diverged" for record in records)
    numbers = statistics.fmean(found), spread, len(found)
    return Cell(run.dataset, run.method, run.variant, metric, *numbers, hparams=run.hparams, **given)  # type: ignore[arg-type]


def lacks(study: "Study", cell: Cell) -> list[str]:
    """How a value falls short of the full study: fewer repeats or splits, or shorter training as with --quick."""
    found = [f"{cell.count} of {cell.expected} repeats"] if cell.count < cell.expected else []
    found += [cell.lacks] if cell.lacks else []
    values = dict(cell.hparams)
    for option in study.options:
        full = study.full(option, cell.dataset, cell.variant)
        if option.extent and values.get(option.name, full) < full:  # type: ignore[operator]
            found.append(f"{values[option.name]:,} of {full:,} {option.name}")
    return found


def diverged(cell: Cell) -> list[str]:
    """How many of the runs diverged, which no further run would mend."""
    return [f"{cell.diverged:,} {'run' if cell.diverged == 1 else 'runs'} diverged"] if cell.diverged else []


def metric_of(record: Record) -> str:
    """The name of the test metric: test_accuracy, test_roc_auc."""
    return next(name for name in record.outcome.metrics if name.startswith("test_"))


def means_by_seed(repeats: Iterable[Record]) -> list[float]:
    """The mean test score over the splits, for every repeat that has as many splits as the fullest."""
    by_seed: dict[int, list[float]] = {}
    for record in repeats:
        by_seed.setdefault(record.run.seed, []).append(record.outcome.metrics[metric_of(record)])
    splits = max(map(len, by_seed.values()))
    return [statistics.fmean(values) for values in by_seed.values() if len(values) == splits]


def paired_differences(
    study: "Study", selected: Iterable[Record], method: str, pair: Callable[[Run], int]
) -> list[Difference]:
    """How far `method` is ahead of every other one: the difference in each `pair` of runs, means of its repeats.

    Only with methods that were trained for as long as `method`, and where no run of either diverged.
    """
    found: dict[tuple[str, str, str, str], dict[int, list[float]]] = {}
    length: dict[tuple[str, str, str, str], tuple[Scalar, ...]] = {}
    without: set[tuple[str, str, str, str]] = set()
    for record in selected:
        run, metric = record.run, metric_of(record)
        cell = run.dataset, run.variant, metric, run.method
        length[cell] = extent(study, run)
        if record.status == "diverged":
            without.add(cell)
        by_pair = found.setdefault(cell, {})
        by_pair.setdefault(pair(run), []).append(record.outcome.metrics[metric])
    differences = []
    for (dataset, variant, metric, other), theirs in found.items():
        lead, cell = (dataset, variant, metric, method), (dataset, variant, metric, other)
        ours = found.get(lead, {})
        shared = ours.keys() & theirs.keys()
        if other == method or not shared or length[lead] != length[cell] or without & {lead, cell}:
            continue
        sign = -1 if study.lower_is_better(metric) else 1
        gaps = [sign * (statistics.fmean(ours[key]) - statistics.fmean(theirs[key])) for key in sorted(shared)]
        spread = statistics.stdev(gaps) if len(gaps) > 1 and all(map(math.isfinite, gaps)) else math.nan
        error, mean = spread / math.sqrt(len(gaps)), statistics.fmean(gaps)
        differences.append(Difference(dataset, variant, method, other, metric, mean, error, len(gaps)))
    return differences
