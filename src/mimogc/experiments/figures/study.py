"""The figures as a study: a run measures the numbers of one figure, stores them, and draws it beside the store."""

import math
import time
from collections.abc import Sequence

from mimogc.experiments.figures.catalog import FIGURES, draw
from mimogc.experiments.run import Outcome, Record, Run, hparams
from mimogc.experiments.study import Cell, Context, Options, Study, UsageError

FOLDER = "figures"  # beside the store


class Figures(Study):
    """One run per figure. Real graphs are part of it where their data is already on this machine, not in --quick."""

    name = "figures"
    title = "Figures: filters, amplification, depth, special cases"
    methods = ("all",)
    datasets = ("synthetic", "texas", "chameleon", "zinc12k", "squirrel")
    variants = tuple(FIGURES)

    def runs(self, options: Options) -> list[Run]:
        for option, given in (
            ("--lr", options.lrs), ("--seeds", options.seeds), ("--paper-hparams", options.paper_hparams)
        ):  # fmt: skip
            if given:
                raise UsageError(f"{option} is for studies that train; figures has no use for it")
        chosen = {"synthetic"} & set(options.datasets)
        if not options.quick:
            chosen |= {dataset for dataset in options.datasets if _wanted(dataset, options)}
        return [
            Run(self.name, figure.dataset, "all", name, hparams(), 0, 0)
            for name, figure in FIGURES.items()
            if name in options.variants and figure.dataset in chosen
        ]

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        return [(run,) for run in runs]

    def prepare(self, runs: Sequence[Run]) -> None:
        from mimogc.data import load_molecules, load_nodes

        for dataset in dict.fromkeys(run.dataset for run in runs if run.dataset != "synthetic"):
            _ = load_molecules(dataset) if dataset == "zinc12k" else load_nodes(dataset)

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        outcomes = []
        for run in batch:
            start = time.perf_counter()
            numbers = FIGURES[run.variant].numbers(lambda fraction: context.progress(fraction, {}))
            # The folder of a batch is two levels below that of the store.
            draw(run.variant, context.folder.parent.parent / FOLDER, numbers)
            outcomes.append(Outcome(_metrics(numbers), numbers, time.perf_counter() - start))
        return outcomes

    def select(self, records: Sequence[Record]) -> list[Record]:
        return list(records)

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        return [
            Cell(record.run.dataset, method, record.run.variant, metric, value, math.nan, 1, 1, ())
            for record in records
            for key, value in record.outcome.metrics.items()
            for method, metric in [key.split(" ", 1)]
        ]


def _wanted(dataset: str, options: Options) -> bool:
    """Whether a real graph is drawn: always if asked for by name, else if no download is needed."""
    from mimogc.data import verify

    if dataset == "synthetic":
        return True
    return "synthetic" not in options.datasets or all(file.state != "missing" for file in verify([dataset]))


def _metrics(numbers: dict[str, list[float]]) -> dict[str, float]:
    """What a table can show of a figure: the last value of each curve over depth, the ranks of each amplification."""
    metrics = {}
    for key, values in numbers.items():
        if key.endswith(("effective rank", "rank-one distance")):
            metrics[key] = values[-1]
        elif key.endswith(
            (" features", " gradients")
        ):  # of scales over depth: methods there have names of words
            name, _, side = key.rpartition(" ")
            metrics[
                f"{name.replace(', ', '-').replace(' ', '')} {side} at {numbers['depth'][-1]:.0f} layers"
            ] = values[-1]
        elif key.endswith("ranks and coupling"):
            method = key.partition(" ")[0]
            metrics |= {f"{method} operator rank": values[0], f"{method} coupling": values[2]}
    return metrics


STUDY = Figures()
