"""The molecule studies: ZINC12k in five variants (Table 2), and train error, test error and time on ZINC (Table 8)."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from mimogc.experiments.graph_training import History, Trained, train
from mimogc.experiments.run import HParams, Outcome, Record, Run, Scalar, hparams
from mimogc.experiments.selection import cell_of, order_of
from mimogc.experiments.study import Cell, Context, Options, Study, UsageError, able, known
from mimogc.experiments.zinc_models import (
    BONDS_SETTING,
    CALIBRATED,
    PAPER_VARIANTS,
    TABLE_2,
    TABLE_8,
    VARIANTS,
    build,
    encoding_of,
    task,
)
from mimogc.nn.models import BOND_METHODS, GraphRegressor
from mimogc.nn.width import num_parameters

PAPER_METHODS = ("gatv2", "fagcn", "acm", "gin", "lmgc")
METHODS = (*PAPER_METHODS, "eq12")
LAYERS = (6, 8, 10)
LEARNING_RATES = (0.001, 0.0003, 0.0001)
SEEDS = 4
QUICK_EPOCHS, QUICK_MOLECULES = 10, 1000
CURVE_POINTS = 200
SIZES = {"zinc12k": 10_000, "zinc": 220_011}  # training molecules


class MoleculeStudy(Study):
    """The grid over layers and learning rates, every setting with all seeds, selected on validation."""

    methods = METHODS

    def runs(self, options: Options) -> list[Run]:
        extras = self._extras(options)
        return [
            self._run(method, variant, layers, lr, seed, extras)
            for variant in self._variants(options)
            for method in self._methods(variant, options)
            for layers, lr in self._settings(method, variant, options)
            for seed in range(options.seeds or (1 if options.quick else SEEDS))
        ]

    def _extras(self, options: Options) -> dict[str, Scalar]:
        """The study's own options, checked; smaller where it should be quick."""
        extras = dict(options.extras)
        for name in ("epochs", "heads", "budget", "molecules"):
            if int(extras[name]) < 1:
                raise UsageError(f"--{name} must be at least 1; got {extras[name]}")
        if int(extras["molecules"]) > int(self.extras["molecules"]):
            raise UsageError(f"--molecules: there are {self.extras['molecules']}; got {extras['molecules']}")
        if not math.isfinite(float(extras["gain"])):
            raise UsageError(f"--gain must be a number; got {extras['gain']}")
        plain = [name for name in self._variants(options) if not VARIANTS[name].get("residual")]
        if extras["gain"] != self.extras["gain"] and plain:
            raise UsageError(f"--gain is for variants with residual connections; got {', '.join(plain)}")
        extras["pe"] = known("positional encoding", str(extras["pe"]), ("none", "lappe", "rwse"))
        if options.quick:
            extras["epochs"] = min(int(extras["epochs"]), QUICK_EPOCHS)
            extras["molecules"] = min(int(extras["molecules"]), QUICK_MOLECULES)
        return extras

    def _variants(self, options: Options) -> tuple[str, ...]:
        named = "variants" in (options.asked or ())
        return options.variants[:1] if options.quick and not named else options.variants

    def _methods(self, variant: str, options: Options) -> list[str]:
        if dict(options.extras)["edge_features"]:
            return able(replace(options, variants=(variant,)), BOND_METHODS, variant, "edge features need")
        if all(self.has(method, variant) for method in options.methods):
            return list(options.methods)
        return able(options, BOND_METHODS, variant, "edge features need")

    def has(self, method: str, variant: str) -> bool:
        return not VARIANTS[variant.split()[0]].get("bonds") or method in BOND_METHODS

    def _settings(self, method: str, variant: str, options: Options) -> list[tuple[int, float]]:
        if variant == "bonds":
            layers, lr = BONDS_SETTING
            return [(layers, other) for other in options.lrs or (lr,)]
        if options.paper_hparams or options.quick:
            layers, lr = self._selected_by_paper(method, variant)
            return [(layers, other) for other in options.lrs or (lr,)]
        return [(layers, lr) for layers in LAYERS for lr in options.lrs or LEARNING_RATES]

    def _selected_by_paper(self, method: str, variant: str) -> tuple[int, float]:
        return TABLE_2[method][list(PAPER_VARIANTS).index(variant)]

    def _run(
        self, method: str, variant: str, layers: int, lr: float, seed: int, extras: Mapping[str, Scalar]
    ) -> Run:
        unusual = [
            name if extras[name] is True else f"{name}={extras[name]}"
            for name in ("edge_features", "pe", "heads", "budget", "gain")
            if extras[name] != self.extras[name]
        ]
        own = {name: value for name, value in extras.items() if name != "gain"}
        if extras["gain"] != self.extras["gain"]:
            own["gain"] = extras["gain"]
        if method == "lmgc":
            own["start"] = CALIBRATED
        values = hparams(lr=lr, layers=layers, **own)
        return Run(self.name, self.datasets[0], method, " ".join([variant, *unusual]), values, 0, seed)

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        return [(run,) for run in runs]

    def prepare(self, runs: Sequence[Run]) -> None:
        for run in runs:
            task(run.dataset, encoding_of(run), int(dict(run.hparams)["molecules"]))

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        (run,) = batch
        values = dict(run.hparams)
        epochs = int(values["epochs"])

        def tell(epoch: int, history: History) -> None:
            now = {"val": history.vals[-1], "best": history.best_val, "train": history.losses[-1]}
            context.progress(epoch / epochs, now)

        model, found = build(run)
        checkpoint = context.folder / "last.pt"
        return [outcome(train(model, found, float(values["lr"]), epochs, run.seed, checkpoint, tell), model)]

    def select(self, records: Sequence[Record]) -> list[Record]:
        """For each cell all seeds of the setting with the lowest mean validation error."""
        return [record for cell in _cells(records) for record in best_records(cell, "val_mae")]

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        cells = [_cell(best_records(cell, "val_mae"), "test_mae") for cell in _cells(records)]
        return sorted(cells, key=self._place)

    def _place(self, cell: Cell) -> tuple[object, ...]:
        first = cell.variant.split()[0]
        return self.variants.index(first), cell.variant, self.methods.index(cell.method)


