"""What the batched layers share: the tasks, parameters and gradients side by side, the loss."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from mimogc.graph import Graph


@dataclass(frozen=True)
class Problem:
    """One task of the universality study: find the weights with layer(x, graph) = y."""

    graph: Graph  # undirected and connected, without self-loops
    x: Tensor  # [n, F]
    y: Tensor  # [n, C]


class Batched(ABC):
    """B layers of one method. A subclass lays out the parameters of a layer and gives the two passes."""

    graph: Graph  #: of those that propagate in every step
    absolute: bool = False  #: whether the absolute error is minimised, and not the squared one
    limit: float = math.inf  #: gradients of a longer norm are scaled down to it, for each run by itself

    def __init__(self, layers: Sequence[Module], problems: Sequence[Problem]) -> None:
        self.x = torch.stack([problem.x for problem in problems])  # [B, n, F]
        self.y = torch.stack([problem.y for problem in problems])  # [B, n, C]
        self.runs, self.nodes, self.channels = self.y.shape
        packed = [self.pack(dict(layer.named_parameters())) for layer in layers]
        stacked = [torch.stack(tensors).detach() for tensors in zip(*packed, strict=True)]  # each [B, ...]
        self.parameters = torch.cat([tensor.flatten() for tensor in stacked])
        self.gradient = torch.zeros_like(self.parameters)
        shapes = [tensor.shape for tensor in stacked]
        self.weights = views(self.parameters, shapes)
        self.slopes = views(self.gradient, shapes)
        self.setup(layers, problems)

    def setup(self, layers: Sequence[Module], problems: Sequence[Problem]) -> None:  # noqa: B027, not all need it
        """Compute what stays the same in all steps."""

    def buffers(self, count: int, *shape: int) -> Tensor:
        """Room for ``count`` temporaries of shape [B, ...]."""
        return self.x.new_empty(count, self.runs, *shape)

    @abstractmethod
    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """A layer's parameters, or their gradients, in the layout of `weights`."""

    @abstractmethod
    def forward(self) -> Tensor:
        """The outputs [B, n, C]; keeps what `backward` needs."""

    @abstractmethod
    def backward(self, grad: Tensor) -> None:
        """Write the gradients of the weights into `slopes`, from the gradient [B, n, C] of the outputs."""

    def propagated(self, function: Callable[..., Tensor], *parts: Tensor) -> Tensor:
        """The outputs [B, n, C] of ``function(*parts, self.graph)``; `gradients` are to its parts."""
        with torch.enable_grad():
            self.parts = [part.requires_grad_() for part in parts]
            self.out = function(*self.parts, self.graph)
        return self.out.detach().view_as(self.y)

    def gradients(self, grad: Tensor) -> tuple[Tensor, ...]:
        """The gradients of `parts`, from that of the outputs."""
        return torch.autograd.grad(self.out, self.parts, grad.view_as(self.out))

    def errors(self) -> Tensor:
        """The mean squared and the mean absolute errors [2, B]; `gradient` is that of the minimised one afterwards."""
        error = self.forward() - self.y
        size = self.nodes * self.channels
        found = torch.stack([error.square().mean((1, 2)), error.abs().mean((1, 2))])
        self.backward(error.sign_().div_(size) if self.absolute else error.mul_(2 / size))
        if self.limit < math.inf:
            self.clip()
        return found

    def clip(self) -> None:
        """Scale down the gradients of the runs in which their norm is beyond `limit`, as `clip_grad_norm_` does."""
        slopes = [slope.flatten(1) for slope in self.slopes]
        norm = torch.stack([torch.linalg.vector_norm(slope, dim=1) for slope in slopes]).square().sum(0).sqrt()
        factor = (self.limit / (norm + 1e-6)).clamp(max=1.0).unsqueeze(1)
        for slope in slopes:
            slope.mul_(factor)


def side_by_side(problems: Sequence[Problem], add_self_loops: bool) -> Graph:
    """The graphs of the problems as the blocks of one."""
    nodes = problems[0].graph.num_nodes
    edges = [problem.graph.edge_index + i * nodes for i, problem in enumerate(problems)]
    return Graph.from_edge_index(torch.cat(edges, 1), nodes * len(problems), add_self_loops=add_self_loops)


def views(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Consecutive parts of a flat tensor in the given shapes, on the same memory."""
    parts = torch.split(flat, [shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
