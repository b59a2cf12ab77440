"""The heterophilic study (Table 3): node classification on ten splits, selected on validation, repeated five times."""

import functools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import torch

from mimogc.data import info, list_datasets, load_nodes
from mimogc.data.sources import sha256
from mimogc.experiments.node_training import Task, Trained, train
from mimogc.experiments.run import Outcome, Record, Run, Scalar, hparams
from mimogc.experiments.selection import (
    Difference,
    best_setting,
    cell_of,
    means_by_seed,
    metric_of,
    order_of,
    paired_differences,
)
from mimogc.experiments.study import Cell, Context, Options, Study, UsageError, able
from mimogc.experiments.zinc_models import CALIBRATED
from mimogc.nn.models import METHODS, SUMMED, NodeClassifier
from mimogc.nn.start import calibrate
from mimogc.nn.width import fit_width, num_parameters

LEARNING_RATES = (0.01, 0.003, 0.001)
DROPOUTS = (0.0, 0.25, 0.5)
REPEATS = 5
GRID_SEED = 0  # the repeats have seeds 1, 2, …: what selects is not reported again
EPOCHS, QUICK_EPOCHS = 1000, 100
QUICK_SPLITS = 3
SMALL = 1000  # nodes up to which the splits of a setting are computed together
CURVE_POINTS = 100
SPLITS = 10  # of every dataset in the catalog
AVERAGED = "averaged"  # the variant with the mean over the graphs
PAPER_DATASETS = ("texas", "cornell", "wisconsin", "film", "chameleon", "squirrel")
USUAL = (0.01, 0.25)  # lr and dropout the paper selected most often: for what is not in its table
# Learning rate and dropout that the paper selected, in the order of PAPER_DATASETS.
PAPER_HPARAMS = {
    "gatv2": ((0.01, 0.25), (0.01, 0.25), (0.01, 0.25), (0.01, 0.5), (0.01, 0.25), (0.01, 0.0)),
    "fagcn": ((0.003, 0.5), (0.01, 0.25), (0.01, 0.25), (0.001, 0.5), (0.001, 0.25), (0.01, 0.25)),
    "acm": ((0.01, 0.25), (0.01, 0.25), (0.003, 0.25), (0.01, 0.5), (0.01, 0.25), (0.01, 0.25)),
    "gin": ((0.01, 0.25), (0.01, 0.25), (0.01, 0.25), (0.01, 0.5), (0.003, 0.25), (0.01, 0.25)),
    "lmgc": ((0.01, 0.25), (0.003, 0.25), (0.003, 0.25), (0.001, 0.5), (0.003, 0.0), (0.001, 0.5)),
}
PAPER_HPARAMS["eq12"] = PAPER_HPARAMS["lmgc"]


@functools.lru_cache(maxsize=4)
def task(dataset: str, undirected: bool) -> Task:
    return Task.of(load_nodes(dataset), undirected)


@functools.cache
def width(features: int, classes: int, method: str, layers: int, heads: int, budget: int) -> int:
    """The largest width within the budget of parameters."""
    return fit_width(
        lambda channels: NodeClassifier(features, channels, classes, method, layers, heads), budget
    )


def build(run: Run) -> tuple[NodeClassifier, Task]:
    """The model of a run with its initial weights, which depend on seed and split, and what it is trained on."""
    values = dict(run.hparams)
    found = task(run.dataset, bool(values["undirected"]))
    layers, heads = int(values["layers"]), int(values["heads"])
    features, classes = found.data.num_features, found.data.num_classes
    channels = width(features, classes, run.method, layers, heads, int(values["budget"]))
    torch.manual_seed(1000 * run.seed + run.split)
    dropout, loops = float(values["dropout"]), not values["no_self_loops"]
    combine = "mean" if run.variant.split()[0] == AVERAGED else "sum"
    gain = values.get("gain", "auto")
    model = NodeClassifier(
        features,
        channels,
        classes,
        run.method,
        layers,
        heads,
        dropout,
        loops,
        combine,
        None if gain == "none" else gain,
    )
    if run.method == "lmgc":
        calibrate(model, found.x, found.graph)
    return model, found


def _checked_gain(text: str, method: str) -> float | str:
    """A number, none or auto, which stands for what is usual for the method."""
    try:
        value = text if text in ("auto", "none") else float(text)
    except ValueError:
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"--gain must be a number, auto or none; got {text!r}")
    return "auto" if value == (0.0 if method == "lmgc" else "none") else value


