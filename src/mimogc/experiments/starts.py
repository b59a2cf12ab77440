"""How LMGC should start: forms of the layer and of its start, trained alike on ZINC12k and two heterophilic graphs.

Settled on training and validation errors. The forms are those of the question, not of the library: `gate` is what
`LMGConv` and the studies do, `gate-1` the residual `GraphRegressor`, `gate-0` the `NodeClassifier`.
"""

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from mimogc.experiments import graph_training, heterophilic, node_training
from mimogc.experiments.run import Outcome, Record, Run, Scalar, hparams
from mimogc.experiments.selection import cell_of, order_of
from mimogc.experiments.study import Cell, Context, Options, Study, UsageError
from mimogc.experiments.zinc import outcome as molecule_outcome
from mimogc.experiments.zinc_models import calibrate_regressor
from mimogc.experiments.zinc_models import task as molecule_task
from mimogc.nn.coefficients import FAGCN, LMGC, Coefficients
from mimogc.nn.conv import LMGConv
from mimogc.nn.models import GraphRegressor, NodeClassifier, convolution
from mimogc.nn.start import calibrate
from mimogc.nn.width import fit_width

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
    beta: float | None = (
        None  # one size of the coefficients where features are zero; None: spread, as they are
    )
    scores: float = 1.0  # times the usual size of the scores
    gain: float = 1.0  # what a residual branch is multiplied by at the start
    learnt: bool = False  # whether that number is learnt


