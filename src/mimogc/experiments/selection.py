"""Selection on validation, means over repeats and paired differences, for studies whose runs have splits."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from mimogc.experiments.run import HParams, Record


@dataclass(frozen=True)
class Difference:
    """How much a method is ahead of another on the same splits, in the unit of the metric."""

    dataset: str
    variant: str
    method: str
    against: str
    metric: str
    mean: float
    standard_error: float  # over splits
    splits: int


def cell_of(record: Record) -> tuple[str, str, str]:
    """The cell of the table a record belongs to."""
    return record.run.dataset, record.run.method, record.run.variant


def order_of(record: Record) -> tuple[object, ...]:
    """By cell, then setting, then repeat."""
    return *cell_of(record), record.run.hparams, record.run.seed, record.run.split


def metric_of(record: Record) -> str:
    """The name of the test metric: test_accuracy, test_roc_auc."""
    return next(name for name in record.outcome.metrics if name.startswith("test_"))


def best_setting(records: Sequence[Record]) -> HParams:
    """The setting with the highest mean validation score among those with the most runs."""
    settings: dict[HParams, list[float]] = {}
    for record in records:
        val = record.outcome.metrics[metric_of(record).replace("test_", "val_")]
        settings.setdefault(record.run.hparams, []).append(val if math.isfinite(val) else -math.inf)
    most = max(len(vals) for vals in settings.values())
    complete = {values: vals for values, vals in settings.items() if len(vals) == most}
    return max(complete, key=lambda values: statistics.fmean(complete[values]))


def means_by_seed(repeats: Sequence[Record]) -> list[float]:
    """The mean test score over the splits, for every repeat that has as many splits as the fullest."""
    by_seed: dict[int, list[float]] = {}
    for record in repeats:
        by_seed.setdefault(record.run.seed, []).append(record.outcome.metrics[metric_of(record)])
    splits = max(len(scores) for scores in by_seed.values())
    return [statistics.fmean(scores) for scores in by_seed.values() if len(scores) == splits]


def paired_differences(selected: Sequence[Record], method: str) -> list[Difference]:
    """How far `method` is ahead of every other one: the difference on each split, averaged over the repeats."""
    scores: dict[tuple[str, str, str, str], dict[int, list[float]]] = {}
    for record in selected:
        dataset, name, variant = cell_of(record)
        by_split = scores.setdefault((dataset, variant, metric_of(record), name), {})
        by_split.setdefault(record.run.split, []).append(record.outcome.metrics[metric_of(record)])
    found = []
    for (dataset, variant, metric, other), theirs in scores.items():
        ours = scores.get((dataset, variant, metric, method), {})
        shared = ours.keys() & theirs.keys()
        if other == method or not shared:
            continue
        gaps = [statistics.fmean(ours[split]) - statistics.fmean(theirs[split]) for split in sorted(shared)]
        error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
        mean = statistics.fmean(gaps)
        found.append(Difference(dataset, variant, method, other, metric, mean, error, len(gaps)))
    return found
