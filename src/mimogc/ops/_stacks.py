"""Several layers one after another, with what comes between them, as one function with its gradients.

What Python and autograd cost is paid once, not once per operator of each layer. What a layer is, a `Layer` says.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native
from mimogc.ops._backends import serving_gradients
from mimogc.ops._functions import contiguous, recomputed, save, saved
from mimogc.ops._joins import Join, join, join_grad, joined
from mimogc.ops._links import Links

Tensors = tuple[Any, ...]  # those of one layer; None where it can do without


class Layer(ABC):
    """One layer without its tensors. `link` is the MimogcGraph from the rows that it takes to those that it gives."""

    size: ClassVar[int]  # how many tensors it has
    kept: ClassVar[int]  # how many it keeps for the gradients
    activates: ClassVar[bool] = False  # whether `forward` applies GELU itself
    gelu: bool  # whether GELU is applied

    @abstractmethod
    def forward(self, x: Tensor, own: Tensors, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        """What it gives, and what it keeps."""

    @abstractmethod
    def grad(
        self, x: Tensor, own: Tensors, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        """The gradients to x and to its tensors, None where `needs` says so."""

    @abstractmethod
    def by_parts(self, x: Tensor, own: Tensors, graph: Graph) -> Tensor:
        """What it gives, without GELU, of functions that can be differentiated twice."""


class Between(NamedTuple):
    """What comes between layers."""

    gain: float | None  # of what is added to the input; None where nothing is
    maximum: bool  # whether the largest outputs are kept

    def __bool__(self) -> bool:
        return self.gain is not None or self.maximum


class Stack(NamedTuple):
    """Layers on a graph."""

    layers: tuple[Layer, ...]
    between: Between
    graph: Graph

    def split(self, tensors: Sequence[Tensor | None]) -> list[Tensors]:
        """The tensors of each layer, of those of all, one behind the other."""
        found, first = [], 0
        for layer in self.layers:
            found.append(tuple(tensors[first : first + layer.size]))
            first += layer.size
        return found

    def run(self, x: Tensor, tensors: Sequence[Tensor | None], links: Links, rows: Tensor | None = None) -> Tensor:
        """What the last layer gives, or the largest of all, from x [N, F]; with rows [N] node i has row rows[i] of x.

        Everything has been checked, and is for the C++ kernels.
        """
        if not (torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in (x, *tensors))):
            return self.in_turn(x, tensors, links)
        out: Tensor = Layers.apply(self, links, rows, x, *tensors)
        return out

    def in_turn(
        self, x: Tensor, tensors: Sequence[Tensor | None], links: Links, kept: list[Any] | None = None
    ) -> Tensor:
        """The same without gradients. `kept` gets what these need: input, chosen, derivative and the layer's own."""
        out, best, between = x, None, self.between
        for layer, own, link in zip(self.layers, self.split(tensors), links.of(self.graph), strict=True):
            given = out.contiguous()
            out, more = layer.forward(given, contiguous(*own), self.graph, link)
            chosen = derivative = None
            gelu = layer.gelu and not layer.activates
            if between or gelu:
                to = Join(link.parent, given if between.gain is not None else None, between.gain, best)
                found = join(out, to, gelu)
                out, chosen, derivative = found.out, found.chosen, found.derivative
                best = (out if best is None else found.top) if between.maximum else None
            if kept is not None:
                kept += (given, chosen, derivative, *more)
        return out if best is None else best

    def by_parts(self, x: Tensor, tensors: Sequence[Tensor | None], rows: Tensor | None) -> Tensor:
        """The same as functions that can be differentiated twice."""
        out = x if rows is None else x.index_select(0, rows)
        best: Tensor | None = None
        gain = self.between.gain
        for layer, own in zip(self.layers, self.split(tensors), strict=True):
            given, out = out, layer.by_parts(out, own, self.graph)
            out = F.gelu(out) if layer.gelu else out
            out, best = joined(out, None if gain is None else given, gain or 0.0, best)
            best = out if self.between.maximum and best is None else best
        return out if best is None else best


class Layers(Function):
    """`Stack.run` with its gradients: x and the tensors of all layers, one behind the other."""

    @staticmethod
    def forward(
        ctx: Any, stack: Stack, links: Links, rows: Tensor | None, x: Tensor, *tensors: Tensor | None
    ) -> Tensor:
        kept: list[Any] = []
        out = stack.in_turn(x, tensors, links, kept)
        save(ctx, rows, x, *tensors, *kept)
        ctx.stack, ctx.links = stack, links
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        stack: Stack = ctx.stack
        rows, x, *others = saved(ctx)
        size = sum(layer.size for layer in stack.layers)
        tensors, kept = others[:size], others[size:]
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:

            def again(x: Tensor, *tensors: Tensor | None) -> Tensor:
                return stack.by_parts(x, tensors, rows)

            return None, None, None, *recomputed(again, (x, *tensors), g)
        weights, between, links = stack.split(tensors), stack.between, ctx.links.of(stack.graph)
        needs, before = ctx.needs_input_grad[3:], 1 + size
        gradients: list[Tensor | None] = []
        # What the output of a layer gets, and what the largest output up to it does.
        grad: Any = None if between.maximum else g
        top = g if between.maximum else None
        for number in reversed(range(len(weights))):
            layer, link = stack.layers[number], links[number]
            before -= layer.size
            own_kept = kept[len(kept) - 3 - layer.kept :]
            del kept[len(kept) - len(own_kept) :]
            if grad is None and top is None:  # nothing further down is learnt
                gradients[:0] = [None] * layer.size
                continue
            wanted = (any(needs[:before]), *needs[before : before + layer.size])
            given, chosen, derivative, *more = own_kept
            past = None
            if between or derivative is not None:
                back = join_grad(link, between.gain, given, grad, top, chosen, derivative)
                grad, past, top = back.branch, back.given, back.best
            own = contiguous(*weights[number])
            grad, *found = layer.grad(
                given.contiguous(), own, tuple(more), grad.contiguous(), stack.graph, link, wanted
            )
            grad = grad if past is None or grad is None else grad.add_(past)
            gradients[:0] = found
        return None, None, None, grad, *gradients
