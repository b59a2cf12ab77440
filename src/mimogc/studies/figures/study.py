"""The figures as a study: a run measures the numbers of one figure, stores them, and draws it beside the store."""

import math
import time
from collections.abc import Mapping, Sequence

from mimogc.runs.run import Outcome, Record, Run, Scalar
from mimogc.runs.selection import Cell
from mimogc.runs.study import Context, Options, Study
from mimogc.studies.figures.catalog import FIGURES, draw

FOLDER = "figures"  # beside the store


class Figures(Study):
    """One run per figure. Real graphs are part of it where their data is already on this machine, not in --quick."""

    name = "figures"
    title = "Figures: filters, amplification, depth, special cases"
    methods = ("all",)
    datasets = ("synthetic", "texas", "chameleon", "zinc12k", "squirrel")
    variants = tuple(FIGURES)

    quick: Mapping[str, tuple[str, ...]] = {"datasets": ("synthetic",)}
    seeds = 0

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        return FIGURES[variant].dataset == dataset

    def runs(self, options: Options) -> list[Run]:
        there = {dataset for dataset in options.datasets if "datasets" in options.asked or _is_there(dataset)}
        return [run for run in super().runs(options) if run.dataset in there]

    def prepare(self, runs: Sequence[Run]) -> None:
        from mimogc.data import load_molecules, load_nodes

        for dataset in dict.fromkeys(run.dataset for run in runs if run.dataset != "synthetic"):
            _ = load_molecules(dataset) if dataset == "zinc12k" else load_nodes(dataset)

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        outcomes = []
        for run in batch:
            start = time.perf_counter()
            numbers = FIGURES[run.variant].numbers(lambda fraction: context.progress(fraction, {}))
            draw(run.variant, context.results / FOLDER, numbers)
            outcomes.append(Outcome(_metrics(numbers), numbers, time.perf_counter() - start))
        return outcomes

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        return [
            Cell(record.run.dataset, method, record.run.variant, metric, value, math.nan, 1, 1, ())
            for record in records
            for key, value in record.outcome.metrics.items()
            for method, metric in [key.split(" ", 1)]
        ]


def _is_there(dataset: str) -> bool:
    """Whether a dataset needs no download; those that do are drawn only if asked for by name."""
    from mimogc.data import verify

    return dataset == "synthetic" or all(file.state != "missing" for file in verify([dataset]))


def _metrics(numbers: dict[str, list[float]]) -> dict[str, float]:
    """What a table can show of a figure: the last value of each curve over depth, the ranks of each amplification."""
    metrics = {}
    for key, values in numbers.items():
        if key.endswith(("effective rank", "rank-one distance")):
            metrics[key] = values[-1]
        elif key.endswith((" features", " gradients")):  # of scales over depth: methods there have names of words
            name, _, side = key.rpartition(" ")
            name = name.replace(", ", "-").replace(" ", "")
            metrics[f"{name} {side} at {numbers['depth'][-1]:.0f} layers"] = values[-1]
        elif key.endswith("ranks and coupling"):
            method = key.partition(" ")[0]
            metrics |= {f"{method} operator rank": values[0], f"{method} coupling": values[2]}
    return metrics


STUDY = Figures()
