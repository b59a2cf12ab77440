"""Gradients for every backend's kernels: three primitives closed under differentiation, and the fused sums.

Σ_k Ã^(k) h_k (`Propagate`), its transpose (`Transpose`) and the sampled product ⟨g_i, h_k(j)⟩ (`Sample`) are each
bilinear, and the derivative of each is made of the others: so double backward works. The fused functions recompute
through these primitives when a second derivative is asked for. A gradient that no kernel can read (many as one tensor,
or one of torch.func) is taken by plain torch.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from mimogc.graph import Graph
from mimogc.ops import _native, _plain, reference
from mimogc.ops._backends import Backend, serving_gradients


def _form(tensor: Tensor | None) -> Any:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.device)


def save(ctx: Any, *tensors: Tensor | None) -> None:
    """Save what `saved` gives back, with the form that the kernels rely on."""
    ctx.save_for_backward(*tensors)
    ctx.forms = [(_form(tensor), tensor is not None and tensor.is_contiguous()) for tensor in tensors]


def saved(ctx: Any) -> Any:
    """The saved tensors. Autograd does not notice where `.data` of one, as by ``model.half()``, became another.

    Hooks on saved tensors may give them back in another order, or negated: those that were contiguous are so again.
    """
    tensors = []
    for tensor, (form, dense) in zip(ctx.saved_tensors, ctx.forms, strict=False):
        if _form(tensor) != form:
            was, now = (f"{found[0]} {list(found[1])}" for found in (form, _form(tensor)))
            raise RuntimeError(f"a tensor was replaced between forward and backward: expected {was}, got {now}")
        if tensor is not None:
            tensor = tensor.resolve_neg().contiguous() if dense else tensor.resolve_neg()
        tensors.append(tensor)
    return tuple(tensors)


def _bilinear(ctx: Any, kernel: Callable[..., Tensor], one: Tensor, other: Tensor, graph: Graph, reduce: str) -> Tensor:
    save(ctx, one, other)
    ctx.graph, ctx.reduce = graph, reduce
    return kernel(one, other, graph, reduce)


class Propagate(Function):
    """out_i = Σ_j α_k(i,j) h_k(j), summed over k with "sum"."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, h: Tensor, graph: Graph, reduce: str, backend: Backend) -> Tensor:
        return _bilinear(ctx, backend.sum_heads, alpha, h, graph, reduce)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        alpha, h = saved(ctx)
        graph, reduce = ctx.graph, ctx.reduce
        needs_alpha, needs_h = ctx.needs_input_grad[:2]
        if needs_alpha and needs_h and not torch.is_grad_enabled():
            backend = serving_gradients(g)
            if backend is not None:
                return *backend.sum_grad(alpha, h, g, graph, reduce), None, None, None
        grad_alpha = _sample(g, h, graph, reduce) if needs_alpha else None
        grad_h = _transpose(alpha, g, graph, reduce) if needs_h else None
        return grad_alpha, grad_h, None, None, None


class Transpose(Function):
    """out_k(j) = Σ_i α_k(i,j) g_i: the transposed graphs."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, g: Tensor, graph: Graph, reduce: str, backend: Backend) -> Tensor:
        return _bilinear(ctx, backend.transpose, alpha, g, graph, reduce)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Any:
        alpha, g = saved(ctx)
        needs_alpha, needs_g = ctx.needs_input_grad[:2]
        grad_alpha = _sample(g, v, ctx.graph, ctx.reduce) if needs_alpha else None
        grad_g = _propagate(alpha, v, ctx.graph, ctx.reduce) if needs_g else None
        return grad_alpha, grad_g, None, None, None


class Sample(Function):
    """out_k(i,j) = ⟨g_i, h_k(j)⟩ on the edges."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, h: Tensor, graph: Graph, reduce: str, backend: Backend) -> Tensor:
        return _bilinear(ctx, backend.sample, g, h, graph, reduce)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> Any:
        g, h = saved(ctx)
        needs_g, needs_h = ctx.needs_input_grad[:2]
        grad_g = _propagate(u, h, ctx.graph, ctx.reduce) if needs_g else None
        grad_h = _transpose(u, g, ctx.graph, ctx.reduce) if needs_h else None
        return grad_g, grad_h, None, None, None


