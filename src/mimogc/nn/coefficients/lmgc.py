"""LMGC, the paper's instantiation with an offset, its form divided by degrees, and the paper's own form."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot

from mimogc.graph import Graph
from mimogc.nn.coefficients.base import Channels, Pair, Scored
from mimogc.ops import separable_alpha

# How LMGC starts; `benchmarks/starts.py` is the experiment behind the numbers.
SCORE = 0.5  # the root mean square of the scores beside the offsets, and
SCORES = 1.2  # that of all layers of a deep model together: beyond, gradients grow from layer to layer
# Without `calibrate`, reckon with so many edges into a node, its loop among them, and so many layers.
DEGREE, DEPTH = 3.8, 40
# The root mean square of s + t for unit h, with entries of att between ±1/√(2KC): LeakyReLU leaves about half of h².
_USUAL_SCORE = math.sqrt(0.52 / 3)
CLOSE = 1e-3  # what is this close to its scale is left as it is: so a second calibration changes nothing


def _score(depth: int) -> float:
    return min(SCORE, SCORES / depth)


def _shape(value: Tensor | None) -> list[int] | None:
    return None if value is None else list(value.shape)


def gates(heads: int) -> list[float]:
    """The K coefficients where features are zero: pairs ±β, with the β of the pairs evenly spread between 0 and 1.

    For K = 4 they are ¼, −¼, ¾, −¾. Equal β would make graphs of one sign equal at the start.
    """
    pairs = (heads + 1) // 2
    return [(-1) ** k * (2 * (k // 2) + 1) / (2 * pairs) for k in range(heads)]


def offsets(heads: int) -> Tensor:
    """[K]: the offsets whose tanh are the `gates`."""
    return torch.tensor(gates(heads)).atanh()


class LMGC(Scored):
    r"""The paper's instantiation (equation 12) with an offset, so that each coefficient is a gate:
    ``α_k(i,j) = tanh(b_k + v_kᵀ LeakyReLU(W¹x_i ‖ … ‖ W^K x_i ‖ W¹x_j ‖ … ‖ W^K x_j))``.

    LeakyReLU acts element-wise on the concatenation, so the score is a sum of one term of node i and one of
    node j, ``α = tanh(b_k + s_k(i) + t_k(j))`` ("static" attention in Brody's sense), and nothing of the size of the
    edges times channels is ever needed.

    Without the offset the layer is quadratic in small features, which therefore fade, and its gain on large ones is
    above one, so that they grow: no constant start holds their scale. With it the layer starts as a sum over neighbours
    with K signed maps, weighted by ±¼ and ±¾ for K = 4. `Eq12` is the paper's equation without offset.
    """

    reads = "h"
    #: edges into a node to reckon with without `calibrate`, its loop among them; 1 where coefficients are divided by it
    degree: ClassVar[float] = DEGREE

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(heads, edge_dim)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        # The rows are v_k for node i (the first K) and for node j (the last K).
        self.att = Parameter(torch.empty(2 * heads, heads * out_channels))
        self.offset = self._offset()
        self.reset_parameters()

    def _offset(self) -> Parameter | None:
        return Parameter(torch.empty(self.heads))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._draw(1.0)
        if self.offset is not None:
            with torch.no_grad():
                self.offset.copy_(offsets(self.heads))

    def _draw(self, scale: float) -> None:
        """Score vectors that give small scores, in a deep model of unknown depth, for h of this scale."""
        bound = _score(DEPTH) / (_USUAL_SCORE * scale * math.sqrt(self.att.size(1) * 2))
        torch.nn.init.uniform_(self.att, -bound, bound)

    def check(self) -> None:
        att, offset, heads = self.att, self.offset, self.heads
        expected = (2 * heads, heads * (self.out_channels or 0))
        if att is None or att.shape != expected:
            raise ValueError(f"att: expected shape {list(expected)}, got {_shape(att)}")
        if offset is not None and offset.shape != (heads,):
            raise ValueError(f"offset: expected shape [{heads}], got {_shape(offset)}")
        for name, value in (("att", att), ("offset", offset)):
            if value is not None and value.layout != torch.strided:
                raise TypeError(f"{name}: expected a dense tensor, got {value.layout}")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        if self.offset is not None and f"{prefix}att" in state_dict and f"{prefix}offset" not in state_dict:
            errors: list[str] = rest[-1]
            errors.append(f"{prefix}offset: the saved layer has none; build the layer with coefficients='eq12' for it")

    def start(self, maps: Sequence[Linear], combine: str) -> None:
        """Maps with which unit features stay at unit scale on a graph of that `degree`, followed by an activation."""
        graphs = {"sum": float(self.heads), "mean": 1 / self.heads, "concat": 1.0}[combine]
        beta = math.sqrt(sum(gate**2 for gate in gates(self.heads)) / self.heads)
        # The scale of h; that of the sum is √graphs · degree · beta times it.
        scale = math.sqrt(2 / graphs) / (self.degree * beta)
        with torch.no_grad():
            for lin in maps:
                bound = scale * math.sqrt(3 / lin.weight.size(1))
                lin.weight.uniform_(-bound, bound)
        self._draw(scale)

    def calibrate(self, h: Pair, graph: Graph, depth: int) -> None:
        """Scores of one root mean square, whatever the scale of the features is."""
        edges = int(graph.total(torch.tensor(graph.num_edges, device=graph.device)))
        if self.offset is None or not edges:
            return
        s, t = self._terms(h)  # without the offset, beside which small scores would lose their digits
        squares = (s[graph.dst] + t[graph.src]).double().square().sum()
        found = math.sqrt(float(graph.total(squares)) / (edges * self.heads))
        wanted = _score(depth)
        if math.isfinite(found) and found > 0 and abs(wanted / found - 1) > CLOSE:
            self.rescale(found / wanted)

    def rescale(self, factor: float) -> None:
        with torch.no_grad():
            self.att.div_(factor)

    def scores(self, h: Pair) -> Pair:
        """s [N, K] of the targets, with the offset, and t [N, K] of the sources."""
        s, t = self._terms(h)
        return s if self.offset is None else s + self.offset, t

    def _terms(self, h: Pair) -> Pair:
        if h[0] is h[1]:
            s, t = (F.leaky_relu(h[0].flatten(1), self.negative_slope) @ self.att.t()).chunk(2, dim=1)
            return s, t
        to_target, to_source = self.att.chunk(2)
        source, target = (F.leaky_relu(side.flatten(1), self.negative_slope) for side in h)
        return target @ to_target.t(), source @ to_source.t()

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        s, t = self.scores(h)
        return separable_alpha(s, t, self.edge_term(graph), graph)


class Eq12(LMGC):
    """The paper's equation 12 exactly: `LMGC` without the offset, started like PyG's layers (Glorot)."""

    def _offset(self) -> None:
        return None

    def reset_parameters(self) -> None:
        Scored.reset_parameters(self)
        glorot(self.att)

    def start(self, maps: Sequence[Linear], combine: str) -> None:
        """As they were drawn."""


class NormalizedLMGC(LMGC):
    """`LMGC` on A_sym: ``α_k(i,j) = tanh(b_k + s_k(i) + t_k(j)) / √(d_i d_j)``, for graphs with hubs.

    A sum over hundreds of neighbours is hundreds of times larger than one over a few, and no scale of the weights
    suits both. Divided by the roots of both degrees, what is left of that grows with √d at most. The layer starts as
    multiples of one GCN, and learns which neighbours to leave out or to subtract. As with GCN, multisets of the same
    shares can collide, so it may confuse counts. Weights of the edges, which must not be negative, as in `GCNConv`. Its
    parameters are those of `LMGC`, so that the saved ones of one load into the other, which is another function.
    """

    weighted = True
    degree = 1.0

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        return self.divided(super().forward(x, h, graph), graph)
