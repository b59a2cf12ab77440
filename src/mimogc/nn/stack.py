"""LMGCStack: several layers of LMGC, one after another, as one function."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.graph import Graph
from mimogc.nn._inputs import check_features, check_flow, check_index, no_jit, plain_graph
from mimogc.nn._parameters import check_size
from mimogc.nn._stackable import Modules, stackable
from mimogc.nn.coefficients import BY_NAME
from mimogc.nn.coefficients.base import has_hooks
from mimogc.nn.conv import LMGConv
from mimogc.ops import Settings, Weights, activate, lmgcs, run_stack

_NAMES = ("weight", "att", "offset", "bias")  # of a layer's parameters: those of layer 2 are weight_2, att_2, …


class LMGCStack(torch.nn.Module):
    r"""L layers ``x ← GELU(LMGConv(x))`` on one graph, with parameters of its own, as `torch.nn.LSTM` has its cells'.

    It computes what L layers one after another do. What Python and autograd cost is paid once and not L times, the
    activation is part of the kernel, and where nodes begin as rows of a small table (atom types), nodes that are alike
    and have neighbours that are alike are computed once. Small graphs feel that: a step of ZINC12k takes two thirds of
    the time (`mimogc bench`). Between its layers there is nothing: use `stacked` for residual connections and jumping
    knowledge, and `LMGConv` for norms, dropout, edge features or hooks.

    Args:
        in_channels: size of each input.
        channels: size of the output of every layer.
        layers: their number L.
        heads: the number K of computational graphs.
        coefficients: ``"lmgc"`` or ``"eq12"``.
        negative_slope: of the LeakyReLU in the scores.
        add_self_loops: replace self-loops by exactly one per node.
        bias: whether every layer adds a learnable bias.
        act: ``"gelu"``, or None for layers without activation.

    Shapes:
        - **input:** ``x [N, in_channels]``, ``edge_index`` as `LMGConv` takes it. With ``index [N]`` int64, x is a
          table of rows and node i begins as row ``index[i]``.
        - **output:** ``[N, channels]``
    """

    __prepare_scriptable__ = no_jit

    def __init__(
        self,
        in_channels: int,
        channels: int,
        layers: int,
        heads: int = 4,
        coefficients: str = "lmgc",
        negative_slope: float = 0.2,
        add_self_loops: bool = True,
        bias: bool = True,
        act: str | None = "gelu",
    ) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("channels", channels), ("layers", layers)):
            check_size(name, size)
        if coefficients not in ("lmgc", "eq12"):
            raise ValueError(f"coefficients: expected 'lmgc' or 'eq12', got {coefficients!r}")
        if act not in ("gelu", None):
            raise ValueError(f"act: expected 'gelu' or None, got {act!r}")
        self.in_channels, self.channels, self.layers, self.heads = in_channels, channels, layers, heads
        self.coefficients, self.negative_slope = coefficients, negative_slope
        self.add_self_loops, self.act = add_self_loops, act
        for number in range(layers):
            conv = self._convolution(number, bias)
            own: Any = conv.coefficients
            values = (conv.lin.weight, own.att, own.offset, conv.bias)
            for name, value in zip(_NAMES, values, strict=True):
                self.register_parameter(f"{name}_{number}", value)

    def _convolution(self, number: int, bias: bool) -> LMGConv:
        given = self.channels if number else self.in_channels
        options = {"negative_slope": self.negative_slope, "add_self_loops": self.add_self_loops, "bias": bias}
        return LMGConv(given, self.channels, self.heads, self.coefficients, **options)  # type: ignore[arg-type]

    @property
    def kind(self) -> type:
        """The class of the coefficients."""
        found: type = BY_NAME[self.coefficients]
        return found

    def _parameters_of(self, number: int) -> list[Any]:
        return [getattr(self, f"{name}_{number}") for name in _NAMES]

    def convolutions(self) -> Iterator[LMGConv]:
        """The layers one by one, as `LMGConv` modules that share the parameters of the stack; without activation."""
        for number in range(self.layers):
            weight, att, offset, bias = self._parameters_of(number)
            with torch.random.fork_rng(devices=[]):  # its own first weights are thrown away
                conv = self._convolution(number, bias is not None)
            own: Any = conv.coefficients
            conv.lin.weight, own.att, own.offset, conv.bias = weight, att, offset, bias
            yield conv.train(self.training)

    def reset_parameters(self) -> None:
        for conv in self.convolutions():
            conv.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any, index: Tensor | None = None) -> Tensor:
        check_features(x, self.in_channels)
        if index is not None:
            check_index(index, x)
        first: Any = self.weight_0
        if first is not None and x.dtype != first.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"x: expected {first.dtype} like the layers' weights, got {x.dtype}")
        graph = plain_graph(edge_index, (x if index is None else index).size(0), self.add_self_loops)
        if graph.is_partitioned:
            raise ValueError("edge_index: expected a whole graph, got a part of one; use LMGConv layers with parts")
        settings = [Settings(self.negative_slope, self.act == "gelu")] * self.layers
        weights, expected = [], (2 * self.heads, self.heads * self.channels)
        for number in range(self.layers):
            weight, att, offset, bias = self._parameters_of(number)
            if weight is None or weight.shape[:1] != expected[1:] or att is None or att.shape != expected:
                found = [None if value is None else list(value.shape) for value in (weight, att)]
                raise ValueError(
                    f"weight_{number}, att_{number}: expected [{expected[1]}, F] and {expected}, got {found}"
                )
            weights.append(Weights(weight, att, offset, None, bias))
        return lmgcs(x, weights, settings, graph, index)

    def one_by_one(
        self, x: Tensor, edge_index: Any, index: Tensor | None = None
    ) -> Iterator[tuple[LMGConv, tuple[Tensor, Any]]]:
        """Each layer with what it is given: features and graph. It is called when the next one is asked for."""
        out = x if index is None else x.index_select(0, index)
        for conv in self.convolutions():
            yield conv, (out, edge_index)
            out = conv(out, edge_index)
            out = F.gelu(out) if self.act else out

    def extra_repr(self) -> str:
        sizes = f"{self.in_channels}, {self.channels}, layers={self.layers}, heads={self.heads}"
        return f"{sizes}, coefficients={self.coefficients}"


def stacked(
    layers: Modules,
    x: Tensor,
    graph: Graph,
    index: Tensor | None = None,
    gain: float | None = None,
    jumping_knowledge: bool = False,
) -> Tensor:
    """Layers with GELU one after another on a graph, each ``x ← GELU(layer(x, graph))``.

    `LMGConv` layers with the coefficients lmgc, eq12, gcn, acm, gatv2 or fagcn, all the same, and layers of GIN become
    one function, as in `LMGCStack`; others are called one by one, and what comes between them is one function.

    Args:
        layers: modules, called as ``layer(x, graph)``.
        x: ``[N, C]`` features.
        graph: the graph, with the self-loops that the layers ask for, or without.
        index: ``[N]`` int64: x is a table of rows, and node i begins as row ``index[i]``.
        gain: with a number, residual connections: ``x ← x + gain · GELU(layer(x, graph))``.
        jumping_knowledge: give the channel-wise maximum over the outputs of all layers, not the last.
    """
    weights = _together(layers, x, graph)
    if weights is not None:
        own: Any = list(layers)
        if index is not None:
            check_index(index, x)
        settings = [Settings(layer.coefficients.negative_slope, True) for layer in own]
        looped = plain_graph(graph, (x if index is None else index).size(0), own[0].add_self_loops)
        return lmgcs(x, weights, settings, looped, index, gain, jumping_knowledge)
    other = stackable(layers, x, graph, index)
    if other is not None:
        if index is not None:
            check_index(index, x)
        return run_stack(x, *other, index, gain, jumping_knowledge)
    out = x if index is None else x.index_select(0, index)
    best: Tensor | None = None
    for layer in layers:
        y = layer(out, graph)
        out, best = activate(y, None if gain is None else out, 1.0 if gain is None else gain, best)
        best = out if jumping_knowledge and best is None else best
    return out if best is None else best


def _together(layers: Modules, x: Tensor, graph: Any) -> list[Weights] | None:
    """The weights of layers that are one function; None where they are not, or do not fit each other."""
    weights: list[Weights] = []
    features = x.size(-1)
    if not isinstance(graph, Graph):  # the layers may take it
        return None
    for layer in layers:
        if isinstance(layer, LMGConv):
            check_flow(layer)
        if (
            type(layer) is not LMGConv
            or not isinstance(getattr(layer.lin, "weight", None), Tensor)  # someone's own module is in its place
            or is_uninitialized_parameter(layer.lin.weight)
            or has_hooks(layer)
            or graph.is_partitioned
            or graph.edge_attr is not None
            or layer.edge_dim is not None
            or layer.combine != "sum"
            or layer.res is not None
            or layer.add_self_loops != layers[0].add_self_loops
            or layer.lin.weight.shape != (layer.heads * layer.out_channels, features)
            or layer.lin.weight.dtype != x.dtype
            or not layer._is_one_kernel((x, x), graph)
        ):
            return None
        own: Any = layer.coefficients
        if own.att.shape != (2 * layer.heads, layer.lin.weight.size(0)):
            return None
        weights.append(Weights(layer.lin.weight, own.att, own.offset, None, layer.bias))
        features = layer.out_channels
    return weights or None
