"""Edge coefficients α of the K computational graphs: one small class per published method.

A new method is a subclass of :class:`Coefficients` that returns ``alpha [E, K]``; the kernels, gradients, theory
checks and tables come with the layer.
"""

from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import softmax

from mimogc.graph import Graph
from mimogc.ops import separable_alpha

Channels = int | tuple[int, int]
Pair = tuple[
    Tensor, Tensor
]  # of the sources and of the targets; the same tensor twice unless the graph is bipartite


class Coefficients(torch.nn.Module):
    """Base class: computes the edge weights of K computational graphs.

    A subclass sets ``heads`` (K) and defines :meth:`forward`. The defaults fit K free feature transformations
    W^(k) of shape F × C; methods with structured transformations override ``layout`` and :meth:`map_shape`:

    ========== ================== ==================================================================
    ``layout`` shape of ``h``     out_i
    ========== ================== ==================================================================
    free       ``[N, K, C]``      Σ_k Σ_j α_k(i,j) h_k(j)
    channel    ``[N, C, 1]``      channel k is Σ_j α_k(i,j) h_k(j): K = C graphs of one channel each
    stalk      ``[N, s, C/s]``    row a is Σ_b Σ_j α_ab(i,j) h_b(j): K = s² graphs, W = E_ab ⊗ W
    ========== ================== ==================================================================
    """

    layout: ClassVar[str] = "free"
    #: what the layer does about self-loops: "asked" (as `add_self_loops` says) or "identity" (also room for I·X)
    loops: ClassVar[str] = "asked"
    heads: int

    def __init__(self, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads: expected at least 1, got {heads}")
        self.heads = heads

    def map_shape(self, out_channels: int) -> tuple[int, int]:
        """(rows, channels) of ``h`` at one node."""
        return self.heads, out_channels

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        """The coefficients.

        Args:
            x: features of sources and targets, ``[N, F]`` each.
            h: transformed features of sources and targets, ``[N, K, C]`` each.
            graph: the graph, with ``edge_attr`` where the layer got some.

        Returns:
            ``alpha [E, K]`` in the graph's edge order.
        """
        raise TypeError(f"{type(self).__name__} must define forward(x, h, graph) -> alpha [E, K]")

    def reset_parameters(self) -> None:
        for child in self.children():
            reset: Any = getattr(child, "reset_parameters", None)
            if reset is not None:
                reset()

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


class _Scored(Coefficients):
    """Coefficients made from a score, to which edge features may add a term."""

    def __init__(self, heads: int, edge_dim: int | None, width: int | None = None) -> None:
        super().__init__(heads)
        self.lin_edge = (
            None
            if edge_dim is None
            else Linear(edge_dim, width or heads, bias=False, weight_initializer="glorot")
        )

    def edge_term(self, graph: Graph) -> Tensor | None:
        """[E, heads or width]: what the edge features add to the score."""
        if self.lin_edge is None or graph.edge_attr is None:
            return None
        attributes = graph.edge_attr
        lin_edge: Any = self.lin_edge
        term: Tensor = lin_edge(attributes.view(-1, 1) if attributes.dim() == 1 else attributes)
        return term


class LMGC(_Scored):
    r"""The paper's instantiation, eq. 12:
    ``α_k(i,j) = tanh(v_kᵀ LeakyReLU(W¹x_i ‖ … ‖ W^K x_i ‖ W¹x_j ‖ … ‖ W^K x_j))``.

    LeakyReLU acts element-wise on the concatenation, so the score is a sum of one term of node i and one of
    node j, ``α = tanh(s_k(i) + t_k(j))`` ("static" attention in Brody's sense), and nothing of the size of the
    edges times channels is ever needed.
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
        self.negative_slope = negative_slope
        # The rows are v_k for node i (the first K) and for node j (the last K).
        self.att = Parameter(torch.empty(2 * heads, heads * out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot(self.att)

    def scores(self, h: Pair) -> Pair:
        """s [N, K] of the targets and t [N, K] of the sources."""
        to_target, to_source = self.att.chunk(2)
        source, target = (F.leaky_relu(side.flatten(1), self.negative_slope) for side in h)
        return target @ to_target.t(), source @ to_source.t()

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        s, t = self.scores(h)
        return separable_alpha(s, t, self.edge_term(graph), graph)


class GCN(Coefficients):
    r"""``α(i,j) = 1/√(d_i d_j)`` (Kipf and Welling), K = 1."""

    def __init__(self, in_channels: Channels = -1, out_channels: int = -1, heads: int = 1) -> None:
        super().__init__(_fixed("gcn", heads, 1))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        return graph.normalization(h[0].dtype).view(-1, 1)


class GAT(_Scored):
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


class GATv2(_Scored):
    r"""``α_k(i,j) = softmax_j a_kᵀ LeakyReLU(W^k x_j + V^k x_i)`` (Brody et al.).

    The paper writes one shared matrix V = W (``share_weights=True``, the default here); PyG's default has two.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
        share_weights: bool = True,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.negative_slope = negative_slope
        self.share_weights = share_weights
        self.att = Parameter(torch.empty(1, heads, out_channels))
        self.lin_target = (
            None
            if share_weights
            else Linear(_target(in_channels), heads * out_channels, bias=False, weight_initializer="glorot")
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot(self.att)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = h
        if self.lin_target is not None:
            target = self.lin_target(x[1]).view_as(target)
        score = source[graph.src] + target[graph.dst]  # [E, K, C]
        edge = self.edge_term(graph)
        if edge is not None:
            score = score + edge.view_as(score)
        score = (F.leaky_relu(score, self.negative_slope) * self.att).sum(-1)
        return cast(Tensor, softmax(score, graph.dst, num_nodes=graph.num_dst))


class FAGCN(_Scored):
    r"""``α(i,j) = tanh(vᵀ[x_i ‖ x_j]) / √(d_i d_j)`` (Bo et al.), K = 1: signed weights on the input features."""

    def __init__(
        self, in_channels: Channels, out_channels: int = -1, heads: int = 1, edge_dim: int | None = None
    ) -> None:
        super().__init__(_fixed("fagcn", heads, 1), edge_dim)
        self.att_src = Linear(_source(in_channels), 1, bias=False, weight_initializer="glorot")
        self.att_dst = Linear(_target(in_channels), 1, bias=False, weight_initializer="glorot")

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        alpha = separable_alpha(self.att_dst(x[1]), self.att_src(x[0]), self.edge_term(graph), graph)
        return alpha * graph.normalization(alpha.dtype).view(-1, 1)


class ACM(Coefficients):
    r"""The filter bank of adaptive channel mixing (Luan et al.): ``Ã¹ = A_sym``, ``Ã² = L_sym = I − A_sym``.

    ``identity=True`` adds ``Ã³ = I``. The gate that ACM-GCN puts on top is not linear: see `mimogc.nn.ACMConv`.
    """

    loops = "identity"

    def __init__(
        self,
        in_channels: Channels = -1,
        out_channels: int = -1,
        heads: int | None = None,
        identity: bool = False,
    ) -> None:
        super().__init__(_fixed("acm", heads, 3 if identity else 2))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        identity = graph.identity.to(h[0].dtype)
        low = graph.normalization(h[0].dtype)
        bank = [low, identity - low, identity]
        return torch.stack(bank[: self.heads], dim=1)


class Gated(_Scored):
    r"""``α_c(i,j) = σ(A x_i + B x_j)_c`` (GatedGCN): K = C graphs of one output channel each."""

    layout = "channel"

    def __init__(
        self, in_channels: Channels, out_channels: int, heads: int | None = None, edge_dim: int | None = None
    ) -> None:
        super().__init__(_fixed("gated", heads, out_channels), edge_dim, width=out_channels)
        self.lin_key = Linear(_target(in_channels), out_channels, weight_initializer="glorot")
        self.lin_query = Linear(_source(in_channels), out_channels, bias=False, weight_initializer="glorot")

    def map_shape(self, out_channels: int) -> tuple[int, int]:
        return out_channels, 1

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        score = self.lin_key(x[1])[graph.dst] + self.lin_query(x[0])[graph.src]
        edge = self.edge_term(graph)
        return torch.sigmoid(score if edge is None else score + edge)


class Sheaf(Coefficients):
    r"""Transports of neural sheaf diffusion: ``α(i,j) = F_{i⊴e}ᵀ F_{j⊴e}``, K = s² for stalks of dimension s.

    The restriction maps are ``F_{i⊴e} = tanh(Φ[x_i ‖ x_j])`` and ``F_{j⊴e} = tanh(Φ[x_j ‖ x_i])``; features are
    s rows of C/s channels, and graph (a, b) carries row b of a source into row a of its target: W = E_ab ⊗ W.
    """

    layout = "stalk"

    def __init__(
        self, in_channels: Channels, out_channels: int, heads: int | None = None, stalk_dim: int = 2
    ) -> None:
        if stalk_dim < 1 or out_channels % stalk_dim:
            raise ValueError(f"stalk_dim: expected a divisor of out_channels={out_channels}, got {stalk_dim}")
        if isinstance(in_channels, tuple):
            raise ValueError(
                f"in_channels: sheaf coefficients need one kind of node, got the pair {in_channels}"
            )
        super().__init__(_fixed("sheaf", heads, stalk_dim**2))
        self.stalk_dim = stalk_dim
        self.lin_own = Linear(in_channels, stalk_dim**2, bias=False, weight_initializer="glorot")
        self.lin_other = Linear(in_channels, stalk_dim**2, bias=False, weight_initializer="glorot")

    def map_shape(self, out_channels: int) -> tuple[int, int]:
        return self.stalk_dim, out_channels // self.stalk_dim

    def restriction(self, own: Tensor, other: Tensor) -> Tensor:
        return torch.tanh(own + other).view(-1, self.stalk_dim, self.stalk_dim)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = x
        at_target = self.restriction(
            self.lin_own(target)[graph.dst], self.lin_other(source)[graph.src]
        )  # [E, s, s]
        at_source = self.restriction(self.lin_own(source)[graph.src], self.lin_other(target)[graph.dst])
        return (at_target.transpose(1, 2) @ at_source).flatten(1)


class Free(Coefficients):
    """One learnable weight per edge and graph: transductive, for one fixed graph (in its own edge order).

    The number of edges is taken from the first graph seen, unless given.
    """

    def __init__(
        self, in_channels: Channels = -1, out_channels: int = -1, heads: int = 4, num_edges: int | None = None
    ) -> None:
        super().__init__(heads)
        self.weight: Parameter | UninitializedParameter = (
            UninitializedParameter() if num_edges is None else Parameter(torch.empty(num_edges, heads))
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if not isinstance(self.weight, UninitializedParameter):
            torch.nn.init.normal_(self.weight)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        if isinstance(self.weight, UninitializedParameter):
            self.weight.materialize((graph.num_edges, self.heads), device=h[0].device, dtype=h[0].dtype)
            self.reset_parameters()
        if torch.compiler.is_compiling():
            torch._check(self.weight.size(0) == graph.num_edges)
        elif self.weight.size(0) != graph.num_edges:
            raise ValueError(
                f"graph: these free coefficients belong to a graph of {self.weight.size(0)} edges "
                f"(self-loops included), got one of {graph.num_edges}"
            )
        return self.weight


def _source(channels: Channels) -> int:
    return channels[0] if isinstance(channels, tuple) else channels


def _target(channels: Channels) -> int:
    return channels[1] if isinstance(channels, tuple) else channels


def _fixed(name: str, heads: int | None, value: int) -> int:
    if heads is not None and heads != value and heads != 4:  # 4 is the layer's default
        raise ValueError(
            f"heads: coefficients {name!r} have exactly {value} computational graphs here, got {heads}"
        )
    return value


BY_NAME: dict[str, Any] = {
    "lmgc": LMGC,
    "gcn": GCN,
    "gat": GAT,
    "gatv2": GATv2,
    "fagcn": FAGCN,
    "acm": ACM,
    "gated": Gated,
    "sheaf": Sheaf,
    "free": Free,
}
