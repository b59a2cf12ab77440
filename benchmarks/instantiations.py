"""Which instantiation is best: coefficient functions in one backbone, on ZINC12k and two heterophilic graphs.

    mimogc reproduce benchmarks.instantiations:STUDY   # some ten hours of one core; the same command goes on
    python benchmarks/instantiations.py                # the tables, from results/runs.db

The paper leaves the coefficients open; a class of about ten lines is one. All are brought to unit scale by `calibrate`.
"""

import functools
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.utils import softmax

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder that holds `benchmarks`

from benchmarks.starts import BUDGET, HEADS, NODES, Starts

from mimogc import Graph
from mimogc.methods import METHODS, Method
from mimogc.models import GraphRegressor, NodeClassifier, fit_width
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import LMGC, Coefficients, Pair
from mimogc.nn.coefficients.lmgc import offsets
from mimogc.ops import pair_scores
from mimogc.runs.options import Option
from mimogc.runs.run import Run, Scalar
from mimogc.studies.heterophilic_models import QUIET, task

LAYERS, CLASSIFIER_LAYERS, EPOCHS = 6, 2, 60


class Separable(LMGC):
    """The score of the gate, b_k + s_k(i) + t_k(j); a subclass makes coefficients of it."""

    def score(self, h: Pair, graph: Graph) -> Tensor:
        s, t = self.scores(h)
        return s[graph.dst] + t[graph.src]


class Sigmoid(Separable):
    """σ(score): positive."""

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        return torch.sigmoid(self.score(h, graph))


class Identity(Separable):
    """The score itself, without bounds."""

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        return self.score(h, graph)


class Softmax(Separable):
    """The softmax over the neighbours of LeakyReLU(score), as in GAT: without that the term of node i would cancel."""

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        score = F.leaky_relu(self.score(h, graph), self.negative_slope)
        return cast(Tensor, softmax(score, graph.dst, num_nodes=graph.num_dst))


class SoftmaxDegree(Softmax):
    """The same times the number of neighbours, so that multisets of one element keep their size."""

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        degree = torch.bincount(graph.dst, minlength=graph.num_dst).to(h[0].dtype)
        return super().forward(x, h, graph) * degree[graph.dst].unsqueeze(1)


class Cosine(Coefficients):
    """The cosine of W^k x_i and W^k x_j: no parameters."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = HEADS) -> None:
        super().__init__(heads)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = (F.normalize(side, dim=-1) for side in h)
        return (source[graph.src] * target[graph.dst]).sum(-1)


class Dynamic(Coefficients):
    """tanh(b_k + a_kᵀ LeakyReLU(W^k x_i + W^k x_j)): the score of GATv2, which does not separate."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = HEADS) -> None:
        super().__init__(heads)
        self.att = Parameter(torch.randn(heads, out_channels) / out_channels**0.5)
        self.offset = Parameter(offsets(heads))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        return torch.tanh(pair_scores(*h, self.att, graph) + self.offset)

    def calibrate(self, h: Pair, graph: Graph, depth: int) -> None:
        scale = pair_scores(*h, self.att, graph).square().mean().sqrt()
        self.rescale(float(scale) / min(0.5, 1.2 / depth))

    def rescale(self, factor: float) -> None:
        with torch.no_grad():
            self.att.div_(factor)


class Mixed(LMGC):
    """A_sym and I beside K − 2 gates: two of the graphs are fixed."""

    loops = "identity"

    def __init__(self, in_channels: int, out_channels: int, heads: int = HEADS) -> None:
        super().__init__(in_channels, out_channels, heads)
        self.att = Parameter(self.att.detach()[4:].clone())

    def _offset(self) -> Parameter:
        return Parameter(offsets(self.heads)[2:])

    def reset_parameters(self) -> None:
        self._draw(1.0)

    def check(self) -> None:
        """Of K − 2 graphs, other than the layer's."""

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        learnt = super().forward(x, h, graph)
        fixed = torch.stack([graph.normalization(learnt.dtype), graph.identity.to(learnt.dtype)], dim=1)
        return torch.cat([fixed, learnt], dim=1)


class PerChannel(Coefficients):
    """tanh(b_c + (A x_i)_c + (B x_j)_c): a graph of its own for each of the C output channels, with one map W."""

    layout = "channel"

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(out_channels)
        self.att = Parameter(0.2 * torch.randn(2 * out_channels, in_channels) / (2 * in_channels) ** 0.5)
        self.offset = Parameter(offsets(HEADS).repeat(out_channels)[:out_channels].clone())

    def map_shape(self, out_channels: int) -> tuple[int, int]:
        return out_channels, 1

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        s, t = F.linear(x[0], self.att).chunk(2, dim=1)
        return torch.tanh((self.offset + s)[graph.dst] + t[graph.src])


