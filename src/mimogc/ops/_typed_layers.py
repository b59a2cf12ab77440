"""Layers of LMGC on graphs whose edges have one of a few types, one or several, as one function with its gradients.

A type adds a term to the score of an edge, and a message; nothing of the size of the edges times channels is stored.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers, reference
from mimogc.ops._backends import serving, serving_gradients
from mimogc.ops._checks import autocast, matched
from mimogc.ops._functions import contiguous, recomputed, save, saved
from mimogc.ops._joins import Join, Nodes, activate, join, join_grad
from mimogc.ops._native_layers import Typed, Weights
from mimogc.ops._operators import propagate
from mimogc.ops._typed import check_kinds


class TypedWeights(NamedTuple):
    """The tensors of one layer on T types of edges, and of the batch norm behind it."""

    weight: Tensor  # [K·C, F], the W^(k) stacked
    att: Tensor  # [2K, K·C], the v_k of the targets above those of the sources
    scores: Tensor  # [T, K], what a type adds to the scores
    messages: Tensor  # [T·K, C]: row t·K + k is the message of type t in graph k
    bias: Tensor | None = None  # [C]
    offset: Tensor | None = None  # [K], added to the scores
    norm_weight: Tensor | None = None  # [C]
    norm_bias: Tensor | None = None  # [C]


class Norm(NamedTuple):
    """What is not learnt of a batch norm."""

    mean: Tensor  # [C] of all batches so far, renewed in training
    var: Tensor
    momentum: float
    eps: float
    training: bool  # whether the rows are normalised by their own mean and variance


class _Plan(NamedTuple):
    """What all layers have in common."""

    graph: Graph
    kinds: Tensor  # [E] int64
    slope: float  # of the LeakyReLU
    norms: tuple[Norm | None, ...]  # of every layer
    act: bool  # whether GELU follows
    gain: float | None  # of what is added to the input; None where nothing is


def typed_lmgc(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    graph: Graph,
    kinds: Tensor,
    scores: Tensor,
    messages: Tensor,
    slope: float = 0.2,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """`lmgc` with edge types: ``out_i = Σ_k Σ_j α_k(i,j) (W^(k) x_j + message_k(type))``.

    Args:
        x: ``[N, F]`` features.
        weight: ``[K·C, F]``, the W^(k) stacked.
        att: ``[2K, K·C]``, the v_k of the targets above those of the sources.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.
        scores: ``[T, K]``, what a type adds to the scores.
        messages: ``[T·K, C]``: row ``t·K + k`` is the message of type t in graph k.
        slope: of the LeakyReLU.
        bias: ``[C]``.
        offset: ``[K]``, added to the scores.

    Returns:
        ``[N, C]``.
    """
    own = TypedWeights(weight, att, scores, messages, bias, offset)
    return _computed(x, [own], _Plan(graph, kinds, slope, (None,), False, None))


def typed_lmgcs(
    x: Tensor,
    weights: Sequence[TypedWeights],
    norms: Sequence[Norm | None],
    graph: Graph,
    kinds: Tensor,
    slope: float = 0.2,
    gain: float | None = None,
) -> Tensor:
    """Several layers one after another, each ``x ← GELU(norm(typed_lmgc(x)))``, as one function.

    Args:
        x: ``[N, F]`` features.
        weights: of each layer.
        norms: the batch norm behind each layer, or None.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.
        slope: of the LeakyReLU.
        gain: with a number, residual connections: ``x ← x + gain · GELU(norm(typed_lmgc(x)))``.

    Returns:
        ``[N, C]``.
    """
    if not weights or len(norms) != len(weights):
        raise ValueError(f"norms: expected one for each of {len(weights)} layers, at least one, got {len(norms)}")
    return _computed(x, weights, _Plan(graph, kinds, slope, tuple(norms), True, gain))


def _computed(x: Tensor, weights: Sequence[TypedWeights], plan: _Plan) -> Tensor:
    x, tensors = _checked(x, weights, plan)
    graph, norms = plan.graph, [norm for norm in plan.norms if norm is not None]
    recorded = torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in (x, *tensors))
    if (
        not torch.compiler.is_compiling()
        and not autocast(x.device)
        and graph.num_edges  # types of no edges have no address
        and (graph.num_nodes > 1 or not norms)  # of which torch says that it has no variance
        and not (recorded and any(not norm.training for norm in norms))
        and serving(x, *tensors, *(value for norm in norms for value in norm[:2])) is _native
    ):
        out: Tensor = TypedLayers.apply(plan, x, *tensors)
        return out
    return _by_parts(x, _layers(tensors), plan)


def _checked(x: Tensor, weights: Sequence[TypedWeights], plan: _Plan) -> tuple[Tensor, list[Tensor | None]]:
    """x and the tensors of all layers in one type, held against each other."""
    graph, tensors = plan.graph, list[Tensor | None]()
    check_kinds(plan.kinds, graph, _fewest(weights))
    first = features = x
    for number, (own, norm) in enumerate(zip(weights, plan.norms, strict=True)):
        heads = own.att.size(0) // 2
        mean, var = (None, None) if norm is None else norm[:2]
        if norm is None and (own.norm_weight is not None or own.norm_bias is not None):
            raise ValueError("norm_weight, norm_bias: expected none for a layer without norm, got a tensor")
        sizes = {"K·C": heads * own.messages.size(1)}
        x, *found, _, _ = matched(
            graph,
            ("x", features, (graph.num_nodes, "F")),
            ("weight", own.weight, ("K·C", "F")),
            ("att", own.att, (2 * heads, "K·C")),
            ("scores", own.scores, ("T", heads)),
            ("messages", own.messages, (own.scores.size(0) * heads, "C")),
            ("bias", own.bias, ("C",)),
            ("offset", own.offset, (heads,)),
            ("norm_weight", own.norm_weight, ("C",)),
            ("norm_bias", own.norm_bias, ("C",)),
            ("mean", mean, ("C",)),
            ("var", var, ("C",)),
            **sizes,
        )
        first = first if number else x
        tensors += found
        channels = own.messages.size(1)
        if plan.gain is not None and channels != x.size(1):
            raise ValueError(f"gain: expected layers with as many channels as features, got {channels} and {x.size(1)}")
        features = x.new_empty((1, 1)).expand(graph.num_nodes, channels)  # stands for what the next layer gets
    return first, tensors


def _layers(tensors: Sequence[Tensor | None]) -> list[TypedWeights]:
    size, flat = len(TypedWeights._fields), list[Any](tensors)
    return [TypedWeights(*flat[first : first + size]) for first in range(0, len(flat), size)]


def _fewest(weights: Sequence[TypedWeights]) -> Tensor:
    """The shortest table of types: what is a row of it is one of all."""
    return min((own.scores for own in weights), key=len)


def _by_parts(x: Tensor, weights: Sequence[TypedWeights], plan: _Plan, again: bool = False) -> Tensor:
    """The layers as functions that can be differentiated twice; `again` leaves what batch norms remember as it is."""
    graph = plan.graph
    for own, norm in zip(weights, plan.norms, strict=True):
        heads, types = own.att.size(0) // 2, own.scores.size(0)
        h = F.linear(x, own.weight)
        s, t = (F.leaky_relu(h, plan.slope) @ own.att.t()).split(heads, dim=1)
        s = s if own.offset is None else s + own.offset
        alpha = reference.separable_alpha(s, t, own.scores.index_select(0, plan.kinds), graph)
        out = propagate(alpha, h.unflatten(1, (heads, -1)), graph)
        place = graph.dst * types + plan.kinds
        received = alpha.new_zeros(graph.num_dst * types, heads).index_add(0, place, alpha)
        out = torch.addmm(out, received.view(graph.num_dst, -1), own.messages)
        out = out if own.bias is None else out + own.bias
        if norm is not None:
            mean, var = (None, None) if again and norm.training else norm[:2]
            learnt = own.norm_weight, own.norm_bias
            out = F.batch_norm(out, mean, var, *learnt, norm.training, norm.momentum, norm.eps)
        if plan.act:
            out, _ = activate(out, None if plan.gain is None else x, plan.gain or 0.0)
        x = out
    return x


class TypedLayers(Function):
    """The layers of `typed_lmgcs`; the messages of the types are a product with what each node receives of them."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, x: Tensor, *tensors: Tensor | None) -> Tensor:
        kinds, links = plan.kinds.contiguous(), plan.graph._struct
        kept: list[Tensor | None] = []
        out = x
        for own, norm in zip(_layers(contiguous(*tensors)), plan.norms, strict=True):
            given = out.contiguous()
            typed = Typed(kinds, own.scores.size(0), given.new_empty((plan.graph.num_dst, own.messages.size(0))))
            inside = _native_layers.multiplies(own.weight)
            source, h = (given, None) if inside else (None, F.linear(given, own.weight))
            out, h, st, _ = _native_layers.layer(source, h, _weights(own), plan.slope, links, False, typed)
            out.addmm_(typed.received, own.messages)
            before = mean = scale = derivative = None
            if norm is not None:
                before = out
                values = own.norm_weight, own.norm_bias, norm.mean, norm.var
                out, mean, scale = torch.native_batch_norm(before, *values, norm.training, norm.momentum, norm.eps)
            if plan.act:
                out, _, _, derivative = join(out, Join(0, None if plan.gain is None else given, plan.gain, None), True)
            kept += (given, h, st, typed.received, before, mean, scale, derivative)
        save(ctx, kinds, x, *tensors, *kept)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        plan, (kinds, x, *others) = ctx.plan, saved(ctx)  # types that changed since would reach beyond the table
        count, size = len(TypedWeights._fields), len(TypedWeights._fields) * len(plan.norms)
        tensors, kept = others[:size], others[size:]
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:

            def again(x: Tensor, *tensors: Tensor | None) -> Tensor:
                return _by_parts(x, _layers(tensors), plan._replace(kinds=kinds), again=True)

            return None, *recomputed(again, (x, *tensors), g)
        weights = _layers(contiguous(*tensors))
        check_kinds(kinds, plan.graph, _fewest(weights))  # numpy may have written to them
        links, gradients = plan.graph._struct, list[Tensor | None]()
        grad: Any = g.contiguous()
        for number in reversed(range(len(plan.norms))):
            own = weights[number]
            needs = ctx.needs_input_grad[2 + count * number : 2 + count * (number + 1)]
            given, h, st, received, before, mean, scale, derivative = kept[8 * number : 8 * number + 8]
            past = norm_weight = norm_bias = None
            if plan.act:
                grad, past, _ = join_grad(Nodes(), plan.gain, given, grad, None, None, derivative)
            norm = plan.norms[number]
            if norm is not None:
                values = own.norm_weight, norm.mean, norm.var, mean, scale, norm.training, norm.eps
                grad, norm_weight, norm_bias = torch.ops.aten.native_batch_norm_backward(
                    grad, before, *values, [True, needs[6], needs[7]]
                )
            wanted = any(ctx.needs_input_grad[1 : 2 + count * number])
            grad, *found = _layer_grad(own, plan.slope, given, h, st, received, kinds, grad.contiguous(), links, wanted)
            grad = grad if past is None or grad is None else grad.add_(past)
            gradients[:0] = [*found, norm_weight, norm_bias]
        return None, grad, *gradients


def _weights(own: TypedWeights) -> Weights:
    return Weights(own.weight, own.att, own.offset, own.scores, own.bias)


def _layer_grad(
    own: TypedWeights,
    slope: float,
    x: Tensor,
    h: Tensor,
    st: Tensor,
    received: Tensor,
    kinds: Tensor,
    g: Tensor,
    links: Any,
    needs_x: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients to x, None where it is not asked for, and to the weights of the layer alone."""
    typed = Typed(kinds, own.scores.size(0), torch.mm(g, own.messages.t()))
    inside = x if _native_layers.multiplies(own.weight) else None
    needs = needs_x, True, True, own.offset is not None, True, own.bias is not None
    found = _native_layers.layer_grad(inside, h, _weights(own), slope, st, None, g, links, needs, typed)
    grad_x, grad_weight = found.x, found.weight
    if inside is None and found.h is not None:
        grad_x = torch.mm(found.h, own.weight) if needs_x else None
        grad_weight = torch.mm(x.t(), found.h).t()
    return grad_x, grad_weight, found.att, found.edge, torch.mm(received.t(), g), found.bias, found.offset
