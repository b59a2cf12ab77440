"""LMGConv with edge types: a term in the score and a message of their own, for graphs such as molecules."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot, zeros

from mimogc.graph import Graph
from mimogc.nn._layout import aggregate
from mimogc.nn._parameters import check_parameters
from mimogc.nn.coefficients import FAGCN, LMGC, Coefficients, Eq12, GATv2
from mimogc.nn.coefficients.base import Pair, has_hooks
from mimogc.nn.conv import LMGConv
from mimogc.ops import Form, TypedGate, TypedPairs, TypedSigned, TypedWeights, typed_layer


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """A graph whose edges have types, prepared once for all layers."""

    graph: Graph  #: with the types as one-hot edge attributes
    place: Tensor  #: [E] int64: (target, type) of each edge as one number
    kinds: Tensor  #: [E] int64: the type of each edge

    @staticmethod
    def of(graph: Graph, kinds: Tensor, types: int, dtype: torch.dtype) -> "TypedGraph":
        """From ``kinds [E]`` int64 below `types`, in the graph's own edge order."""
        if kinds.shape != (graph.num_edges,):
            raise ValueError(f"kinds: expected shape [{graph.num_edges}], got {list(kinds.shape)}")
        if kinds.dtype != torch.int64:
            raise TypeError(f"kinds: expected int64, got {kinds.dtype}")
        try:
            one_hot = F.one_hot(kinds, types)
        except RuntimeError as error:  # it looks at them already
            if not kinds.numel() or 0 <= int(kinds.min()) <= int(kinds.max()) < types:
                raise
            found = f"{int(kinds.min())} to {int(kinds.max())}"
            raise ValueError(f"kinds: expected types from 0 to {types - 1}, got {found}") from error
        typed = replace(graph, edge_attr=one_hot.to(dtype))
        return TypedGraph(typed, typed.dst * types + kinds, kinds)