PLAIN = {  # ZINC12k, six layers without residual connections
    "eq12": Form("eq. 12, sum, Glorot", "eq12", calibrated=False),
    "eq12-calibrated": Form("eq. 12, sum, calibrated", "eq12"),
    "released": Form(
        "affine maps and scores, mean", calibrated=False, affine=True, combine="mean", small=True
    ),
    "affine": Form("affine maps and scores, sum", calibrated=False, affine=True, small=True),
    "gate-static": Form("gate, start without data", calibrated=False),
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
    "eq12-sum": Form("eq. 12, sum, Glorot", "eq12", calibrated=False),
    "eq12-mean": Form("eq. 12, mean, Glorot", "eq12", calibrated=False, combine="mean"),
    "gate-mean": Form("gate, mean, without data", combine="mean", calibrated=False),
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
NODES = ("texas", "chameleon")
LAYERS = {"plain": 6, "residual": 10}
EPOCHS = {"plain": 60, "residual": 15}
SEEDS, SPLITS, LR = 3, 10, 0.001


def layer(form: Form, channels: int, residual: bool) -> torch.nn.Module:
    """One layer of a form."""
    if form.method == "fagcn+offset":
        return LMGConv(channels, channels, coefficients=FAGCN(channels, channels, offset=True))
    if form.method not in ("lmgc", "eq12"):
        return convolution(form.method, channels, HEADS, residual)
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


def regressor(form: Form, channels: int, layers: int, residual: bool) -> GraphRegressor:
    model = GraphRegressor(
        channels, "mlp", layers, residual=residual, gain=_gain(form, layers), learn_gain=form.learnt
    )
    model.add_self_loops = form.method != "gin"
    model.layers = torch.nn.ModuleList(layer(form, channels, residual) for _ in range(layers))
    for made in model.layers:
        if isinstance(made, LMGConv):
            made.act = "gelu"
    return model


def classifier(form: Form, channels: int, dataset: str, dropout: float) -> NodeClassifier:
    found = heterophilic.task(dataset, False)
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
    layers = LAYERS[variant]
    return fit_width(lambda channels: regressor(form, channels, layers, variant == "residual"), BUDGET)


class Starts(Study):
    """One training per form, seed and split; nothing is selected.

    The table shows training, validation and test error of ZINC12k and validation and test accuracy of the graphs.
    """

    name = "starts"
    title = "How LMGC should start"
    methods = tuple(FORMS)
    datasets = ("zinc12k", *NODES)
    variants = tuple(LAYERS)
    extras: Mapping[str, Scalar] = {"epochs": 0, "molecules": 10_000}

    def has(self, method: str, variant: str) -> bool:
        return method in (PLAIN if variant == "plain" else RESIDUAL)

    def runs(self, options: Options) -> list[Run]:
        if options.lrs or options.paper_hparams:
            raise UsageError(
                "--lr and --paper-hparams: this study compares starts at one setting per dataset"
            )
        extras = dict(options.extras)
        epochs, molecules = int(extras["epochs"]), int(extras["molecules"])
        if epochs < 0 or not 1 <= molecules <= 10_000:
            raise UsageError(
                f"--epochs must be at least 1 (0: as usual), --molecules 1 to 10000; got {epochs}, {molecules}"
            )
        found = []
        for dataset in options.datasets:
            for variant in options.variants if dataset == "zinc12k" else ("residual",):
                if variant not in options.variants:
                    continue
                for method in options.methods:
                    if not self.has(method, variant) or (
                        dataset not in NODES and method in RESIDUAL.keys() - DEEP
                    ):
                        continue
                    found += self._runs(
                        dataset, variant, method, options.seeds, options.quick, epochs, molecules
                    )
        return found

    def _runs(
        self,
        dataset: str,
        variant: str,
        method: str,
        seeds: int | None,
        quick: bool,
        epochs: int,
        molecules: int,
    ) -> list[Run]:
        if dataset in NODES:
            lr, dropout = heterophilic.PAPER_HPARAMS["lmgc"][heterophilic.PAPER_DATASETS.index(dataset)]
            values = hparams(lr=lr, dropout=dropout, epochs=epochs or (100 if quick else heterophilic.EPOCHS))
            splits = range(3 if quick else SPLITS)
            return [Run(self.name, dataset, method, variant, values, split, 1) for split in splits]
        epochs = epochs or (2 if quick else EPOCHS[variant])
        values = hparams(lr=LR, epochs=epochs, molecules=min(molecules, 1000) if quick else molecules)
        count = seeds or (1 if quick else SEEDS)
        return [Run(self.name, dataset, method, variant, values, 0, seed) for seed in range(count)]

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        return [(run,) for run in sorted(runs, key=lambda run: run.seed)]

    def prepare(self, runs: Sequence[Run]) -> None:
        for dataset, molecules in {(run.dataset, dict(run.hparams).get("molecules")) for run in runs}:
            _ = (
                heterophilic.task(dataset, False)
                if molecules is None
                else molecule_task(dataset, "none", int(molecules))
            )

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        (run,) = batch
        form, values = FORMS[run.method], dict(run.hparams)
        epochs, channels = int(values["epochs"]), _width(run.method, run.dataset, run.variant)
        if run.dataset in NODES:
            torch.manual_seed(1000 * run.seed + run.split)
            nodes = heterophilic.task(run.dataset, False)
            model = classifier(form, channels, run.dataset, float(values["dropout"]))
            if form.calibrated:
                calibrate(model, nodes.x, nodes.graph, only=Coefficients)
                _scale_scores(model, form)

            def tell(epoch: int, best: float) -> None:
                if epoch % 10 == 0:
                    context.progress(epoch / epochs, {"val": best})

            trained = node_training.train(model, nodes, run.split, float(values["lr"]), epochs, tell)
            return [heterophilic.outcome(trained, nodes.data.metric, model)]
        torch.manual_seed(run.seed)
        molecules = molecule_task(run.dataset, "none", int(values["molecules"]))
        made = regressor(form, channels, LAYERS[run.variant], run.variant == "residual")
        if form.calibrated:
            calibrate_regressor(made, molecules, only=Coefficients)
            _scale_scores(made, form)

        def tell_epoch(epoch: int, history: graph_training.History) -> None:
            context.progress(epoch / epochs, {"val": history.vals[-1], "train": history.losses[-1]})

        checkpoint = context.folder / "last.pt"
        result = graph_training.train(
            made, molecules, float(values["lr"]), epochs, run.seed, checkpoint, tell_epoch
        )
        return [molecule_outcome(result, made)]

    def select(self, records: Sequence[Record]) -> list[Record]:
        """Of what is stored for a form the longest training."""
        chosen = []
        for _, group in groupby(sorted(records, key=order_of), key=cell_of):
            cell = list(group)
            longest = max(int(dict(record.run.hparams)["epochs"]) for record in cell)
            chosen += [record for record in cell if dict(record.run.hparams)["epochs"] == longest]
        return chosen

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        cells = []
        for (dataset, method, variant), group in groupby(self.select(records), key=cell_of):
            cell = list(group)
            kind = "accuracy" if dataset in NODES else "mae"
            for side in ("train", "val", "test"):
                values = [record.outcome.metrics[f"{side}_{kind}"] for record in cell]
                spread = (
                    statistics.stdev(values)
                    if len(values) > 1 and all(map(math.isfinite, values))
                    else math.nan
                )
                expected = SPLITS if dataset in NODES else SEEDS
                cells.append(
                    Cell(dataset, method, variant, f"{side}_{kind}", statistics.fmean(values), spread, len(values),
                         expected, cell[0].run.hparams)
                )  # fmt: skip
        known = list(FORMS)
        return sorted(
            cells,
            key=lambda cell: (self.datasets.index(cell.dataset), cell.variant, known.index(cell.method)),
        )


STUDY = Starts()
