"""Layers other than the paper's, for stacks: GIN, fixed coefficients (GCN, ACM), GATv2 and FAGCN.

Each is what the layer of that name computes one operator after another, which its `by_parts` repeats.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc._library import run
from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers
from mimogc.ops._backends import serving
from mimogc.ops._checks import Expected, autocast, matched
from mimogc.ops._links import links_of_layers
from mimogc.ops._native import for_one_call, pointer, sizes
from mimogc.ops._operators import edge_softmax, pair_scores, propagate, propagate_tanh
from mimogc.ops._stacks import Between, Layer, Stack, Tensors


class Kind(Layer):
    """A layer to whose output the stack applies GELU."""

    classes: ClassVar[bool] = False  # whether it takes rows of which several nodes are one

    @abstractmethod
    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        """The channels of its output, and the names and shapes of what it reads, where x is [N, F]."""

    def has_kernels(self, own: Tensors) -> bool:
        """Whether these sizes are for the kernels."""
        return True


@dataclass(frozen=True, eq=False)
class Gin(Kind):
    """``last ReLU(first z + first_bias) + last_bias`` with ``z_i = own · x_i + Σ_j x_j``."""

    own: float
    size, kept, classes = 4, 2, True

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        channels = _rows(own[2])
        shapes: Any = (channels, "F"), (channels,), (channels, channels), (channels,)
        return channels, list(zip(("first", "first_bias", "last", "last_bias"), own, shapes, strict=True))

    def has_kernels(self, own: Tensors) -> bool:
        return all(_native_layers.multiplies(weight) for weight in own[::2])

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        channels, features = own[0].shape
        z, h = x.new_empty((link.num_dst, features)), x.new_empty((link.num_dst, channels))
        out = torch.empty_like(h)
        of, places = sizes(x, 1, channels, features=features), map(pointer, (x, z, h, out))
        run("mimogc_gin", link, of, for_one_call(*map(pointer, own), self.own), *places)
        return out, (z, h)

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        grad_x = torch.empty_like(x) if needs[0] else None
        grads = [torch.empty_like(value) for value in own]
        of = sizes(x, 1, own[0].size(0), features=own[0].size(1))
        given, places = for_one_call(*map(pointer, own), self.own), map(pointer, (*kept, g, grad_x))
        run("mimogc_gin_grad", link, of, given, *places, for_one_call(*map(pointer, grads)))
        return grad_x, *_asked(grads, needs)

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        first, first_bias, last, last_bias = own
        z = self.own * x + propagate(graph.ones(x.dtype), x.unsqueeze(1), graph)
        return F.linear(F.relu(F.linear(z, first, first_bias)), last, last_bias)


@dataclass(frozen=True, eq=False)
class Fixed(Kind):
    """``Σ_k Ã^(k) x W^(k) + bias`` with coefficients that do not depend on x: those of GCN and of ACM's filter bank."""

    alpha: Tensor  # [E, K]
    size, kept = 2, 0

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        heads = self.alpha.size(1)
        channels = _rows(own[0]) // heads
        return channels, [("alpha", self.alpha, (graph.num_edges, heads)), *_maps(own[0], own[1], heads, channels)]

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        weight, bias = own
        h = torch.mm(x, weight.t()).unflatten(1, (self.alpha.size(1), -1))
        return _biased(_native.sum_heads(self.alpha, h, graph, "sum"), bias), ()

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        grad_h = _native.transpose(self.alpha, g, graph, "sum").flatten(1)
        grad_x = torch.mm(grad_h, own[0]) if needs[0] else None
        return grad_x, *_asked((_product(x, grad_h), g.sum(0)), needs)

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        weight, bias = own
        h = F.linear(x, weight).unflatten(1, (self.alpha.size(1), -1))
        out = propagate(self.alpha, h, graph)
        return out if bias is None else out + bias


@dataclass(frozen=True, eq=False)
class Pairs(Kind):
    """GATv2 with one map for both ends: ``α_k(i,j) = softmax_j att_k · LeakyReLU(W^(k) x_j + W^(k) x_i)``."""

    slope: float
    size, kept = 3, 2

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        weight, att, bias = own
        heads = _rows(att)
        channels = _rows(weight) // max(heads, 1)
        return channels, [("att", att, (heads, channels)), *_maps(weight, bias, heads, channels)]

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        weight, att, bias = own
        h = torch.mm(x, weight.t()).view(x.size(0), *att.shape)
        alpha = _native.softmax(_native.typed_pair_scores(h, h, att, self.slope, graph), graph)
        return _biased(_native.sum_heads(alpha, h, graph, "sum"), bias), (h, alpha)

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        (weight, att, _), (h, alpha) = own, kept
        grad_alpha, grad_h = _native.sum_grad(alpha, h, g, graph, "sum")
        grad_score = _native.softmax_grad(alpha, grad_alpha, graph)
        both, _, grad_att, _ = _native.typed_pair_scores_grad(h, h, att, self.slope, grad_score, graph, same=True)
        grad_h = grad_h.add_(both).flatten(1)
        grad_x = torch.mm(grad_h, weight) if needs[0] else None
        return grad_x, *_asked((_product(x, grad_h), grad_att, g.sum(0)), needs)

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        weight, att, bias = own
        h = F.linear(x, weight).unflatten(1, tuple(att.shape))
        out = propagate(edge_softmax(pair_scores(h, h, att, graph, self.slope), graph), h, graph)
        return out if bias is None else out + bias


