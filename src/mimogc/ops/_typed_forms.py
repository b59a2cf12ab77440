"""What layers on typed edges differ in: their coefficients, in plain torch and by the kernels."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers, reference
from mimogc.ops._checks import Expected
from mimogc.ops._native_layers import Typed, Weights
from mimogc.ops._operators import edge_softmax


class TypedWeights(NamedTuple):
    """The tensors of one layer of K graphs on T types of edges, and of the batch norm behind it.

    Args:
        weight: ``[K·C, F]``, the W^(k) one below the other.
        att: of the scores. `TypedGate`: ``[2K, K·C]``, row k for the target of an edge in graph k, row K + k for its
            source, each with a vector for the channels of all graphs; `TypedSigned`: ``[2K, F]``, likewise for x;
            `TypedPairs`: ``[K, C]``.
        scores: ``[T, K]``, what a type adds to the scores; `TypedPairs`: ``[T, K·C]``.
        messages: ``[T·K, C]``, row t·K + k is the message of type t in graph k.
        bias: ``[C]``, or None.
        offset: ``[K]``, added to the scores, or None.
        norm_weight: ``[C]``, by which the batch norm multiplies, or None for 1.
        norm_bias: ``[C]``, which it adds, or None for 0.
    """

    weight: Tensor
    att: Tensor
    scores: Tensor
    messages: Tensor
    bias: Tensor | None = None
    offset: Tensor | None = None
    norm_weight: Tensor | None = None
    norm_bias: Tensor | None = None


Made = tuple[Tensor, Tensor, Tensor]  # out [N, C], and h and the coefficients or scores for the gradients


class Form(ABC):
    """A form of coefficients; the messages of the types are added by `typed_layers`."""

    slope: float  # of the LeakyReLU in the score
    scale: Tensor | None = None  # [N], by which coefficients are multiplied at both ends; the scores are of x then

    @abstractmethod
    def heads(self, own: TypedWeights) -> int:
        """K."""

    @abstractmethod
    def expected(self, own: TypedWeights, graph: Graph) -> list[Expected]:
        """Names and shapes of `att`, `scores` and what the form has itself."""

    def has_kernels(self, own: TypedWeights) -> bool:
        """Whether the tensors are for the kernels."""
        return True

    @abstractmethod
    def alpha(self, x: Tensor, h: Tensor, own: TypedWeights, kinds: Tensor, graph: Graph) -> Tensor:
        """[E, K] from x and h [N, K·C], as functions that can be differentiated twice."""

    @abstractmethod
    def forward(self, x: Tensor, own: TypedWeights, links: Any, typed: Typed) -> Made:
        """Σ_k Ã^(k) h_k and the bias; what nodes receive of each type is written to ``typed.received``."""

    @abstractmethod
    def grad(
        self, x: Tensor, own: TypedWeights, made: Made, g: Tensor, links: Any, typed: Typed, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, TypedWeights]:
        """The gradients to x and to the weights but those of the messages and the batch norm.

        `made` is what `forward` gave, but for the output; ``typed.received`` is the gradient to it.
        """


class _Separable(Form):
    """A score that is a sum of a term of each end and one of the type, under the tanh: the kernel of `ops.lmgc`."""

    def heads(self, own: TypedWeights) -> int:
        return own.att.size(0) // 2

    def expected(self, own: TypedWeights, graph: Graph) -> list[Expected]:
        heads = self.heads(own)
        return [
            ("att", own.att, (2 * heads, "K·C" if self.scale is None else "F")),
            ("scores", own.scores, ("T", heads)),
        ]

    def alpha(self, x: Tensor, h: Tensor, own: TypedWeights, kinds: Tensor, graph: Graph) -> Tensor:
        scored = x if self.scale is not None else F.leaky_relu(h, self.slope)
        s, t = (scored @ own.att.t()).split(own.scores.size(1), dim=1)
        s = s if own.offset is None else s + own.offset
        alpha = reference.separable_alpha(s, t, own.scores.index_select(0, kinds), graph)
        if self.scale is None:
            return alpha
        scale = self.scale.to(alpha.dtype)
        return alpha * (scale[graph.dst] * scale[graph.src]).unsqueeze(1)

    def forward(self, x: Tensor, own: TypedWeights, links: Any, typed: Typed) -> Made:
        inside = _native_layers.multiplies(own.weight)
        source, h = (x, None) if inside else (None, F.linear(x, own.weight))
        of = Weights(own.weight, own.att, own.offset, own.scores, own.bias)
        return _native_layers.layer(source, h, of, self.slope, links, False, typed, self.scale)[:3]

    def grad(
        self, x: Tensor, own: TypedWeights, made: Made, g: Tensor, links: Any, typed: Typed, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, TypedWeights]:
        _, h, st = made
        inside = x if _native_layers.multiplies(own.weight) else None
        needs_x, weight, _, scores, _, bias, offset, *_ = needs
        asked = needs_x, weight, True, offset, scores, bias
        of = Weights(own.weight, own.att, own.offset, own.scores, own.bias)
        found = _native_layers.layer_grad(inside, h, of, self.slope, st, None, g, links, asked, typed, self.scale)
        grad_x, grad_weight = found.x, found.weight
        if inside is None and found.h is not None:
            grad_x = torch.mm(found.h, own.weight) if needs_x else None
            grad_weight = torch.mm(x.t(), found.h).t() if weight else None
        grads: Any = grad_weight, found.att, found.edge, None, found.bias, found.offset
        return grad_x, TypedWeights(*grads)


@dataclass(frozen=True, eq=False)
class TypedGate(_Separable):
    """LMGC's: ``tanh(b_k + s_k(i) + t_k(j) + score_k(type))``, scores of LeakyReLU(h) with att [2K, K·C]."""

    slope: float = 0.2

    def __post_init__(self) -> None:
        _check_slope(self.slope)


