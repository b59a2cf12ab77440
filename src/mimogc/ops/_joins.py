"""What comes between layers: the activation, the residual connection and the maximum over the layers."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc._library import run
from mimogc.ops import _native
from mimogc.ops._backends import serving, serving_gradients
from mimogc.ops._checks import autocast
from mimogc.ops._functions import contiguous, recomputed, save, saved
from mimogc.ops._native import pointer, sizes, struct


class Join(NamedTuple):
    """What a branch of `rows` rows is joined to: row i belongs to row parent[i] of `given` and `best`, or to row i."""

    parent: int  # the address of int32 numbers, or 0
    given: Tensor | None  # what is added to `gain` times the branch
    gain: float | None
    best: Tensor | None  # the largest so far


class Joined(NamedTuple):
    out: Tensor
    top: Tensor | None  # the larger of best and out
    chosen: Tensor | None  # bool, where out is it
    derivative: Tensor | None  # of GELU


class Back(NamedTuple):
    """The gradients to what was joined."""

    branch: Tensor
    given: Tensor | None
    best: Tensor | None


def join(y: Tensor, to: Join, gelu: bool = False) -> Joined:
    """The branch y [rows, C], or GELU of it, joined; without `gelu` in the place of y."""
    (rows, channels), given, best = y.shape, to.given, to.best
    out, derivative = (torch.empty_like(y), torch.empty_like(y)) if gelu else (y, None)
    top = chosen = None
    if best is not None:
        top, chosen = torch.empty_like(y), torch.empty(y.shape, dtype=torch.bool)
    before = best if given is None else given
    of = 0 if before is None else before.size(0)
    at = struct("MimogcJoin", rows, of, to.gain or 0.0, to.parent, *map(pointer, (given, best, chosen)))
    places = pointer(y), pointer(derivative), pointer(out), pointer(top)
    run("mimogc_join", sizes(y, 1, channels), at, *places)
    return Joined(out, top, chosen, derivative)


def join_grad(
    links: Any,
    gain: float | None,
    given: Tensor,
    g_out: Tensor | None,
    g_top: Tensor | None,
    chosen: Tensor | None,
    derivative: Tensor | None = None,
) -> Back:
    """The gradients from those to out and top. `chosen` is there if there was a best, `gain` if there was a given."""
    g_out, g_top = contiguous(g_out, g_top)
    like: Any = g_top if g_out is None else g_out
    rows, channels = like.shape
    shape = links.num_src if links.parent else rows, channels
    grad = torch.empty_like(like)
    grad_given = None if gain is None else like.new_empty(shape)
    grad_best = None if chosen is None else like.new_empty(shape)
    # Which of them there were is told by addresses; their values are not read.
    was = 0 if gain is None else pointer(given), 0 if chosen is None else pointer(chosen)
    at = struct("MimogcJoin", rows, shape[0], gain or 0.0, links.parent, *was, pointer(chosen))
    places = map(pointer, (derivative, g_out, g_top, grad, grad_given, grad_best))
    run("mimogc_join_grad", sizes(like, 1, channels), at, *places)
    return Back(grad, grad_given, grad_best)


def joined(y: Tensor, given: Tensor | None, gain: float, best: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The same in plain torch, for a branch that is activated already."""
    out = y if given is None else torch.add(given, y, alpha=gain)
    return out, None if best is None else torch.maximum(best, out)


class Nodes(NamedTuple):
    """Rows that are their own parents."""

    parent: int = 0
    num_src: int = 0


class Activate(Function):
    """GELU(y), times `gain` and added to `given` where that is there; and the larger of `best` and that."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, given: Tensor | None, gain: float, best: Tensor | None) -> Any:
        own = contiguous(y, given, best)
        found = join(own[0], Join(0, own[1], gain, own[2]), gelu=True)
        save(ctx, y, given, best, found.derivative, found.chosen)
        ctx.gain = gain
        ctx.set_materialize_grads(False)
        return found.out if best is None else (found.out, found.top)

    @staticmethod
    def backward(ctx: Any, g_out: Tensor | None, g_top: Tensor | None = None) -> Any:
        y, given, best, derivative, chosen = saved(ctx)
        grads = [g for g in (g_out, g_top) if g is not None]
        if not grads:
            return None, None, None, None
        if torch.is_grad_enabled() or serving_gradients(*grads) is not _native:
            grad_y, grad_given, grad_best = _again(ctx, (y, given, best), g_out, g_top)
        else:
            gain = None if given is None else ctx.gain
            grad_y, grad_given, grad_best = join_grad(Nodes(), gain, y, g_out, g_top, chosen, derivative)
        return grad_y, grad_given, None, grad_best


def _again(ctx: Any, inputs: Any, g_out: Tensor | None, g_top: Tensor | None) -> list[Tensor | None]:
    def both(y: Tensor, given: Tensor | None, best: Tensor | None) -> Tensor:
        found = joined(F.gelu(y), given, ctx.gain, best)
        return torch.stack([value for value, g in zip(found, (g_out, g_top), strict=True) if g is not None])  # type: ignore[misc]

    return recomputed(both, inputs, torch.stack([g for g in (g_out, g_top) if g is not None]))


def activate(
    y: Tensor, given: Tensor | None = None, gain: float = 1.0, best: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """GELU, a residual connection and the maximum over layers as one function.

    Args:
        y: ``[N, C]``, what a layer gave.
        given: ``[N, C]``, to which `gain` times ``GELU(y)`` is added.
        gain: that number.
        best: ``[N, C]``, the largest outputs of the layers before.

    Returns:
        ``out [N, C]``, and the larger of `best` and that, None without `best`.
    """
    for name, value in (("given", given), ("best", best)):
        if value is not None and (value.shape != y.shape or value.dtype != y.dtype or value.device != y.device):
            wanted = f"{y.dtype} {list(y.shape)} on {y.device} like y"
            raise ValueError(f"{name}: expected {wanted}, got {value.dtype} {list(value.shape)} on {value.device}")
    compiled = torch.compiler.is_compiling() or y.dim() != 2 or y.layout is not torch.strided or autocast(y.device)
    if compiled or serving(y, given, best) is not _native:
        return joined(F.gelu(y), given, gain, best)
    found = Activate.apply(y, given, gain, best)
    return (found, None) if best is None else found
