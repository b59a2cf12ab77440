"""Layers other than the paper's, for stacks: GIN, fixed coefficients (GCN, ACM), GATv2 and FAGCN.

Each is what the layer of that name computes one operator after another, which its `by_parts` repeats.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc._library import run
from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers
from mimogc.ops._checks import Expected
from mimogc.ops._native import for_one_call, pointer, sizes
from mimogc.ops._native_layers import Weights
from mimogc.ops._operators import edge_softmax, pair_scores, propagate, propagate_tanh
from mimogc.ops._stacks import Layer, Tensors


class Kind(Layer):
    """A layer whose output GELU is applied to."""

    gelu = True
    classes: ClassVar[bool] = False  # whether it takes rows of which several nodes are one

    @abstractmethod
    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        """The channels of its output, and the names and shapes of its tensors, where x is [N, F]."""

    def has_kernels(self, own: Tensors) -> bool:
        """Whether its tensors are for the kernels."""
        return True


@dataclass(frozen=True)
class Gin(Kind):
    """``last ReLU(first z + first_bias) + last_bias`` with ``z_i = factor · x_i + Σ_j x_j``."""

    factor: float
    size, kept, classes = 4, 2, True

    def __post_init__(self) -> None:
        if not isinstance(self.factor, float):
            raise TypeError(f"factor: expected a float, got {type(self.factor).__name__}")

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        channels = _size(own[2])
        shapes: Any = (channels, "F"), (channels,), (channels, channels), (channels,)
        return channels, list(zip(("first", "first_bias", "last", "last_bias"), own, shapes, strict=True))

    def has_kernels(self, own: Tensors) -> bool:
        return all(_native_layers.multiplies(weight) for weight in own[::2])

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        channels, features = own[0].shape
        z, h = x.new_empty((link.num_dst, features)), x.new_empty((link.num_dst, channels))
        out = torch.empty_like(h)
        of, places = sizes(x, 1, channels, features=features), map(pointer, (x, z, h, out))
        run("mimogc_gin", link, of, for_one_call(*map(pointer, own), self.factor), *places)
        return out, (z, h)

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        grad_x = torch.empty_like(x) if needs[0] else None
        grads = [torch.empty_like(value) for value in own]
        of = sizes(x, 1, own[0].size(0), features=own[0].size(1))
        given, places = for_one_call(*map(pointer, own), self.factor), map(pointer, (*kept, g, grad_x))
        run("mimogc_gin_grad", link, of, given, *places, for_one_call(*map(pointer, grads)))
        return grad_x, *[grad if wanted else None for grad, wanted in zip(grads, needs[1:], strict=True)]

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        first, first_bias, last, last_bias = own
        z = self.factor * x + propagate(graph.ones(x.dtype), x.unsqueeze(1), graph)
        return F.linear(F.relu(F.linear(z, first, first_bias)), last, last_bias)


@dataclass(frozen=True)
class Fixed(Kind):
    """``Σ_k Ã^(k) x W^(k) + bias`` with coefficients that do not depend on x: those of GCN and of ACM's filter bank.

    Tensors: alpha [E, K], weight [K·C, F], bias [C] or None.
    """

    size, kept = 3, 0

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        alpha, weight, bias = own
        heads = _size(alpha, 1)
        channels = _size(weight) // max(heads, 1)
        return channels, [("alpha", alpha, (graph.num_edges, heads)), *_maps(weight, bias, heads, channels)]

    def has_kernels(self, own: Tensors) -> bool:
        return not own[0].requires_grad

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        alpha, weight, bias = own
        h = _native_layers.linear(x, weight).unflatten(1, (alpha.size(1), -1))
        return _biased(_native.sum_heads(alpha, h, graph, "sum"), bias), ()

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        alpha, weight, _ = own
        grad_h = _native.transpose(alpha, g, graph, "sum").flatten(1)
        grad_x, grad_weight = _native_layers.linear_grad(x, weight, grad_h, needs[0], needs[2])
        return grad_x, None, grad_weight, g.sum(0) if needs[3] else None

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        alpha, weight, bias = own
        h = F.linear(x, weight).unflatten(1, (alpha.size(1), -1))
        out = propagate(alpha, h, graph)
        return out if bias is None else out + bias


@dataclass(frozen=True)
class Pairs(Kind):
    """GATv2 with one map for both ends: ``α_k(i,j) = softmax_j att_k · LeakyReLU(W^(k) x_j + W^(k) x_i)``.

    Tensors: att [K, C], weight [K·C, F], bias [C] or None.
    """

    slope: float
    size, kept, classes = 3, 2, True

    def __post_init__(self) -> None:
        if not isinstance(self.slope, int | float):
            raise TypeError(f"slope: expected a number, got {type(self.slope).__name__}")

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        att, weight, bias = own
        heads = _size(att)
        channels = _size(weight) // max(heads, 1)
        return channels, [("att", att, (heads, channels)), *_maps(weight, bias, heads, channels)]

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        att, weight, bias = own
        h = _native_layers.linear(x, weight).view(x.size(0), *att.shape)
        out, alpha = _native.attention(h, att, self.slope, link, bias)
        return out, (h, alpha)

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        (att, weight, _), (h, alpha) = own, kept
        grad_h, grad_att, _ = _native.attention_grad(h, att, self.slope, alpha, g, link)
        grad_x, grad_weight = _native_layers.linear_grad(x, weight, grad_h.flatten(1), needs[0], needs[2])
        return grad_x, grad_att if needs[1] else None, grad_weight, g.sum(0) if needs[3] else None

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        att, weight, bias = own
        h = F.linear(x, weight).unflatten(1, tuple(att.shape))
        out = propagate(edge_softmax(pair_scores(h, h, att, graph, self.slope), graph), h, graph)
        return out if bias is None else out + bias


@dataclass(frozen=True)
class Signed(Kind):
    """FAGCN: ``α(i,j) = scale_i tanh(source · x_j + target · x_i) scale_j``, one graph.

    The paper's layer with K = 1, whose scores are of x and whose coefficients have a scale at both ends. Tensors: scale
    [N, 1], source and target [1, F], weight [C, F], bias [C] or None.
    """

    size, kept, activates = 5, 4, True

    def expected(self, own: Tensors, graph: Graph) -> tuple[int, list[Expected]]:
        scale, source, target, weight, bias = own
        scores: list[Expected] = [("source", source, (1, "F")), ("target", target, (1, "F"))]
        channels = _size(weight)
        return channels, [("scale", scale, (graph.num_nodes, 1)), *scores, *_maps(weight, bias, 1, channels)]

    def has_kernels(self, own: Tensors) -> bool:
        return not own[0].requires_grad and _native_layers.multiplies(own[3])

    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        """It keeps h, the scores, the derivative of GELU and the vectors of both ends as one."""
        scale, source, target, weight, bias = own
        att = torch.cat([target, source])
        of = Weights(weight, att, None, None, bias)
        out, h, st, derivative = _native_layers.layer(x, None, of, 1.0, link, True, scale=scale)
        return out, (h, st, derivative, att)

    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        (scale, _, _, weight, bias), (h, st, derivative, att) = own, kept
        needs_x, _, needs_source, needs_target, needs_weight, needs_bias = needs
        asked = needs_x, needs_weight, True, False, False, needs_bias
        of = Weights(weight, att, None, None, bias)
        found = _native_layers.layer_grad(x, h, of, 1.0, st, derivative, g, link, asked, scale=scale)
        of_target, of_source = found.att.split(1)
        ends = of_source if needs_source else None, of_target if needs_target else None
        return found.x if needs_x else None, None, *ends, found.weight, found.bias

    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        scale, source, target, weight, bias = own
        h = (F.linear(x, weight) * scale).unsqueeze(1)
        out: Tensor = propagate_tanh(F.linear(x, target), F.linear(x, source), h, graph) * scale
        return out if bias is None else out + bias


def _size(value: Any, dim: int = 0) -> int:
    """A size of what should be a matrix; 0 where it is none, which then has another shape than is expected."""
    return value.size(dim) if isinstance(value, Tensor) and value.dim() == 2 else 0


def _maps(weight: Tensor, bias: Tensor | None, heads: int, channels: int) -> list[Expected]:
    return [("weight", weight, (heads * channels, "F")), ("bias", bias, (channels,))]


def _biased(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out.add_(bias)