@dataclass(frozen=True, eq=False)
class Signed(Kind):
    """FAGCN: ``α(i,j) = scale_i tanh(source · x_j + target · x_i) scale_j``, one graph.

    The rows of h are scaled before and those of the sum after it, so that the kernel of the tanh serves.
    """

    scale: Tensor  # [N, 1]
    size, kept = 4, 3

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        weight, source, target, bias = own
        scores: list[Expected] = [("source", source, (1, "F")), ("target", target, (1, "F"))]
        channels = _rows(weight)
        return channels, [("scale", self.scale, (graph.num_nodes, 1)), *scores, *_maps(weight, bias, 1, channels)]

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        weight, source, target, bias = own
        h = torch.mm(x, weight.t()).mul_(self.scale).unsqueeze(1)
        s, t = torch.mm(x, target.t()), torch.mm(x, source.t())
        return _biased(_native.tanh_sum(s, t, None, h, graph).mul_(self.scale), bias), (h, s, t)

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        (weight, source, target, _), (h, s, t) = own, kept
        at_target, at_source, grad_h, _ = _native.tanh_sum_grad(s, t, None, h, g * self.scale, graph)
        grad_h = grad_h[:, 0].mul_(self.scale)
        both = torch.cat([at_target, at_source], 1)
        of_target, of_source = torch.mm(both.t(), x).split(1)
        grad_x = torch.mm(grad_h, weight).addmm_(both, torch.cat([target, source])) if needs[0] else None
        return grad_x, *_asked((_product(x, grad_h), of_source, of_target, g.sum(0)), needs)

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        weight, source, target, bias = own
        h = (F.linear(x, weight) * self.scale).unsqueeze(1)
        out = propagate_tanh(F.linear(x, target), F.linear(x, source), h, graph) * self.scale
        return out if bias is None else out + bias


def _rows(value: Any) -> int:
    """The rows of what should be a matrix; 0 where it is none, which then has another shape than is expected."""
    return value.size(0) if isinstance(value, Tensor) and value.dim() == 2 else 0


def _maps(weight: Tensor, bias: Tensor | None, heads: int, channels: int) -> list[Expected]:
    return [("weight", weight, (heads * channels, "F")), ("bias", bias, (channels,))]


def _biased(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out.add_(bias)


def _product(x: Tensor, grad_h: Tensor) -> Tensor:
    """The gradient to W of x Wᵀ."""
    return torch.mm(grad_h.t(), x)


def _asked(grads: Sequence[Tensor], needs: tuple[bool, ...]) -> list[Tensor | None]:
    """Those of the tensors that are asked for."""
    return [grad if wanted else None for grad, wanted in zip(grads, needs[1:], strict=True)]


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
    stack, tensors = (
        Stack(layers, Between(gain, maximum and len(layers) > 1), graph),
        [t for own in weights for t in own],
    )
    kernels = has_stacks(x, graph) and serving(x, *tensors) is _native
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
    if rows is not None and (rows.dtype != torch.int64 or rows.shape != (graph.num_nodes,) or rows.device != x.device):
        wanted = f"int64 [{graph.num_nodes}] on {x.device}"
        raise ValueError(f"rows: expected {wanted}, got {rows.dtype} {list(rows.shape)} on {rows.device}")
    given, before = x, 0
    for number, (layer, own) in enumerate(zip(layers, weights, strict=True)):
        shape = ("rows" if rows is not None and not number else graph.num_nodes, "F")
        channels, expected = layer.expected(own, graph)
        matched(graph, ("x", given, shape), *expected)
        if gain is not None and channels != given.size(1):
            raise ValueError(
                f"gain: expected layers with as many channels as features, got {channels} and {given.size(1)}"
            )
        if maximum and number and channels != before:
            raise ValueError(f"maximum: expected layers with as many channels as each other, got {before}, {channels}")
        given, before = x.new_empty((1, 1)).expand(graph.num_nodes, channels), channels  # for what the next layer gets