class BondConv(torch.nn.Module):
    r"""LMGConv whose edges have one of T types, with a term in the score and a message for each.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_k \sum_j \alpha_k(i,j)\,
            \bigl(\mathbf{W}^{(k)} \mathbf{x}_j + \mathbf{e}_k(\mathrm{type}_{ij})\bigr)

    where the type also adds a learnt term to the score of :math:`\alpha_k`. The messages of the types need no
    edge-sized memory: the coefficients are summed per node and type, and one product does the rest.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        types: int,
        heads: int = 4,
        coefficients: str | Coefficients = "lmgc",
        add_self_loops: bool = True,
    ) -> None:
        conv = LMGConv(
            in_channels, out_channels, heads, coefficients, add_self_loops=add_self_loops, edge_dim=types, bias=False
        )
        self._add_types(conv, types)

    @classmethod
    def around(cls, conv: torch.nn.Module, types: int) -> "BondConv":
        """The layer that adds types to a given one, which has ``edge_dim=types`` and ``bias=False``."""
        if not isinstance(conv, LMGConv) or conv.edge_dim != types or conv.bias is not None:
            raise ValueError(f"conv: expected an LMGConv with edge_dim={types} and bias=False, got {conv!r}")
        if conv.combine != "sum" or conv.coefficients.layout != "free":
            raise ValueError(f"conv: expected one that sums over graphs with free transformations, got {conv!r}")
        layer = cls.__new__(cls)
        layer._add_types(conv, types)
        return layer

    def _add_types(self, conv: LMGConv, types: int) -> None:
        super().__init__()
        self.types = types
        self.conv = conv
        self.bias = Parameter(torch.empty(conv.out_channels))
        self.message = Parameter(torch.empty(types * conv.heads, conv.out_channels))  # row t·K + k is e_k(t)
        self.reset_parameters()

    @property
    def coefficients(self) -> Coefficients:
        return self.conv.coefficients

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()
        glorot(self.message)
        zeros(self.bias)

    def forward(self, x: Tensor, graph: TypedGraph) -> Tensor:
        """[N, C] from x [N, F]."""
        sides, own = self.conv._inputs(x, self._graph(graph))
        check_parameters(self.conv)
        found = self.as_typed(sides, own, graph)
        if found is None:
            return self.linear(x, graph) + self.bias
        form, weights = found
        return typed_layer(form, sides[0], weights, own, graph.kinds)

    def as_typed(self, sides: Pair, own: Graph, graph: TypedGraph) -> tuple[Form, TypedWeights] | None:
        """What `ops.typed_layer` takes in the place of this layer; None where the parts have to be called.

        That is for other coefficients than those of lmgc, eq12, gatv2 (one map for both ends) and fagcn, where a part
        does not fit, and if someone looks at the parts.
        """
        conv, edge = self.conv, self._types_alone()
        of: Any = conv.coefficients
        if edge is None or own.is_partitioned or not conv._sums_alone(sides, own):
            return None
        maps = conv.lin.weight, edge.t(), self.message, self.bias
        if type(of) in (LMGC, Eq12):
            return TypedGate(of.negative_slope), _weights(of.att, *maps, of.offset)
        if type(of) is GATv2 and of.lin_target is None and _has_shape(of.att, (1, conv.heads, conv.out_channels)):
            return TypedPairs(of.negative_slope), _weights(of.att[0], *maps)
        if type(of) is FAGCN and own.extra is None and all(map(_is_score, (of.att_dst, of.att_src))):
            ends = of.att_dst.weight, of.att_src.weight
            alike = ends[0].dtype is ends[1].dtype and ends[0].device == ends[1].device
            if alike and all(_has_shape(end, (conv.heads, sides[0].size(1))) for end in ends):
                return TypedSigned(own.degree_scale(ends[0].dtype)), _weights(torch.cat(ends), *maps, of.offset)
        return None

    def linear(self, x: Tensor, graph: TypedGraph) -> Tensor:
        """The output without bias."""
        conv, own = self.conv, self._graph(graph)
        alpha, h, _ = conv.parts(x, own)
        out = aggregate(conv.coefficients.layout, conv.combine, alpha, h, own)
        received = alpha.new_zeros(own.num_dst * self.types, conv.heads).index_add(0, graph.place, alpha)
        return torch.addmm(out, received.view(own.num_dst, self.types * conv.heads), self.message)

    def _types_alone(self) -> Tensor | None:
        """The weights of what a type adds to scores, where it is no more than a linear map of its one-hot vector."""
        lin: Any = getattr(self.conv.coefficients, "lin_edge", None)
        return lin.weight if _is_score(lin) and lin.weight.dim() == 2 else None

    def _graph(self, graph: TypedGraph) -> Graph:
        if not isinstance(graph, TypedGraph):
            raise TypeError(f"graph: expected a TypedGraph, got {type(graph).__name__}")
        if self.conv.add_self_loops and not graph.graph.looped:
            raise ValueError("graph: expected one with self-loops, whose edges then have a type too")
        return graph.graph

    def calibrate_scores(self, depth: int, x: Tensor, graph: TypedGraph) -> None:
        """Bring the coefficients' own parameters to the scale of this input, in a model of `depth` layers."""
        self.conv.calibrate_scores(depth, x, self._graph(graph))

    def rescale(self, factor: float) -> None:
        """Multiply what `linear` gives by `factor`, and leave the coefficients as they are."""
        self.conv.rescale(factor)
        with torch.no_grad():
            self.message.mul_(factor)


def _is_score(lin: Any) -> bool:
    """Whether terms of scores are no more than a linear map."""
    return type(lin) is Linear and lin.bias is None and not has_hooks(lin)


def _has_shape(value: object, shape: tuple[int, ...]) -> bool:
    return isinstance(value, Tensor) and value.shape == shape


def _weights(
    att: Tensor, weight: Tensor, scores: Tensor, messages: Tensor, bias: Tensor, offset: Tensor | None = None
) -> TypedWeights:
    return TypedWeights(weight, att, scores, messages, bias, offset)