class Zinc12k(MoleculeStudy):
    """Table 2: five variants of every method, the test error at what validation selects.

    A sixth variant, `bonds`, is beyond the paper and run only when asked for: bond types add a term to the score and
    a message α_k·e_k(type), with residual connections, batch norm and random-walk encodings; 8 layers, K = 4, within
    the same budget of parameters: ``mimogc reproduce zinc12k --methods lmgc --variants bonds --epochs 200``.
    """

    name = "zinc12k"
    title = "ZINC12k, five variants (Table 2)"
    datasets = ("zinc12k",)
    variants = tuple(VARIANTS)
    usual: Mapping[str, tuple[str, ...]] = {"methods": PAPER_METHODS, "variants": tuple(PAPER_VARIANTS)}
    extras: Mapping[str, Scalar] = {
        "epochs": 1000,
        "edge_features": False,
        "pe": "none",
        "heads": 4,
        "budget": 100_000,
        "molecules": SIZES["zinc12k"],
        "gain": 1.0,
    }


class Zinc(MoleculeStudy):
    """Table 8: the train error at the setting that has the lowest, the test error at the one validation selects."""

    name = "zinc"
    title = "Train error, test error and time on ZINC (Table 8)"
    datasets = ("zinc",)
    variants = ("basic",)
    usual: Mapping[str, tuple[str, ...]] = {"methods": PAPER_METHODS}
    extras: Mapping[str, Scalar] = {**Zinc12k.extras, "epochs": 200, "molecules": SIZES["zinc"]}

    def _selected_by_paper(self, method: str, variant: str) -> tuple[int, float]:
        return TABLE_8[method]

    def _shown(self, records: Sequence[Record]) -> list[Record]:
        return [record for record in records if record.run.variant.split()[0] in self.variants]

    def select(self, records: Sequence[Record]) -> list[Record]:
        """For each cell the seeds of both selected settings; those that validation selected come first."""
        chosen: dict[str, Record] = {}
        for cell in _cells(self._shown(records)):
            both = best_records(cell, "val_mae") + best_records(cell, "train_mae")
            chosen.update((record.run.id, record) for record in both)
        return list(chosen.values())

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        """Train error, test error and seconds per epoch; also of ZINC12k, from the records of its own study."""
        cells = []
        for cell in _cells(self._shown(records)):
            validated = best_records(cell, "val_mae")
            cells += [
                _cell(best_records(cell, "train_mae"), "train_mae"),
                _cell(validated, "test_mae"),
                _cell(validated, "seconds_per_epoch"),
            ]
        return sorted(cells, key=self._place)


def _cells(records: Sequence[Record]) -> list[list[Record]]:
    """The records of each cell; of what is stored for it the longest training on most molecules counts."""
    cells = []
    for _, group in groupby(sorted(records, key=order_of), key=cell_of):
        cell = list(group)
        most = max(_extent(record) for record in cell)
        cells.append([record for record in cell if _extent(record) == most])
    return cells


def _extent(record: Record) -> tuple[Scalar, Scalar]:
    values = dict(record.run.hparams)
    return values["molecules"], values["epochs"]


def best_records(cell: Sequence[Record], metric: str) -> list[Record]:
    """The records of the setting with the lowest mean of the metric, among the settings with most seeds."""
    settings: dict[HParams, list[Record]] = {}
    for record in cell:
        settings.setdefault(record.run.hparams, []).append(record)
    most = max(len(group) for group in settings.values())
    complete = [group for group in settings.values() if len(group) == most]
    return min(complete, key=lambda group: statistics.fmean(_values(group, metric)))


def _values(records: Sequence[Record], metric: str) -> list[float]:
    values = [record.outcome.metrics[metric] for record in records]
    return [value if math.isfinite(value) else math.inf for value in values]


def _cell(records: Sequence[Record], metric: str) -> Cell:
    values = _values(records, metric)
    finite = len(values) > 1 and all(map(math.isfinite, values))
    std = statistics.stdev(values) if finite else math.nan
    first = records[0].run
    return Cell(
        first.dataset, first.method, first.variant, metric, statistics.fmean(values), std, len(values), SEEDS,
        first.hparams,
    )  # fmt: skip


def outcome(trained: Trained, model: GraphRegressor) -> Outcome:
    history = trained.history
    step = max(1, math.ceil(len(history.losses) / CURVE_POINTS))
    return Outcome(
        metrics={
            "test_mae": trained.test,
            "val_mae": trained.val,
            "train_mae": trained.train,
            "best_epoch": history.best_epoch,
            "epochs": len(history.losses),
            "parameters": num_parameters(model),
            "channels": model.hidden.in_features,
            "seconds_per_epoch": trained.seconds_per_epoch,
        },
        curves={
            "epoch": [float(1 + i) for i in range(0, len(history.losses), step)],
            "train_mae": history.losses[::step],
            "val_mae": history.vals[::step],
        },
        seconds=history.seconds,
        status="diverged" if history.diverged else "done",
    )


ZINC12K = Zinc12k()
ZINC = Zinc()
