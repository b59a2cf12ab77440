"""Batch norm over the nodes of a whole graph, also where this process has one part of it."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from mimogc.graph import Graph


class _Total(Function):
    """The sum over all parts; its gradient is the sum of what every part makes of it."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        return graph.total(value)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Total.apply(g, ctx.graph), None  # type: ignore[no-untyped-call]


def normalised(x: Tensor, norm: torch.nn.Module, graph: Graph) -> Tensor:
    """What `norm` gives for the rows x [N, C] of all nodes: in training, batch norm needs those of the other parts."""
    if not (graph.is_partitioned and isinstance(norm, torch.nn.BatchNorm1d) and norm.training):
        out: Tensor = norm(x)
        return out
    count = int(graph.total(torch.tensor(x.size(0), device=x.device)))
    if count < 2:
        raise ValueError(f"x: expected at least two nodes in all parts for batch norm, got {count}")
    mean = _Total.apply(x.sum(0), graph) / count  # type: ignore[no-untyped-call]
    centred = x - mean
    variance = _Total.apply(centred.square().sum(0), graph) / count  # type: ignore[no-untyped-call]
    with torch.no_grad():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked += 1
        share = norm.momentum or 1 / float(norm.num_batches_tracked)
        norm.running_mean.lerp_(mean, share)
        norm.running_var.lerp_(variance * (count / (count - 1)), share)
    found: Tensor = torch.addcmul(norm.bias, centred * torch.rsqrt(variance + norm.eps), norm.weight)
    return found
