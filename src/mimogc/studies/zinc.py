"""The molecule studies: ZINC12k in five variants (Table 2), and train error, test error and time on ZINC (Table 8)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mimogc import methods
from mimogc.runs.options import Option
from mimogc.runs.run import Outcome, Record, Run, Scalar, thinned
from mimogc.runs.selection import Cell, best, cell_of, cells
from mimogc.runs.study import Context, Options
from mimogc.studies.own_methods import MethodStudy, selected_by_paper, takes
from mimogc.studies.zinc_models import (
    PAPER_VARIANTS,
    SMALL_BRANCHES,
    TYPED_SETTING,
    TYPED_VARIANTS,
    USUAL,
    VARIANTS,
    build,
    task_of,
)

if TYPE_CHECKING:  # what needs torch is imported by the functions that train
    from mimogc.models import GraphRegressor
    from mimogc.training.graphs import History, MoleculeTask

PAPER_METHODS = methods.names(lambda record: record.role == "paper")
LAYERS = (6, 8, 10)
CURVE_POINTS = 200
SIZES = {"zinc12k": 10_000, "zinc": 220_011}  # training molecules


def molecule_options(epochs: int, molecules: int) -> tuple[Option, ...]:
    size = "training molecules to use, the first ones"
    return (
        Option("molecules", molecules, size, least=1, most=molecules, extent=True, quick=1000),
        Option("epochs", epochs, "epochs of training", least=1, extent=True, quick=10),
        Option("edge_features", False, "bond types in scores and messages"),
        Option("pe", "none", "positional encoding", choices=("none", "lappe", "rwse")),
        Option("heads", 4, "computational graphs per layer", least=1),
        Option("budget", 100_000, "most parameters of a model", least=1),
        Option("gain", 1.0, "learnt factor of residual branches at the start; not given: 1, not learnt", late=True),
    )


class MoleculeStudy(MethodStudy):
    """The grid over layers and learning rates, every setting with all seeds, selected on validation."""

    lrs = (0.001, 0.0003, 0.0001)
    seeds = 4
    metric, selects = "test_mae", "val_mae"

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        parts = VARIANTS.get(variant, {})
        if values.get("gain", 1.0) != 1.0 and not parts.get("residual"):
            return False
        return takes(method, "edge_dim") or not (variant in TYPED_VARIANTS or values.get("edge_features"))

    def values(self, dataset: str, method: str, variant: str, options: Options) -> dict[str, Scalar]:
        values = super().values(dataset, method, variant, options)
        if "gain" in options.asked:
            values["gain"] = options.values["gain"]  # also where it is the usual number, which is not learnt
        if variant in TYPED_VARIANTS and "start" in values and "gain" not in values:
            values["start"] = SMALL_BRANCHES
        return values

    def settings(self, dataset: str, method: str, variant: str, options: Options) -> list[Mapping[str, Scalar]]:
        typed = variant in TYPED_VARIANTS
        if not (typed or options.paper_hparams or options.quick):
            return [{"layers": layers, "lr": lr} for layers in LAYERS for lr in options.lrs or self.lrs]
        layers, lr = TYPED_SETTING if typed else self._selected_by_paper(method, variant)
        return [{"layers": layers, "lr": other} for other in options.lrs or (lr,)]

    def _selected_by_paper(self, method: str, variant: str) -> tuple[int, float]:
        """Layers and learning rate, of the variants in their order; the same for the train and the test error."""
        table = selected_by_paper(self.name)
        layers, lr = table.get(method, table[USUAL])[list(PAPER_VARIANTS).index(variant)]
        return layers, lr

    def compared(self, records: Sequence[Record]) -> list[Record]:
        """The seeds of what validation selected."""
        return [record for cell in cells(self, records) for record in best(self, cell, self.selects)]

    def rough_seconds(self, run: Run) -> float:
        record = methods.find(run.method)
        return 1e-4 * (methods.Method.cost if record is None else record.cost)

    def prepare(self, runs: Sequence[Run]) -> None:
        for run in runs:
            task_of(run)

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        (run,) = batch
        return [train_run(run, *build(run), context)]


class Zinc12k(MoleculeStudy):
    """Table 2: five variants of every method, the test error at what validation selects.

    Three variants more are beyond the paper and run only when asked for. In `bonds` the bond types add a term to the
    score and a message α_k·e_k(type), with residual connections, batch norm and random-walk encodings; 8 layers, K = 4,
    within the same budget of parameters. In `rings` the atoms of a ring are joined too, by edges of their own types; in
    `structure` as well, without what kind of bond it is: ``mimogc reproduce zinc12k --methods lmgc --variants rings``.
    """

    name = "zinc12k"
    title = "ZINC12k, five variants (Table 2)"
    datasets = ("zinc12k",)
    variants = tuple(VARIANTS)
    usual: Mapping[str, tuple[str, ...]] = {"methods": PAPER_METHODS, "variants": tuple(PAPER_VARIANTS)}
    quick: Mapping[str, tuple[str, ...]] = {"variants": ("basic",)}
    options = molecule_options(epochs=1000, molecules=SIZES["zinc12k"])


class Zinc(MoleculeStudy):
    """Table 8: the train error at the setting that has the lowest, the test error at the one validation selects."""

    name = "zinc"
    title = "Train error, test error and time on ZINC (Table 8)"
    datasets = ("zinc",)
    variants = ("basic",)
    usual: Mapping[str, tuple[str, ...]] = {"methods": PAPER_METHODS}
    options = molecule_options(epochs=200, molecules=SIZES["zinc"])

    def _cells(self, records: Sequence[Record]) -> list[list[Record]]:
        return cells(self, [record for record in records if record.run.variant in self.variants])

    def select(self, records: Sequence[Record]) -> list[Record]:
        """For each cell the seeds of both selected settings; those that validation selected come first."""
        selected: dict[str, Record] = {}
        for cell in self._cells(records):
            both = best(self, cell, "val_mae") + best(self, cell, "train_mae")
            selected.update((record.run.id, record) for record in both)
        return list(selected.values())

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        """Train error, test error and seconds per epoch; also of ZINC12k, from the records of its own study."""
        found = []
        for cell in self._cells(records):
            validated = best(self, cell, "val_mae")
            found += [
                cell_of(self, best(self, cell, "train_mae"), "train_mae"),
                cell_of(self, validated, "test_mae"),
                cell_of(self, validated, "seconds_per_epoch"),
            ]
        return found


def train_run(run: Run, model: "GraphRegressor", task: "MoleculeTask", context: Context) -> Outcome:
    """Train a run, from its checkpoint if there is one."""
    from mimogc.models import num_parameters
    from mimogc.training.graphs import train

    values = dict(run.hparams)
    epochs = int(values["epochs"])

    def tell(done: float, history: "History") -> None:
        now = {"val": history.vals[-1], "best": history.best_val, "train": history.losses[-1]} if history.vals else {}
        context.progress(done / epochs, now)

    trained = train(model, task, float(values["lr"]), epochs, run.seed, context.folder / "last.pt", tell)
    history = trained.history
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
        curves=thinned(CURVE_POINTS, train_mae=history.losses, val_mae=history.vals),
        seconds=history.seconds,
        status="diverged" if history.diverged else "done",
    )


ZINC12K = Zinc12k()
ZINC = Zinc()
