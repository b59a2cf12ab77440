"""What a coefficient class is, and what the published ones share."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter

from mimogc.graph import Graph
from mimogc.ops import at_sources, at_targets, sum_at_targets

HEADS = 4  # of a layer where nobody says; coefficients that fix their number let it pass
Channels = int | tuple[int, int]
Pair = tuple[Tensor, Tensor]  # of the sources and of the targets; the same tensor twice unless the graph is bipartite


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
    #: whether they are made of the adjacency matrix, so that weights of its edges (`graph.edge_attr`) mean something
    weighted: ClassVar[bool] = False
    #: what they look at of a source: "h" alone, or "x" too; a partitioned graph fetches x or h, whichever is less
    reads: ClassVar[str] = "x"
    heads: int
    #: of the layer that these are for, where their parameters depend on it
    out_channels: int | None = None

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

    def check(self) -> None:
        """Refuse parameters that someone has put in the place of ours and that do not fit."""

    def start(self, maps: Sequence[Linear], combine: str) -> None:
        """Set the initial weights of the layer's linear maps, which have been drawn as is usual (Glorot)."""

    def calibrate(self, h: Pair, graph: Graph, depth: int) -> None:
        """Bring the own parameters to the scale of this input, in a model of `depth` layers, for `nn.calibrate`."""

    def rescale(self, factor: float) -> None:
        """Keep the coefficients as they are although h is multiplied by `factor` from now on.

        Coefficients that do not look at h have nothing to do.
        """

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


def check_shapes(
    owner: Coefficients, parameters: Mapping[str, tuple[int, ...]], maps: Mapping[str, int] | None = None
) -> None:
    """Refuse parameters of other shapes, and linear maps to other numbers of channels."""
    for name, shape in parameters.items():
        value = getattr(owner, name)
        if value is None or value.shape != shape:
            found = None if value is None else list(value.shape)
            raise ValueError(f"{name}: expected shape {list(shape)}, got {found}")
    for name, rows in (maps or {}).items():
        weight = getattr(getattr(owner, name), "weight", None)
        if isinstance(weight, Tensor) and not is_uninitialized_parameter(weight) and weight.shape[:-1] != (rows,):
            raise ValueError(f"{name}.weight: expected shape [{rows}, F], got {list(weight.shape)}")


class Scored(Coefficients):
    """Coefficients made from a score, to which edge features may add a term."""

    def __init__(self, heads: int, edge_dim: int | None, width: int | None = None) -> None:
        super().__init__(heads)
        self.lin_edge = (
            None if edge_dim is None else Linear(edge_dim, width or heads, bias=False, weight_initializer="glorot")
        )

    def edge_term(self, graph: Graph) -> Tensor | None:
        """[E, heads or width]: what the edge features add to the score."""
        features = self.edge_features(graph)
        lin_edge: Any = self.lin_edge
        return None if features is None else lin_edge(features)

    def edge_features(self, graph: Graph) -> Tensor | None:
        """[E, D], None where this has no map for them or the graph has none."""
        if self.lin_edge is None or graph.edge_attr is None:
            return None
        return graph.edge_attr.view(-1, 1) if graph.edge_attr.dim() == 1 else graph.edge_attr

    def divided(self, alpha: Tensor, graph: Graph) -> Tensor:
        """The coefficients times the entries of A_sym: of the weighted graph, unless what edges have are features."""
        plain = self.lin_edge is None
        norm = normalization(graph, alpha.dtype) if plain else graph.normalization(alpha.dtype)
        return alpha * norm.view(-1, 1)

    def edge_weight(self) -> Tensor | None:
        """[heads, width / heads, D]: the map itself, so that nothing of E · width numbers need exist.

        None where someone has put another module in its place or looks at what it gives: then it must be called.
        """
        lin: Any = self.lin_edge
        plain = type(lin) is Linear and lin.bias is None and not has_hooks(lin)
        return lin.weight.unflatten(0, (self.heads, -1)) if plain else None


def normalization(graph: Graph, dtype: torch.dtype) -> Tensor:
    """[E]: the entries of A_sym, of the weighted graph where the edges have weights, as PyG's `gcn_norm` has them."""
    weight = graph.edge_attr
    if weight is None or weight.dim() != 1 or not weight.dtype.is_floating_point:
        return graph.normalization(dtype)
    if graph.is_bipartite and not graph.is_partitioned:
        return graph.normalization(dtype)  # which says that there is none
    wide = torch.promote_types(dtype, torch.float32)  # float16 has no number for a sum above 65,504
    weight = weight.to(wide) if graph.extra is None else weight.to(wide).masked_fill(graph.extra, 0.0)
    scale = sum_at_targets(weight.view(-1, 1), graph).pow(-0.5)
    scale = scale.masked_fill(scale == torch.inf, 0.0)
    found = at_sources(graph.gathered(scale), graph).view(-1) * weight * at_targets(scale, graph).view(-1)
    return found.to(dtype)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether calling the module does more than its forward."""
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(own) or "forward" in module.__dict__ or bool(torch.nn.modules.module._has_any_global_hook())


def source_channels(channels: Channels) -> int:
    return channels[0] if isinstance(channels, tuple) else channels


def target_channels(channels: Channels) -> int:
    return channels[1] if isinstance(channels, tuple) else channels


def fixed_heads(name: str, heads: int | None, value: int) -> int:
    if heads not in (None, value, HEADS):
        raise ValueError(f"heads: coefficients {name!r} have exactly {value} computational graphs here, got {heads}")
    return value