class Heterophilic(Study):
    """The grid over all splits with one seed, then the repeats at what the validation scores select.

    A second variant, `averaged`, is run only when asked for: LMGC and GATv2 with the mean over their graphs, as the
    released code has it, in place of the paper's sum.
    """

    name = "heterophilic"
    title = "Heterophilic node classification (Table 3)"
    methods = METHODS
    datasets = tuple(entry.name for entry in list_datasets() if entry.task == "node classification")
    variants = ("residual", AVERAGED)
    usual: Mapping[str, tuple[str, ...]] = {
        "methods": tuple(method for method in METHODS if method != "eq12"),
        "datasets": PAPER_DATASETS,
        "variants": ("residual",),
    }
    extras: Mapping[str, Scalar] = {
        "epochs": EPOCHS,
        "layers": 2,
        "heads": 4,
        "undirected": False,
        "no_self_loops": False,
        "budget": 100_000,
        "gain": "auto",
    }
    own_names = ("dataset",)

    def runs(self, options: Options) -> list[Run]:
        """The grid; without one, at given hyper-parameters, the repeats themselves."""
        seeds = [GRID_SEED] if self._has_grid(options) else self._repeats(options)
        return [
            run
            for dataset in self._datasets(options)
            for variant in options.variants
            for method in self._methods(variant, options)
            for lr, dropout in self._settings(dataset, method, options)
            for run in self._runs(dataset, method, variant, lr, dropout, seeds, options)
        ]

    def follow_up(self, options: Options, records: Sequence[Record]) -> list[Run]:
        if not self._has_grid(options):
            return []
        selected = dict.fromkeys((cell_of(record), record.run.hparams) for record in self.select(records))
        repeats: list[Run] = []
        for (dataset, method, variant), values in selected:
            chosen = dict(values)
            repeats += self._runs(
                dataset,
                method,
                variant.split()[0],
                float(chosen["lr"]),
                float(chosen["dropout"]),
                self._repeats(options),
                options,
            )
        return repeats

    def _methods(self, variant: str, options: Options) -> list[str]:
        if variant != AVERAGED:
            return list(options.methods)
        return able(options, SUMMED, AVERAGED, f"--variants {AVERAGED} needs")

    def has(self, method: str, variant: str) -> bool:
        return variant.split()[0] != AVERAGED or method in SUMMED

    def _has_grid(self, options: Options) -> bool:
        return not (options.paper_hparams or options.quick)

    def _datasets(self, options: Options) -> tuple[str, ...]:
        named = "datasets" in (options.asked or ())
        return options.datasets[:3] if options.quick and not named else options.datasets

    def _settings(self, dataset: str, method: str, options: Options) -> list[tuple[float, float]]:
        lr, dropout = USUAL
        if dataset in PAPER_DATASETS and method in PAPER_HPARAMS:
            lr, dropout = PAPER_HPARAMS[method][PAPER_DATASETS.index(dataset)]
        if not self._has_grid(options):
            return [(other, dropout) for other in options.lrs or (lr,)]
        return [(lr, dropout) for lr in options.lrs or LEARNING_RATES for dropout in DROPOUTS]

    def _repeats(self, options: Options) -> list[int]:
        return [1 + i for i in range(options.seeds or (1 if options.quick else REPEATS))]

    def _runs(
        self,
        dataset: str,
        method: str,
        variant: str,
        lr: float,
        dropout: float,
        seeds: Sequence[int],
        options: Options,
    ) -> Iterator[Run]:
        extras = dict(options.extras)
        for name in ("epochs", "layers", "heads", "budget"):
            if int(extras[name]) < 1:
                raise UsageError(f"--{name} must be at least 1; got {extras[name]}")
        if options.quick:
            extras["epochs"] = min(int(extras["epochs"]), QUICK_EPOCHS)
        gain = _checked_gain(str(extras.pop("gain")), method)
        if gain != self.extras["gain"]:
            extras["gain"] = gain
        unusual = [
            name if extras[name] is True else f"{name}={extras[name]}"
            for name in ("layers", "heads", "undirected", "no_self_loops", "budget", "gain")
            if extras.get(name, self.extras[name]) != self.extras[name]
        ]
        if method == "lmgc":
            extras["start"] = CALIBRATED
        splits = SPLITS
        if dataset.startswith("npz:"):
            splits = task(dataset, bool(extras["undirected"])).data.num_splits
            extras["data"] = sha256(Path(dataset.removeprefix("npz:")).expanduser())[:16]
        for seed in seeds:
            for split in range(min(splits, QUICK_SPLITS) if options.quick else splits):
                values = hparams(lr=lr, dropout=dropout, **extras)
                yield Run(self.name, dataset, method, " ".join([variant, *unusual]), values, split, seed)

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        """The splits of one setting together where the graph is small, large graphs one by one and first."""

        def group(run: Run) -> tuple[object, ...]:
            size = 0 if run.dataset.startswith("npz:") else info(run.dataset).nodes
            alone = run.split if size > SMALL else -1
            return -size, run.dataset, run.method, run.variant, run.hparams, run.seed, alone

        together = groupby(sorted(runs, key=lambda run: (*group(run), run.split)), key=group)
        return [tuple(batch) for _, batch in together]

    def prepare(self, runs: Sequence[Run]) -> None:
        for dataset in dict.fromkeys(run.dataset for run in runs):
            load_nodes(dataset)

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        outcomes = []
        for done, run in enumerate(batch):
            model, found = build(run)
            values = dict(run.hparams)
            epochs = int(values["epochs"])

            def tell(epoch: int, best: float, done: int = done, epochs: int = epochs) -> None:
                if epoch % 10 == 0:
                    context.progress((done + epoch / epochs) / len(batch), {"val": best})

            trained = train(model, found, run.split, float(values["lr"]), epochs, tell)
            outcomes.append(outcome(trained, found.data.metric, model))
        return outcomes

    def select(self, records: Sequence[Record]) -> list[Record]:
        """For each cell the repeats at the hyper-parameters with the best mean validation score.

        The mean is over all splits of the grid's seed, or of the repeats where no grid was run; a setting that
        lacks splits is not selected. While there are no repeats yet the grid's own runs stand for them. Of what is
        stored for a cell the longest training counts.
        """
        chosen: list[Record] = []
        for _, group in groupby(sorted(records, key=order_of), key=cell_of):
            cell = list(group)
            longest = max(int(dict(record.run.hparams)["epochs"]) for record in cell)
            cell = [record for record in cell if dict(record.run.hparams)["epochs"] == longest]
            grid = [record for record in cell if record.run.seed == GRID_SEED]
            best = best_setting(grid or cell)
            at_best = [record for record in cell if record.run.hparams == best]
            repeats = [record for record in at_best if record.run.seed != GRID_SEED]
            chosen += repeats or at_best
        return chosen

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        cells = []
        for key, group in groupby(self.select(records), key=cell_of):
            repeats = list(group)
            metric = metric_of(repeats[0])
            means = means_by_seed(repeats)
            std = statistics.stdev(means) if len(means) > 1 else math.nan
            values = repeats[0].run.hparams
            splits = len({record.run.split for record in repeats})
            known = not key[0].startswith("npz:")  # how many splits there should be
            lacks = f"{splits} of {SPLITS} splits" if known and splits < SPLITS else ""
            cells.append(Cell(*key, metric, statistics.fmean(means), std, len(means), REPEATS, values, lacks))
        order = (*self.datasets, *sorted({cell.dataset for cell in cells} - set(self.datasets)))
        return sorted(cells, key=lambda c: (c.variant, order.index(c.dataset), self.methods.index(c.method)))

    def differences(self, records: Sequence[Record], method: str = "lmgc") -> list[Difference]:
        """How far `method` is ahead of every other one, paired over the splits, each averaged over the repeats."""
        return paired_differences(self.select(records), method)


def outcome(trained: Trained, metric: str, model: NodeClassifier) -> Outcome:
    step = max(1, math.ceil(len(trained.losses) / CURVE_POINTS))
    return Outcome(
        metrics={
            f"test_{metric}": trained.test,
            f"val_{metric}": trained.val,
            f"train_{metric}": trained.train,
            "best_epoch": trained.best_epoch,
            "epochs": trained.epochs,
            "parameters": num_parameters(model),
            "channels": model.encoder.weight.size(1),
            "seconds_per_epoch": trained.seconds / trained.epochs,
        },
        curves={
            "epoch": [float(1 + i) for i in range(0, len(trained.losses), step)],
            "loss": trained.losses[::step],
            f"val_{metric}": trained.vals[::step],
        },
        seconds=trained.seconds,
        status="diverged" if trained.diverged else "done",
    )


STUDY = Heterophilic()