def _record(name: str, text: str, kind: type[Coefficients]) -> Method:
    def layer(channels: int, add_self_loops: bool = True, bias: bool = True) -> torch.nn.Module:
        made: Any = kind
        return LMGConv(
            channels, channels, coefficients=made(channels, channels), add_self_loops=add_self_loops, bias=bias
        )

    layer.__doc__ = kind.__doc__
    return Method(name, text, layer, calibrated=True)


#: all with K = 4 free maps, the last with one map and a graph per channel
FORMS: dict[str, Method] = {
    "gate": replace(METHODS["lmgc"], name="lmgc", label="tanh(b + s + t)"),
    "eq12": replace(METHODS["eq12"], name="eq12", label="tanh(s + t), equation 12", calibrated=True),
    "sigmoid": _record("sigmoid", "σ(b + s + t)", Sigmoid),
    "identity": _record("identity", "b + s + t", Identity),
    "softmax": _record("softmax", "softmax", Softmax),
    "softmax-degree": _record("softmax-degree", "softmax × degree", SoftmaxDegree),
    "cosine": _record("cosine", "cosine", Cosine),
    "dynamic": _record("dynamic", "tanh of GATv2's score", Dynamic),
    "mixed": _record("mixed", "A_sym, I and two gates", Mixed),
    "per-channel": _record("per-channel", "a gate per channel", PerChannel),
}


def _classifier(method: str, channels: int, dataset: str, dropout: float) -> NodeClassifier:
    data = task(dataset, False).data
    sizes = (data.num_features, channels, data.num_classes)
    return NodeClassifier(*sizes, FORMS[method], CLASSIFIER_LAYERS, HEADS, dropout)


@functools.cache
def _width(method: str, dataset: str) -> int:
    if dataset in NODES:
        task(dataset, False)  # loaded before models are built without memory
        return fit_width(lambda channels: _classifier(method, channels, dataset, 0.0), BUDGET)
    return fit_width(lambda channels: GraphRegressor(channels, FORMS[method], LAYERS, HEADS), BUDGET)


class Instantiations(Starts):
    """Coefficient functions in one backbone: mean absolute error of ZINC12k, accuracy of the graphs.

    ZINC12k has six layers without residual connections, the graphs two quiet ones whose factors start at zero, all
    within 100,000 parameters and at the learning rates of LMGC.
    """

    name = "instantiations"
    title = "Which instantiation is best"
    methods = tuple(FORMS)
    variants = ("backbone",)

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        return True

    def metrics(self, dataset: str) -> tuple[str, ...]:
        return tuple(f"{side}_{'accuracy' if dataset in NODES else 'mae'}" for side in ("val", "test"))

    def full(self, option: Option, dataset: str, variant: str) -> Scalar:
        return EPOCHS if option.name == "epochs" and dataset not in NODES else super().full(option, dataset, variant)

    def classifier(self, run: Run) -> NodeClassifier:
        dropout = float(dict(run.hparams)["dropout"])
        return _classifier(run.method, _width(run.method, run.dataset), run.dataset, dropout)

    def regressor(self, run: Run) -> GraphRegressor:
        return GraphRegressor(_width(run.method, run.dataset), FORMS[run.method], LAYERS, HEADS)

    def start(self, run: Run, model: torch.nn.Module, calibrated: Any) -> None:
        calibrated(QUIET)


STUDY = Instantiations()

if __name__ == "__main__":
    from benchmarks.starts_tables import print_tables, stored

    print("# Which instantiation is best\n")
    print("Coefficient functions in one backbone, trained alike by `mimogc reproduce benchmarks.instantiations:STUDY`;")
    print("printed by `benchmarks/instantiations.py`. At most 100,000 parameters, nothing selected.")
    print("Mean ± standard deviation over seeds, or standard error over splits.\n")
    print_tables(
        stored(STUDY),
        {
            ("zinc12k", "backbone"): (f"ZINC12k, six layers, {EPOCHS} epochs, mean absolute error", "mae", 3),
            ("texas", "backbone"): ("Texas, ten splits, accuracy in percent", "accuracy", 1),
            ("chameleon", "backbone"): ("Chameleon, ten splits, accuracy in percent", "accuracy", 1),
        },
        {name: record.label for name, record in FORMS.items()},
    )
