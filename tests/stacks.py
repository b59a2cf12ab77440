"""Stacks of layers on random graphs, for what is said of scales over depth."""

import torch
from torch.nn import functional as F

from mimogc import Graph
from mimogc.nn import LMGConv

NODES = 40


def erdos_renyi(nodes: int, degree: float, seed: int = 0) -> Graph:
    """An undirected random graph of a mean degree."""
    generator = torch.Generator().manual_seed(seed)
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < degree / (nodes - 1), 1)
    edges = upper.nonzero().t()
    return Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), nodes)


class Stack(torch.nn.Module):
    """Layers with an activation between them, which keeps what each gave."""

    def __init__(self, channels: int, depth: int, act=F.gelu, residual: bool = False, **options) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(LMGConv(channels, channels, **options) for _ in range(depth))
        self.act, self.residual, self.seen = act, residual, []

    def forward(self, x, graph):
        self.seen = []
        for layer in self.layers:
            out = layer(x, graph)
            self.seen.append(out)
            x = x + self.act(out) if self.residual else self.act(out)
        return x


def case(depth=3, seed=0, channels=16, **options):
    torch.manual_seed(seed)
    return Stack(channels, depth, **options), torch.randn(NODES, channels), erdos_renyi(NODES, 5)