def _propagate(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    return _chosen(Propagate, reference.propagate, alpha, h, graph, reduce)


def _transpose(alpha: Tensor, g: Tensor, graph: Graph, reduce: str) -> Tensor:
    return _chosen(Transpose, reference.transpose, alpha, g, graph, reduce)


def _sample(g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    return _chosen(Sample, reference.sample, g, h, graph, reduce)


def _chosen(kernel: Any, plain: Callable[..., Tensor], one: Tensor, other: Tensor, graph: Graph, reduce: str) -> Tensor:
    backend = serving_gradients(one, other)
    if backend is None:
        return plain(one, other, graph, reduce)
    out: Tensor = kernel.apply(one, other, graph, reduce, backend)
    return out


class PropagateTanh(Function):
    """out_i = Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k(i,j)) h_k(j), α recomputed in the kernels.

    `compute` is another way to the same values, where there is one; the gradients are those to s, t, h and edge.
    """

    @staticmethod
    def forward(
        ctx: Any,
        s: Tensor,
        t: Tensor,
        h: Tensor,
        edge: Tensor | None,
        graph: Graph,
        backend: Backend,
        compute: Callable[..., Tensor] | None = None,
    ) -> Tensor:
        save(ctx, s, t, h, edge)
        ctx.graph = graph
        s, t, h, edge = contiguous(s, t, h, edge)
        return compute(s, t, edge, graph) if compute is not None else backend.tanh_sum(s, t, edge, h, graph)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        s, t, h, edge = saved(ctx)
        backend = None if torch.is_grad_enabled() else serving_gradients(g)
        if backend is None:
            return *recomputed(_by_primitives, (s, t, h, edge), g, ctx.graph), None, None, None
        s, t, h, edge, g = contiguous(s, t, h, edge, g)
        grad_s, grad_t, grad_h, grad_edge = backend.tanh_sum_grad(s, t, edge, h, g, ctx.graph)
        return grad_s, grad_t, grad_h, grad_edge if ctx.needs_input_grad[3] else None, None, None, None


def _by_primitives(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    score = at_ends(s, graph, False) + at_ends(t, graph, True)
    return _propagate(torch.tanh(score if edge is None else score + edge), h, graph, "sum")


class AtEnds(Function):
    """x [N, K] at the sources or the targets of the edges, [E, K]; the gradient is a sum in their order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: Graph, sources: bool) -> Tensor:
        ctx.graph, ctx.sources = graph, sources
        return x.index_select(0, graph.src if sources else graph.dst)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> Any:
        return sum_at_ends(u, ctx.graph, ctx.sources), None, None


def at_ends(x: Tensor, graph: Graph, sources: bool) -> Tensor:
    """`AtEnds`, or the same in plain torch where no backend serves."""
    if serving_gradients(x) is None:
        return x[graph.src if sources else graph.dst]
    out: Tensor = AtEnds.apply(x, graph, sources)
    return out


def sum_at_ends(values: Tensor, graph: Graph, sources: bool) -> Tensor:
    """[N, K] from values [E, K]: their sums over the edges out of each source, or into each target."""
    like: Any = {"dtype": values.dtype, "device": graph.device}
    if sources:
        return _transpose(values, torch.ones(graph.num_dst, 1, **like), graph, "sum").squeeze(-1)
    ones = torch.ones(graph.num_src, values.size(1), 1, **like)
    return _propagate(values, ones, graph, "none").squeeze(-1)


class PairScores(Function):
    """score_k(i,j) = att_k · LeakyReLU(source_k(j) + target_k(i) + weight_k edge(i,j)), without E·K·C sums in memory.

    `edge` and `weight` are both None, or neither is.
    """

    @staticmethod
    def forward(
        ctx: Any,
        source: Tensor,
        target: Tensor,
        att: Tensor,
        edge: Tensor | None,
        weight: Tensor | None,
        graph: Graph,
        slope: float,
        backend: Backend,
    ) -> Tensor:
        save(ctx, source, target, att, edge, weight)
        ctx.graph, ctx.slope, ctx.same = graph, slope, source is target
        source, target, att, edge, weight = contiguous(source, target, att, edge, weight)
        return backend.pair_scores(source, target, att, slope, graph, pair(edge, weight))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        inputs, slope, graph = saved(ctx), ctx.slope, ctx.graph
        backend = None if torch.is_grad_enabled() else serving_gradients(g)
        if backend is None:

            def again(source: Tensor, target: Tensor, att: Tensor, *edge: Tensor | None) -> Tensor:
                return reference.pair_scores(source, target, att, slope, graph, *edge)

            return *recomputed(again, inputs, g), None, None, None
        source, target, att, edge, weight, g = contiguous(*inputs, g)
        if ctx.same and edge is None and backend is _native:  # then one gradient stands for both
            both = _native.pair_ends_grad(source, source, att, slope, g, graph, same=True)
            return *both, None, None, None, None, None
        found = backend.pair_scores_grad(source, target, att, slope, g, graph, pair(edge, weight))
        needs = ctx.needs_input_grad[3:5]
        more: tuple[Tensor | None, Tensor | None] = (None, None)
        if any(needs):
            more = _plain.pair_scores_edge_grad(source, target, att, slope, g, graph, (edge, weight), needs)
        return *found, *more, None, None, None


def pair(edge: Tensor | None, weight: Tensor | None) -> tuple[Tensor, Tensor] | None:
    return None if edge is None or weight is None else (edge, weight)


class Softmax(Function):
    """α_k(i,j) = exp(score_k(i,j)) / Σ_l exp(score_k(i,l)), over the edges into i."""

    @staticmethod
    def forward(ctx: Any, score: Tensor, graph: Graph, backend: Backend) -> Tensor:
        alpha = backend.softmax(score.contiguous(), graph)
        save(ctx, score, alpha)
        ctx.graph = graph
        return alpha

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        score, alpha = saved(ctx)
        backend = None if torch.is_grad_enabled() else serving_gradients(g)
        if backend is None:
            return *recomputed(reference.softmax, (score,), g, ctx.graph), None, None
        return backend.softmax_grad(alpha, g.contiguous(), ctx.graph), None, None


def contiguous(*tensors: Any) -> tuple[Any, ...]:
    """What the kernels read. Not what is saved: a second derivative has to find the inputs themselves."""
    return tuple([None if tensor is None else tensor.contiguous() for tensor in tensors])


def recomputed(
    function: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], g: Tensor, *rest: Any
) -> list[Tensor | None]:
    """Gradients of function(*inputs, *rest) by autograd, to be differentiated again where that is recorded.

    To views of the inputs, each to its own: an input may be another one, too, or be computed from it.
    """
    recorded = torch.is_grad_enabled()
    with torch.enable_grad():
        own = [value if value is None or not value.requires_grad else value.view_as(value) for value in inputs]
        wanted = [value for value in own if value is not None and value.requires_grad]
        found = iter(torch.autograd.grad(function(*own, *rest), wanted, g, create_graph=recorded))
    return [next(found) if value is not None and value.requires_grad else None for value in own]
