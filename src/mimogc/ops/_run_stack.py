"""Several layers of a kind as one function: everything that reaches a kernel is held against each other here."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _native
from mimogc.ops._backends import serving
from mimogc.ops._checks import autocast, matched
from mimogc.ops._kinds import Kind
from mimogc.ops._layer_checks import check_rows
from mimogc.ops._links import links_of_layers
from mimogc.ops._stacks import Between, Stack, Tensors


def has_stacks(x: Tensor, graph: Graph) -> bool:
    """Whether x [N, F] and a graph of one kind of nodes are for the C++ kernels."""
    return (
        not torch.compiler.is_compiling()
        and isinstance(x, Tensor)
        and x.dim() == 2
        and x.layout is torch.strided
        and x.is_cpu
        and graph.rowptr.is_cpu
        and graph.num_src == graph.num_dst
        and not graph.is_partitioned
        and not autocast(x.device)
        and serving(x) is _native
    )


def run_stack(
    x: Tensor,
    layers: Sequence[Kind],
    weights: Sequence[Tensors],
    graph: Graph,
    rows: Tensor | None = None,
    gain: float | None = None,
    maximum: bool = False,
) -> Tensor:
    """Layers with GELU one after another on a graph of one kind of nodes, each on what the one before gave.

    Args:
        x: ``[N, F]`` features; with `rows`, as many rows as there are.
        layers: what each does.
        weights: the tensors of each.
        graph: the graph.
        rows: ``[N]`` int64: node i begins as row ``rows[i]`` of x.
        gain: with a number, every layer adds its input to so many times its output.
        maximum: give the largest of what all layers gave, channel by channel, and not what the last one did.
    """
    _check(x, layers, weights, graph, rows, gain, maximum)
    stack = Stack(tuple(layers), Between(gain, maximum and len(layers) > 1), graph)
    tensors = [tensor for own in weights for tensor in own]
    kernels = has_stacks(x, graph) and serving(x, rows, *tensors) is _native
    if not (kernels and all(layer.has_kernels(own) for layer, own in zip(layers, weights, strict=True))):
        return stack.by_parts(x, tensors, rows)
    if rows is not None and not all(layer.classes for layer in layers):
        x, rows = x.index_select(0, rows), None
    return stack.run(x, tensors, links_of_layers(graph, len(layers), rows, x.size(0), True), rows)


def _check(
    x: Tensor,
    layers: Sequence[Kind],
    weights: Sequence[Tensors],
    graph: Graph,
    rows: Tensor | None,
    gain: float | None,
    maximum: bool,
) -> None:
    """Refuse what does not fit, x and the tensors of all layers, each other and the graph."""
    if graph.num_src != graph.num_dst or graph.is_partitioned:
        raise ValueError(f"graph: expected a whole one with one kind of nodes, got {graph!r}")
    if not layers or len(layers) != len(weights):
        raise ValueError(f"weights: expected those of at least one layer, of {len(layers)}, got {len(weights)}")
    check_rows(rows, x, graph)
    given, before = x, 0
    for number, (layer, own) in enumerate(zip(layers, weights, strict=True)):
        if len(own) != layer.size:
            raise ValueError(f"weights: expected {layer.size} tensors of layer {number}, got {len(own)}")
        shape = ("rows" if rows is not None and not number else graph.num_nodes, "F")
        channels, expected = layer.expected(own, graph)
        for name, value, _ in expected:
            if value is None and name != "bias":
                raise TypeError(f"{name}: expected a tensor, got NoneType")
        matched(graph, ("x", given, shape), *expected)
        if gain is not None and channels != given.size(1):
            raise ValueError(
                f"gain: expected layers with as many channels as features, got {channels} and {given.size(1)}"
            )
        if maximum and number and channels != before:
            raise ValueError(f"maximum: expected layers with as many channels as each other, got {before}, {channels}")
        given, before = x.new_empty((1, 1)).expand(graph.num_nodes, channels), channels  # for what the next layer gets
