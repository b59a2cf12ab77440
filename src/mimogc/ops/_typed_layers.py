"""Layers on graphs whose edges have one of a few types, one or several, as one function with its gradients.

A type adds a term to the score of an edge, and a message. With kernels nothing of the size of the edges times channels
is stored.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native
from mimogc.ops._backends import serving, serving_gradients
from mimogc.ops._checks import autocast
from mimogc.ops._functions import contiguous, recomputed, save, saved
from mimogc.ops._joins import Join, Nodes, activate, join, join_grad
from mimogc.ops._native_layers import Typed
from mimogc.ops._operators import propagate
from mimogc.ops._typed_checks import Norm, Plan, check_types, checked
from mimogc.ops._typed_forms import Form, TypedSigned, TypedWeights


def typed_layer(form: Form, x: Tensor, own: TypedWeights, graph: Graph, kinds: Tensor) -> Tensor:
    """A layer with edge types: ``out_i = Σ_k Σ_j α_k(i,j) (W^(k) x_j + message_k(type)) + bias``.

    Args:
        form: of the coefficients: `TypedGate` (LMGC), `TypedPairs` (GATv2) or `TypedSigned` (FAGCN).
        x: ``[N, F]`` features.
        own: the tensors of the layer, without batch norm.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.

    Returns:
        ``[N, C]``.
    """
    return _computed(x, [own], Plan(graph, kinds, form, (None,), False, None))


def typed_layers(
    form: Form,
    x: Tensor,
    weights: Sequence[TypedWeights],
    norms: Sequence[Norm | None],
    graph: Graph,
    kinds: Tensor,
    gain: float | None = None,
) -> Tensor:
    """Several layers one after another, each ``x ← GELU(norm(typed_layer(x)))``, as one function.

    Args:
        form: of the coefficients of all layers.
        x: ``[N, F]`` features.
        weights: of each layer.
        norms: the batch norm behind each layer, or None. Those in training get their new `mean` and `var`; how many
            batches there were is counted by the caller.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.
        gain: with a number, residual connections: ``x ← x + gain · GELU(norm(typed_layer(x)))``.

    Returns:
        ``[N, C]``.
    """
    lists: tuple[Any, Any] = weights, norms
    if not all(isinstance(given, Sequence) and not isinstance(given, TypedWeights | Norm) for given in lists):
        found = f"{type(weights).__name__} and {type(norms).__name__}"
        raise TypeError(f"weights, norms: expected a list of each, got {found}")
    if not weights or len(norms) != len(weights):
        raise ValueError(f"norms: expected one for each of {len(weights)} layers, at least one, got {len(norms)}")
    return _computed(x, weights, Plan(graph, kinds, form, tuple(norms), True, gain))


def _computed(x: Tensor, weights: Sequence[TypedWeights], plan: Plan) -> Tensor:
    x, tensors = checked(x, weights, plan)
    norms = [norm for norm in plan.norms if norm is not None]
    stats = [value for norm in norms for value in norm[:2]]
    stats += [] if plan.form.scale is None else [plan.form.scale]
    recorded = torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in (x, *tensors))
    if (
        not torch.compiler.is_compiling()
        and not autocast(x.device)
        and plan.graph.num_edges  # types of no edges have no address
        and (plan.graph.num_nodes > 1 or not norms)  # of which torch says that it has no variance
        and not (recorded and any(not norm.training for norm in norms))
        and not any(value.requires_grad for value in stats)
        and all(plan.form.has_kernels(own) for own in _layers(tensors))
        and serving(x, *tensors, *stats) is _native
    ):
        out: Tensor = TypedLayers.apply(plan, x, *tensors)
        return out
    if not autocast(x.device):
        return _by_parts(x, _layers(tensors), plan)
    with torch.autocast(x.device.type, enabled=False):  # they are float32 by now, and so is what comes of them
        return _by_parts(x, _layers(tensors), plan)


def _layers(tensors: Sequence[Tensor | None]) -> list[TypedWeights]:
    size = len(TypedWeights._fields)
    flat: list[Any] = list(tensors)
    return [TypedWeights(*flat[first : first + size]) for first in range(0, len(flat), size)]


def _by_parts(x: Tensor, weights: Sequence[TypedWeights], plan: Plan, again: bool = False) -> Tensor:
    """The layers as functions that can be differentiated twice; `again` leaves what batch norms remember as it is."""
    graph = plan.graph
    for own, norm in zip(weights, plan.norms, strict=True):
        heads, types = plan.form.heads(own), own.scores.size(0)
        h = F.linear(x, own.weight)
        alpha = plan.form.alpha(x, h, own, plan.kinds, graph)
        out = propagate(alpha, h.unflatten(1, (heads, -1)), graph)
        place = graph.dst * types + plan.kinds
        received = alpha.new_zeros(graph.num_dst * types, heads).index_add(0, place, alpha)
        out = torch.addmm(out, received.view(graph.num_dst, types * heads), own.messages)
        out = out if own.bias is None else out + own.bias
        if norm is not None:
            mean, var = (None, None) if again and norm.training else norm[:2]
            learnt = own.norm_weight, own.norm_bias
            out = F.batch_norm(out, mean, var, *learnt, norm.training, norm.momentum, norm.eps)
        if plan.act:
            out, _ = activate(out, None if plan.gain is None else x, plan.gain or 0.0)
        x = out
    return x


class _Kept(NamedTuple):
    """What the gradients of one layer need of its forward pass."""

    given: Tensor
    h: Tensor
    scores: Tensor  # or coefficients
    received: Tensor
    before: Tensor | None  # what the batch norm got
    mean: Tensor | None  # that it has taken away
    deviation: Tensor | None  # 1 / standard deviation, by which it has multiplied
    derivative: Tensor | None  # of GELU


class TypedLayers(Function):
    """The layers of `typed_layers`; the messages of the types are a product with what each node receives of them."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, *tensors: Tensor | None) -> Tensor:
        kinds, links = plan.kinds.contiguous(), plan.graph._struct
        kept: list[_Kept] = []
        out = x
        for own, norm in zip(_layers(contiguous(*tensors)), plan.norms, strict=True):
            given = out.contiguous()
            typed = Typed(kinds, own.scores.size(0), given.new_empty((plan.graph.num_dst, own.messages.size(0))))
            out, h, scores = plan.form.forward(given, own, links, typed)
            out.addmm_(typed.received, own.messages)
            before = mean = deviation = derivative = None
            if norm is not None:
                before = out
                values = own.norm_weight, own.norm_bias, norm.mean, norm.var
                out, mean, deviation = torch.native_batch_norm(before, *values, norm.training, norm.momentum, norm.eps)
            if plan.act:
                out, _, _, derivative = join(out, Join(0, None if plan.gain is None else given, plan.gain, None), True)
            kept.append(_Kept(given, h, scores, typed.received, before, mean, deviation, derivative))
        save(ctx, kinds, plan.form.scale, x, *tensors, *(value for one in kept for value in one))
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        plan, (kinds, scale, x, *others) = ctx.plan, saved(ctx)  # types that changed since would reach beyond the table
        plan = plan if scale is None else plan._replace(form=TypedSigned(scale))
        count, size = len(TypedWeights._fields), len(TypedWeights._fields) * len(plan.norms)
        tensors, kept = others[:size], others[size:]
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:

            def again(x: Tensor, *tensors: Tensor | None) -> Tensor:
                return _by_parts(x, _layers(tensors), plan._replace(kinds=kinds), again=True)

            return None, *recomputed(again, (x, *tensors), g)
        weights = _layers(contiguous(*tensors))
        check_types(kinds, plan.graph, weights)  # numpy may have written to them
        links, each, gradients = plan.graph._struct, len(_Kept._fields), [None] * len(tensors)
        grad: Any = g.contiguous()
        for number in reversed(range(len(plan.norms))):
            own, norm, first = weights[number], plan.norms[number], count * number
            have = _Kept(*kept[each * number : each * (number + 1)])
            needs = TypedWeights(*ctx.needs_input_grad[2 + first : 2 + first + count])
            past = norm_weight = norm_bias = None
            if plan.act:
                grad, past, _ = join_grad(Nodes(), plan.gain, have.given, grad, None, None, have.derivative)
            if norm is not None:
                values = own.norm_weight, norm.mean, norm.var, have.mean, have.deviation, norm.training, norm.eps
                which = [True, needs.norm_weight, needs.norm_bias]
                back = torch.ops.aten.native_batch_norm_backward(grad, have.before, *values, which)
                grad, norm_weight, norm_bias = back
            further = any(ctx.needs_input_grad[1 : 2 + first])
            typed = Typed(kinds, own.scores.size(0), torch.mm(grad, own.messages.t()))
            sent = torch.mm(have.received.t(), grad) if needs.messages else None
            made = grad, have.h, have.scores
            grad, found = plan.form.grad(have.given, own, made, grad.contiguous(), links, typed, (further, *needs))
            learnt: Any = found._replace(messages=sent, norm_weight=norm_weight, norm_bias=norm_bias)
            gradients[first : first + count] = learnt
            if not further:  # nothing below is learnt
                return None, None, *gradients
            grad = grad if past is None else grad.add_(past)
        return None, grad, *gradients