@dataclass(frozen=True, eq=False)
class TypedSigned(_Separable):
    """FAGCN's: ``scale_i tanh(b + s(i) + t(j) + score(type)) scale_j``, scores of x with att [2K, F].

    `scale` is ``[N]``, without gradients; FAGCN has ``graph.degree_scale(x.dtype)``, 1/√d.
    """

    scale: Tensor = field()

    slope = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Tensor):
            raise TypeError(f"scale: expected a tensor, got {type(self.scale).__name__}")

    def expected(self, own: TypedWeights, graph: Graph) -> list[Expected]:
        return [*super().expected(own, graph), ("scale", self.scale, (graph.num_nodes,))]

    def has_kernels(self, own: TypedWeights) -> bool:
        return _native_layers.multiplies(own.weight) and self.scale.is_contiguous()


@dataclass(frozen=True, eq=False)
class TypedPairs(Form):
    """GATv2's: the softmax of ``att_k · LeakyReLU(h_k(i) + h_k(j) + score_k(type))``, att [K, C], scores [T, K·C]."""

    slope: float = 0.2

    def __post_init__(self) -> None:
        _check_slope(self.slope)

    def heads(self, own: TypedWeights) -> int:
        return own.att.size(0)

    def expected(self, own: TypedWeights, graph: Graph) -> list[Expected]:
        return [("att", own.att, (own.att.size(0), "C")), ("scores", own.scores, ("T", "K·C"))]

    def has_kernels(self, own: TypedWeights) -> bool:
        return own.offset is None

    def alpha(self, x: Tensor, h: Tensor, own: TypedWeights, kinds: Tensor, graph: Graph) -> Tensor:
        both = h[graph.src] + h[graph.dst] + own.scores.index_select(0, kinds)
        score = (F.leaky_relu(both, self.slope).unflatten(1, tuple(own.att.shape)) * own.att).sum(-1)
        return edge_softmax(score if own.offset is None else score + own.offset, graph)

    def forward(self, x: Tensor, own: TypedWeights, links: Any, typed: Typed) -> Made:
        h = _native_layers.linear(x, own.weight)
        of_types = own.scores, typed.kinds, typed.received
        source = h.view(h.size(0), *own.att.shape)
        out, alpha = _native.attention(source, own.att, self.slope, links, own.bias, *of_types)
        return out, source, alpha

    def grad(
        self, x: Tensor, own: TypedWeights, made: Made, g: Tensor, links: Any, typed: Typed, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, TypedWeights]:
        _, h, alpha = made
        of_types = own.scores, typed.kinds, typed.received
        grad_h, grad_att, table = _native.attention_grad(h, own.att, self.slope, alpha, g, links, *of_types)
        needs_x, weight, _, _, _, bias, *_ = needs
        grad_x, grad_weight = _native_layers.linear_grad(x, own.weight, grad_h.flatten(1), needs_x, weight)
        grads: Any = grad_weight, grad_att, table, None, g.sum(0) if bias else None, None
        return grad_x, TypedWeights(*grads)


def _check_slope(slope: object) -> None:
    if isinstance(slope, bool) or not isinstance(slope, int | float):
        raise TypeError(f"slope: expected a number, got {type(slope).__name__}")
    if not math.isfinite(slope):
        raise ValueError(f"slope: expected a finite number, got {slope}")
