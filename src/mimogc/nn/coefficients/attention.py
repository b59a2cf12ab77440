"""Coefficients from scores of the two ends of an edge: LMGC and the paper's own form of it, GAT, GATv2, FAGCN."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import softmax

from mimogc.graph import Graph
from mimogc.nn.coefficients.base import Channels, Pair, Scored, fixed_heads, source_channels, target_channels
from mimogc.ops import pair_scores, separable_alpha

# How LMGC starts; `mimogc reproduce starts` is the experiment behind the numbers.
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
            errors.append(
                f"{prefix}offset: the saved layer has none; build the layer with coefficients='eq12' for it"
            )

    def start(self, maps: Sequence[Linear], combine: str) -> None:
        """Maps with which unit features stay at unit scale on a graph of `DEGREE`, followed by an activation."""
        graphs = {"sum": float(self.heads), "mean": 1 / self.heads, "concat": 1.0}[combine]
        beta = math.sqrt(sum(gate**2 for gate in gates(self.heads)) / self.heads)
        # The scale of h; that of the sum is √graphs · DEGREE · beta times it.
        scale = math.sqrt(2 / graphs) / (DEGREE * beta)
        with torch.no_grad():
            for lin in maps:
                bound = scale * math.sqrt(3 / lin.weight.size(1))
                lin.weight.uniform_(-bound, bound)
        self._draw(scale)

    def calibrate(self, h: Pair, graph: Graph, depth: int) -> None:
        """Scores of one root mean square, whatever the scale of the features is."""
        if self.offset is None or not graph.num_edges:
            return
        s, t = self.scores(h)
        found = float(((s - self.offset)[graph.dst] + t[graph.src]).double().square().mean().sqrt())
        wanted = _score(depth)
        if math.isfinite(found) and found > 0 and abs(wanted / found - 1) > CLOSE:
            self.rescale(found / wanted)

    def rescale(self, factor: float) -> None:
        with torch.no_grad():
            self.att.div_(factor)

    def scores(self, h: Pair) -> Pair:
        """s [N, K] of the targets, with the offset, and t [N, K] of the sources."""
        if h[0] is h[1]:
            s, t = (F.leaky_relu(h[0].flatten(1), self.negative_slope) @ self.att.t()).chunk(2, dim=1)
        else:
            to_target, to_source = self.att.chunk(2)
            source, target = (F.leaky_relu(side.flatten(1), self.negative_slope) for side in h)
            s, t = target @ to_target.t(), source @ to_source.t()
        return s if self.offset is None else s + self.offset, t

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


class GAT(Scored):
    r"""``α_k(i,j) = softmax_j LeakyReLU(a_kᵀ W^k x_i + b_kᵀ W^k x_j)`` (Veličković et al.)."""

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.att_edge = None if edge_dim is None else Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for parameter in (self.att_src, self.att_dst, self.att_edge):
            if parameter is not None:
                glorot(parameter)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = (h[0] * self.att_src).sum(-1), (h[1] * self.att_dst).sum(-1)  # [N, K]
        score = source[graph.src] + target[graph.dst]
        edge = self.edge_term(graph)
        if edge is not None:
            score = score + (edge.view(-1, *self.att_src.shape[1:]) * cast(Tensor, self.att_edge)).sum(-1)
        return cast(
            Tensor, softmax(F.leaky_relu(score, self.negative_slope), graph.dst, num_nodes=graph.num_dst)
        )

    def rescale(self, factor: float) -> None:
        self.att_src.div_(factor)
        self.att_dst.div_(factor)


class GATv2(Scored):
    r"""``α_k(i,j) = softmax_j a_kᵀ LeakyReLU(W^k x_j + V^k x_i)`` (Brody et al.).

    The paper writes one shared matrix V = W (``share_weights=True``, the default here); PyG's default has two. With
    ``affine=True`` V x_i has a bias of its own, as PyG's has; that of W is the layer's ``affine``.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
        share_weights: bool = True,
        affine: bool = False,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        self.share_weights = share_weights
        self.att = Parameter(torch.empty(1, heads, out_channels))
        self.lin_target = (
            None
            if share_weights
            else Linear(
                target_channels(in_channels),
                heads * out_channels,
                bias=affine,
                weight_initializer="glorot",
                bias_initializer="zeros",
            )
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot(self.att)

    def rescale(self, factor: float) -> None:
        if self.lin_target is not None or self.lin_edge is not None:
            raise ValueError(
                "only: GATv2 can be scaled with shared weights and without edge features, got one with another map"
            )
        self.att.div_(factor)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = h
        if self.lin_target is not None:
            target = self.lin_target(x[1]).view_as(target)
        edge = self.edge_term(graph)
        if edge is None:
            score = pair_scores(source, target, self.att[0], graph, self.negative_slope)
        else:
            both = source[graph.src] + target[graph.dst] + edge.view(-1, *self.att.shape[1:])  # [E, K, C]
            score = (F.leaky_relu(both, self.negative_slope) * self.att).sum(-1)
        return cast(Tensor, softmax(score, graph.dst, num_nodes=graph.num_dst))


class FAGCN(Scored):
    r"""``α(i,j) = tanh(vᵀ[x_i ‖ x_j]) / √(d_i d_j)`` (Bo et al.), K = 1: signed weights on the input features.

    Without the share of first features that the published model adds after every layer, small features are squared by
    each layer, and deep stacks start at zero. ``offset=True`` adds a learnt number to the score, as `LMGC` has.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int = -1,
        heads: int = 1,
        edge_dim: int | None = None,
        offset: bool = False,
    ) -> None:
        super().__init__(fixed_heads("fagcn", heads, 1), edge_dim)
        self.att_src = Linear(source_channels(in_channels), 1, bias=False, weight_initializer="glorot")
        self.att_dst = Linear(target_channels(in_channels), 1, bias=False, weight_initializer="glorot")
        self.offset = Parameter(offsets(1)) if offset else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.offset is not None:
            with torch.no_grad():
                self.offset.copy_(offsets(1))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        target = self.att_dst(x[1])
        target = target if self.offset is None else target + self.offset
        alpha = separable_alpha(target, self.att_src(x[0]), self.edge_term(graph), graph)
        return alpha * graph.normalization(alpha.dtype).view(-1, 1)
