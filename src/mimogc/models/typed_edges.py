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
from mimogc.nn.coefficients import Coefficients, GATv2
from mimogc.nn.coefficients.base import has_hooks
from mimogc.nn.conv import LMGConv
from mimogc.ops import typed_attention, typed_lmgc


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
        conv, own = self.conv, self._graph(graph)
        edge = self._types_alone()
        of: Any = conv.coefficients
        if edge is None or own.is_partitioned:
            return self.linear(x, graph) + self.bias
        sides, own = conv._inputs(x, own)
        if conv._is_one_kernel(sides, own):
            check_parameters(conv)
            table = graph.kinds, edge.t(), self.message, of.negative_slope, self.bias, of.offset
            return typed_lmgc(sides[0], conv.lin.weight, of.att, own, *table)
        if type(of) is GATv2 and not has_hooks(of):
            # As GATv2 has it for one-hot edge attributes, which the types are.
            check_parameters(conv)
            source, target = conv._maps(sides, own)
            target = target if of.lin_target is None else of.lin_target(sides[1]).view_as(target)
            types = graph.kinds, edge.t().view(self.types, *of.att.shape[1:]), self.message
            return typed_attention(source, target, of.att[0], own, *types, of.negative_slope, self.bias)
        return self.linear(x, graph) + self.bias

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
        plain = type(lin) is Linear and lin.bias is None and not has_hooks(lin)
        return lin.weight if plain else None

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
