"""How LMGC should start: forms of the layer and of its start, trained alike on ZINC12k and heterophilic graphs.

Settled on training and validation errors. The forms are those of the question, not of the library: `gate` is what
`LMGConv` and the studies do, `gate-1` the residual `GraphRegressor`, `gate-0-quiet` node classification.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from mimogc import methods
from mimogc.models import GraphRegressor, NodeClassifier, fit_width
from mimogc.nn.coefficients import FAGCN, LMGC, Coefficients
from mimogc.nn.conv import LMGConv
from mimogc.nn.start import calibrate
from mimogc.runs.options import Option
from mimogc.runs.run import Outcome, Record, Run, Scalar
from mimogc.runs.selection import Cell, cell_of, cells
from mimogc.runs.study import Context, Options, Study
from mimogc.studies import heterophilic, zinc
from mimogc.studies.heterophilic_models import task, train_run
from mimogc.studies.zinc_models import calibrate_regressor
from mimogc.studies.zinc_models import task as molecule_task

HEADS, BUDGET = 4, 100_000
ROOT = -1.0  # a gain that stands for 1/√layers


@dataclass(frozen=True)
class Form:
    """A layer and how it starts."""

    text: str
    method: str = "lmgc"
    calibrated: bool = True  # on the first training molecules, or on the whole graph
    affine: bool = False  # maps W x + b
    combine: str = "sum"
    small: bool = False  # maps, scores and offsets as torch's Linear would start, as in the released code
    beta: float | None = None  # one size of the coefficients where features are zero; None: spread, as they are
    scores: float = 1.0  # times the usual size of the scores
    gain: float = 1.0  # what a residual branch is multiplied by at the start
    learnt: bool = False  # whether that number is learnt
    scale: float = 1.0  # that layers are calibrated to


PLAIN = {  # ZINC12k, six layers without residual connections
    "eq12": Form("eq. 12, sum, Glorot", "eq12", calibrated=False),
    "eq12-calibrated": Form("eq. 12, sum, calibrated", "eq12"),
    "released": Form("affine maps and scores, mean", calibrated=False, affine=True, combine="mean", small=True),
    "affine": Form("affine maps and scores, sum", calibrated=False, affine=True, small=True),
    "gate-static": Form("gate, not calibrated", calibrated=False),
    "gate": Form("gate, calibrated"),
    "gate-affine": Form("gate, calibrated, affine maps", affine=True),
    "gate-0.25": Form("gate, calibrated, β = ¼", beta=0.25),
    "gate-0.5": Form("gate, calibrated, β = ½", beta=0.5),
    "gate-0.75": Form("gate, calibrated, β = ¾", beta=0.75),
    "gate-scores": Form("gate, calibrated, scores × ⅛", scores=1 / 8),
    "gin": Form("GIN", "gin", calibrated=False),
    "acm": Form("ACM", "acm", calibrated=False),
    "acm-calibrated": Form("ACM, calibrated", "acm"),
    "gatv2": Form("GATv2", "gatv2", calibrated=False),
    "gatv2-calibrated": Form("GATv2, calibrated", "gatv2"),
    "fagcn": Form("FAGCN", "fagcn", calibrated=False),
    "fagcn-offset": Form("FAGCN with offset, calibrated", "fagcn+offset"),
}
RESIDUAL = {  # the residual models: ZINC12k with ten layers, node classification with two
    "gate-1": Form("gate, branch × 1"),
    "gate-root": Form("gate, branch × 1/√L", gain=ROOT),
    "gate-root-learnt": Form("gate, branch × learnt from 1/√L", gain=ROOT, learnt=True),
    "gate-0.1": Form("gate, branch × 0.1", gain=0.1),
    "gate-0": Form("gate, branch × learnt from 0", gain=0.0, learnt=True),
    "gate-0-quiet": Form("gate, scale ¼, branch × learnt from 0", gain=0.0, learnt=True, scale=0.25),
    "gate-0-silent": Form("gate, scale 1/16, branch × learnt from 0", gain=0.0, learnt=True, scale=0.0625),
    "eq12-sum": Form("eq. 12, sum, Glorot", "eq12", calibrated=False),
    "eq12-mean": Form("eq. 12, mean, Glorot", "eq12", calibrated=False, combine="mean"),
    "gate-mean": Form("gate, mean, not calibrated", combine="mean", calibrated=False),
    "eq12-0": Form("eq. 12, calibrated, branch × learnt from 0", "eq12", gain=0.0, learnt=True),
    "gatv2-plain": Form("GATv2", "gatv2", calibrated=False),
    "gatv2-0": Form("GATv2, branch × learnt from 0", "gatv2", calibrated=False, gain=0.0, learnt=True),
    "acm-plain": Form("ACM", "acm", calibrated=False),
    "acm-0": Form("ACM, branch × learnt from 0", "acm", calibrated=False, gain=0.0, learnt=True),
    "gin-plain": Form("GIN", "gin", calibrated=False),
    "gin-0": Form("GIN, branch × learnt from 0", "gin", calibrated=False, gain=0.0, learnt=True),
}
FORMS = PLAIN | RESIDUAL
DEEP = ("gate-1", "gate-root", "gate-root-learnt", "gate-0.1", "gate-0", "eq12-mean")  # on ZINC12k too
NORMED = ("gate-1", "gate-root", "gate-0", "gate-mean", "eq12-sum", "eq12-mean", "gin-plain")  # with batch norm
NODES = ("texas", "chameleon", "film")
LAYERS = {"plain": 6, "residual": 10, "norm": 10}
EPOCHS = {"plain": 60, "residual": 15, "norm": 15}
SEEDS, SPLITS, LR = 3, 10, 0.001


def layer(form: Form, channels: int, residual: bool) -> torch.nn.Module:
    """One layer of a form."""
    if form.method == "fagcn+offset":
        return LMGConv(channels, channels, coefficients=FAGCN(channels, channels, offset=True))
    if form.method not in ("lmgc", "eq12"):
        return methods.method(form.method).build(channels, HEADS, residual)
    made = LMGConv(channels, channels, HEADS, form.method, form.combine, affine=form.affine)
    if isinstance(offset := getattr(made.coefficients, "offset", None), torch.Tensor):
        with torch.no_grad():
            if form.beta is not None:
                offset.copy_(math.atanh(form.beta) * offset.sign())
            if form.small:
                _small_start(made, offset)
    return made


def _small_start(made: LMGConv, offset: torch.Tensor) -> None:
    coefficients: LMGC = made.coefficients  # type: ignore[assignment]
    bound = 1 / math.sqrt(2 * coefficients.att.size(1))
    coefficients.att.uniform_(-bound, bound)
    offset.uniform_(-bound, bound)
    made.lin.weight.uniform_(-1, 1).mul_(1 / math.sqrt(made.lin.weight.size(1)))
    if made.lin.bias is not None:
        made.lin.bias.uniform_(-1, 1).mul_(1 / math.sqrt(made.lin.weight.size(1)))


def _scale_scores(model: torch.nn.Module, form: Form) -> None:
    for module in model.modules():
        if isinstance(module, LMGC) and form.scores != 1.0:
            module.rescale(1 / form.scores)


def _gain(form: Form, layers: int) -> float:
    return layers**-0.5 if form.gain == ROOT else form.gain


def regressor(form: Form, channels: int, variant: str) -> GraphRegressor:
    layers, residual = LAYERS[variant], variant != "plain"
    model = GraphRegressor(
        channels, "mlp", layers, residual=residual, batch_norm=variant == "norm", gain=_gain(form, layers),
        learn_gain=form.learnt,
    )  # fmt: skip
    model.add_self_loops = form.method != "gin"
    model.layers = torch.nn.ModuleList(layer(form, channels, residual) for _ in range(layers))
    return model


def classifier(form: Form, channels: int, dataset: str, dropout: float) -> NodeClassifier:
    found = task(dataset, False)
    gain = None if form.gain == 1.0 and not form.learnt else _gain(form, 2)
    model = NodeClassifier(
        found.data.num_features, channels, found.data.num_classes, "mlp", 2, dropout=dropout, gain=gain
    )
    model.layers = torch.nn.ModuleList(layer(form, channels, True) for _ in range(2))
    if model.gains is not None:
        model.gains.requires_grad_(form.learnt)
    return model


@functools.cache
def _width(name: str, dataset: str, variant: str) -> int:
    form = FORMS[name]
    if dataset in NODES:
        return fit_width(lambda channels: classifier(form, channels, dataset, 0.0), BUDGET)
    return fit_width(lambda channels: regressor(form, channels, variant), BUDGET)


class Starts(Study):
    """One training per form, seed and split; nothing is selected.

    The table shows training, validation and test error of ZINC12k and validation and test accuracy of the graphs.
    """

    name = "starts"
    title = "How LMGC should start"
    methods = tuple(FORMS)
    datasets = ("zinc12k", *NODES)
    variants = tuple(LAYERS)
    seeds = SEEDS
    higher = ("accuracy",)
    options = (
        Option("molecules", 10_000, "training molecules to use", least=1, most=10_000, extent=True, quick=1000),
        Option("epochs", 0, "epochs of training; 0: as usual for the model", least=0, extent=True),
    )

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        if dataset in NODES:
            return variant == "residual" and method in RESIDUAL
        return method in {"plain": tuple(PLAIN), "residual": DEEP, "norm": NORMED}[variant]

    def metrics(self, dataset: str) -> tuple[str, ...]:
        return ("val_accuracy",) if dataset in NODES else ("val_mae",)

    def full(self, option: Option, dataset: str, variant: str) -> Scalar:
        if option.name != "epochs":
            return option.default
        return heterophilic.EPOCHS if dataset in NODES else EPOCHS[variant]

    def values(self, dataset: str, method: str, variant: str, options: Options) -> dict[str, Scalar]:
        values = options.values
        (epochs,) = (option for option in self.options if option.name == "epochs")
        usual = self.full(epochs, dataset, variant)
        if dataset in NODES:
            lr, dropout = heterophilic.PAPER_HPARAMS["lmgc"][heterophilic.PAPER_DATASETS.index(dataset)]
            return {"lr": lr, "dropout": dropout, "epochs": values["epochs"] or (100 if options.quick else usual)}
        return {**values, "lr": LR, "epochs": values["epochs"] or (2 if options.quick else usual)}

    def repeats(self, dataset: str, options: Options) -> list[tuple[int, int]]:
        if dataset in NODES:
            return [(1, split) for split in range(3 if options.quick else SPLITS)]
        return [(seed, 0) for seed in range(options.seeds or SEEDS)]

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        return [(run,) for run in sorted(runs, key=lambda run: run.seed)]

    def prepare(self, runs: Sequence[Run]) -> None:
        for dataset, molecules in {(run.dataset, dict(run.hparams).get("molecules")) for run in runs}:
            if molecules is None:
                task(dataset, False)
            else:
                molecule_task(dataset, "none", int(molecules))

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        (run,) = batch
        if run.dataset in NODES:
            torch.manual_seed(1000 * run.seed + run.split)
            nodes = task(run.dataset, False)
            model = self.classifier(run)
            self.start(run, model, lambda to: calibrate(model, nodes.x, nodes.graph, only=Coefficients, scale=to))
            return [train_run(run, model, nodes, context)]
        torch.manual_seed(run.seed)
        molecules = molecule_task(run.dataset, "none", int(dict(run.hparams)["molecules"]))
        made = self.regressor(run)
        self.start(run, made, lambda _: calibrate_regressor(made, molecules))
        return [zinc.train_run(run, made, molecules, context)]

    def classifier(self, run: Run) -> NodeClassifier:
        channels, dropout = _width(run.method, run.dataset, run.variant), float(dict(run.hparams)["dropout"])
        return classifier(FORMS[run.method], channels, run.dataset, dropout)

    def regressor(self, run: Run) -> GraphRegressor:
        return regressor(FORMS[run.method], _width(run.method, run.dataset, run.variant), run.variant)

    def start(self, run: Run, model: torch.nn.Module, calibrated: Callable[[float], object]) -> None:
        """Bring the layers of a model to scale, where the form says so."""
        if FORMS[run.method].calibrated:
            calibrated(FORMS[run.method].scale)
            _scale_scores(model, FORMS[run.method])

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        found = []
        for cell in cells(self, records):
            nodes = cell[0].run.dataset in NODES
            for side in ("train", "val", "test"):
                metric = f"{side}_{'accuracy' if nodes else 'mae'}"
                found.append(cell_of(self, cell, metric, expected=SPLITS if nodes else SEEDS))
        return found


STUDY = Starts()
