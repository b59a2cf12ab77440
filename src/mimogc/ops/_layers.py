"""Whole layers of LMGC, and several of them one after another, as one function with its gradients."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers, _thresholds
from mimogc.ops._backends import serving, serving_gradients
from mimogc.ops._checks import autocast
from mimogc.ops._functions import PropagateTanh, contiguous, recomputed, save, saved
from mimogc.ops._joins import Join, join, join_grad, joined
from mimogc.ops._layer_checks import check, check_between, fit
from mimogc.ops._links import Links, links_of_layers
from mimogc.ops._native_layers import Weights
from mimogc.ops._operators import propagate_tanh


class Settings(NamedTuple):
    """What is not learnt of one layer."""

    slope: float  # of the LeakyReLU
    gelu: bool  # whether the output is activated


class Between(NamedTuple):
    """What comes between layers."""

    gain: float | None  # of what is added to the input; None where nothing is
    maximum: bool  # whether the largest outputs are kept

    def __bool__(self) -> bool:
        return self.gain is not None or self.maximum


def lmgc(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    graph: Graph,
    slope: float = 0.2,
    edge: Tensor | None = None,
    bias: Tensor | None = None,
    act: str | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """LMGC as one function of x: transform, scores, the sum over K graphs, bias, activation.

    ``α_k(i,j) = tanh(offset_k + s_k(i) + t_k(j) + edge_k(i,j))``; without offset it is the paper's eq. 12.

    Args:
        x: ``[N, F]`` features.
        weight: ``[K·C, F]``, the W^(k) stacked.
        att: ``[2K, K·C]``, the v_k of the targets above those of the sources.
        graph: the graph.
        slope: of the LeakyReLU.
        edge: ``[E, K]`` score terms of the edges, in the graph's edge order.
        bias: ``[C]``.
        act: ``"gelu"`` or None.
        offset: ``[K]``, added to the scores.

    Returns:
        ``[N, C]``.
    """
    if act not in (None, "gelu"):
        raise ValueError(f"act: expected 'gelu' or None, got {act!r}")
    own = Weights(weight, att, offset, edge, bias)
    return lmgcs(x, [own], [Settings(slope, act == "gelu")], graph, None)


def lmgcs(
    x: Tensor,
    weights: Sequence[Weights],
    settings: Sequence[Settings],
    graph: Graph,
    rows: Tensor | None,
    gain: float | None = None,
    maximum: bool = False,
) -> Tensor:
    """Several layers one after another, each on what the one before gave.

    Args:
        x: ``[N, F]`` features; with `rows`, as many rows as there are.
        weights: of each layer.
        settings: of each layer.
        graph: the graph, of one kind of nodes.
        rows: ``[N]`` int64: node i begins as row ``rows[i]`` of x.
        gain: with a number, every layer adds its input to so many times its output.
        maximum: give the largest of what all layers gave, channel by channel, and not what the last one did.
    """
    if rows is not None and (rows.dtype != torch.int64 or rows.shape != (graph.num_nodes,) or rows.device != x.device):
        wanted = f"int64 [{graph.num_nodes}] on {x.device}"
        raise ValueError(f"rows: expected {wanted}, got {rows.dtype} {list(rows.shape)} on {rows.device}")
    between = Between(gain, maximum and len(weights) > 1)
    if len(settings) != len(weights):
        raise ValueError(f"settings: expected one for each of {len(weights)} layers, got {len(settings)}")
    check_between(weights, between.gain, between.maximum)
    kernels = not torch.compiler.is_compiling() and serving(x) is _native and not autocast(x.device)
    if not (kernels and fit(x, weights, graph, rows)):
        check(x, weights, graph, rows)
        return _by_parts(x, weights, settings, between, graph, rows)
    tensors = [tensor for own in weights for tensor in own]
    if not (torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in (x, *tensors))):
        return _in_turn(x, weights, settings, between, graph, _links(graph, weights, rows, x))
    fused: Tensor = Layers.apply(graph, tuple(settings), between, rows, x, *tensors)
    return fused


def _by_parts(
    x: Tensor,
    weights: Iterable[Weights],
    settings: Iterable[Settings],
    between: Between,
    graph: Graph,
    rows: Tensor | None,
) -> Tensor:
    """The layers as functions that can be differentiated twice."""
    out = x if rows is None else x.index_select(0, rows)
    best: Tensor | None = None
    for (weight, att, offset, edge, bias), (slope, gelu) in zip(weights, settings, strict=True):
        heads = att.size(0) // 2
        given, h = out, F.linear(out, weight)
        s, t = (F.leaky_relu(h, slope) @ att.t()).split(heads, dim=1)
        s = (s if offset is None else s + offset)[: graph.num_dst]
        out = _tanh_sum(s, t, h.unflatten(1, (heads, -1)), edge, graph, out, weight)
        out = out if bias is None else out + bias
        out = F.gelu(out) if gelu else out
        out, best = joined(out, given if between.gain is not None else None, between.gain or 0.0, best)
        best = out if between.maximum and best is None else best
    return out if best is None else best


def _tanh_sum(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph, x: Tensor, weight: Tensor) -> Tensor:
    """`propagate_tanh` of h = x weightᵀ; on a GPU from rows of x, where that reads fewer bytes."""
    known = torch.compiler.is_compiling() or autocast(x.device)
    backend: Any = None if known else serving(x, weight, s, t, h, edge)
    if getattr(backend, "NAME", None) != "triton" or s.size(1) == 1 or not _narrow(graph, x, weight, s.size(1)):
        return propagate_tanh(s, t, h, graph, edge)

    def compute(s: Tensor, t: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
        gathered: Tensor = backend.tanh_spread(s, t, edge, x.detach().contiguous(), graph)
        return torch.mm(gathered.flatten(1), _stacked(weight.detach(), s.size(1)))

    out: Tensor = PropagateTanh.apply(s, t, h, edge, graph, backend, compute)
    return out


def _stacked(weight: Tensor, heads: int) -> Tensor:
    """[K·F, C]: the W^(k), one below the other."""
    width = weight.size(1)
    return weight.view(heads, -1, width).transpose(1, 2).reshape(heads * width, -1)


class Layers(Function):
    """x ← act(Σ_k Ã^(k) x W^(k) + bias) for each layer in turn, on one graph.

    Takes x [N, F], or with rows [N] the few rows of which node i has row rows[i], and then the `Weights` of all layers,
    one behind the other. What Python and autograd cost is paid once, not once per layer.
    """

    @staticmethod
    def forward(
        ctx: Any,
        graph: Graph,
        settings: tuple[Settings, ...],
        between: Between,
        rows: Tensor | None,
        x: Tensor,
        *tensors: Tensor | None,
    ) -> Tensor:
        weights = _weights(tensors)
        links = _links(graph, weights, rows, x)
        kept: list[Tensor | None] = []
        out = _in_turn(x, weights, settings, between, graph, links, kept)
        save(ctx, rows, x, *tensors, *kept)
        ctx.graph, ctx.settings, ctx.between, ctx.links = graph, settings, between, links
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        count = len(Weights._fields)
        size = count * len(ctx.settings)
        rows, x, *others = saved(ctx)
        tensors, kept = others[:size], others[size:]
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:

            def again(x: Tensor, *tensors: Tensor | None) -> Tensor:
                return _by_parts(x, _weights(tensors), ctx.settings, ctx.between, ctx.graph, rows)

            return None, None, None, None, *recomputed(again, (x, *tensors), g)
        links = ctx.links.of(ctx.graph)
        needs, weights, between = ctx.needs_input_grad[4:], _weights(tensors), ctx.between
        gradients: list[Tensor | None] = []
        # What the output of a layer gets, and what the largest output up to it does.
        grad: Any = None if between.maximum else g
        top = g if between.maximum else None
        for number in reversed(range(len(weights))):
            if grad is None and top is None:  # nothing further down is learnt
                gradients[:0] = [None] * count
                continue
            before = 1 + count * number
            wanted = (any(needs[:before]), *needs[before : before + count])
            given, h, st, derivative, chosen = kept[5 * number : 5 * number + 5]
            slope, past = ctx.settings[number].slope, None
            if between:
                back = join_grad(links[number], between.gain, given, grad, top, chosen)
                grad, past, top = back.branch, back.given, back.best
            grad, *found = _layer_grad(
                weights[number], slope, given, h, st, derivative, grad.contiguous(), links[number], wanted
            )
            grad = grad if past is None or grad is None else grad.add_(past)
            gradients[:0] = found
        return None, None, None, None, grad, *gradients


def _weights(tensors: Iterable[Tensor | None]) -> list[Weights]:
    flat: list[Any] = list(tensors)
    size = len(Weights._fields)
    return [Weights(*flat[first : first + size]) for first in range(0, len(flat), size)]


def _links(graph: Graph, weights: Sequence[Weights], rows: Tensor | None, x: Tensor) -> Links:
    return links_of_layers(graph, len(weights), rows, x.size(0), alike=all(own.edge is None for own in weights))


def _in_turn(
    x: Tensor,
    weights: Iterable[Weights],
    settings: Iterable[Settings],
    between: Between,
    graph: Graph,
    links: Links,
    kept: list[Tensor | None] | None = None,
) -> Tensor:
    """What the last layer gives, or the largest of all.

    `kept` gets five tensors of each for the gradients: input, h (none in the narrow order), scores, derivative, chosen.
    """
    out, best = x, None
    for own, (slope, gelu), link in zip(weights, settings, links.of(graph), strict=True):
        given, own = out.contiguous(), Weights(*contiguous(*own))
        h: Tensor | None = None
        if not link.parent and _narrow(graph, given, own.weight, own.att.size(0) // 2):
            out, st, derivative = _native_layers.narrow_layer(given, own, slope, link, gelu)
        elif _native_layers.multiplies(own.weight):
            out, h, st, derivative = _native_layers.layer(given, None, own, slope, link, gelu)
        else:
            out, h, st, derivative = _native_layers.layer(None, F.linear(given, own.weight), own, slope, link, gelu)
        chosen = None
        if between:
            found = join(out, Join(link.parent, given if between.gain is not None else None, between.gain, best))
            out, chosen = found.out, found.chosen
            best = (out if best is None else found.top) if between.maximum else None
        if kept is not None:
            kept += (given, h, st, derivative, chosen)
    return out if best is None else best


def _layer_grad(
    own: Weights,
    slope: float,
    x: Tensor,
    h: Tensor | None,
    st: Tensor,
    derivative: Tensor | None,
    g: Tensor,
    links: Any,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients to x and to the weights, None where `needs` says so."""
    x, own = x.contiguous(), Weights(*contiguous(*own))
    if h is None:
        found = _native_layers.narrow_layer_grad(x, own, slope, st, derivative, g, links, needs)
        return found.x, found.weight, found.att, found.offset, found.edge, found.bias
    given = x if _native_layers.multiplies(own.weight) else None
    grad = _native_layers.layer_grad(given, h, own, slope, st, derivative, g, links, needs)
    grad_x, grad_weight = grad.x, grad.weight
    if given is None and grad.h is not None:
        grad_x = torch.mm(grad.h, own.weight) if needs[0] else None
        # On small graphs this is quicker than grad_hᵀ x.
        grad_weight = torch.mm(x.t(), grad.h).t() if needs[1] else None
    return grad_x, grad_weight, grad.att, grad.offset, grad.edge, grad.bias


def _narrow(graph: Graph, x: Tensor, weight: Tensor, heads: int) -> bool:
    """Whether to gather rows of x and to multiply by W afterwards."""
    width, features = weight.shape
    large = x.size(0) * width * x.element_size() > _thresholds.CACHE_BYTES
    dense = graph.num_edges > _thresholds.NARROW_EDGES * graph.num_dst
    return large and dense and features < width and min(features, width // heads) >= _thresholds.SMALLEST_SIDE
