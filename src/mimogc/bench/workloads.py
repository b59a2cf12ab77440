"""Graphs of the sizes that the library is used on, made from a seed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Workload:
    """A graph, the width of its features, and how often to time it."""

    what: str
    make: Callable[[], tuple[int, Tensor]]  # the number of nodes and edge_index
    channels: int
    repeats: int
    calls: int  # per timing


def molecules(count: int, seed: int = 0) -> tuple[int, Tensor]:
    """Graphs of 23 nodes and 25 bonds, both directions: trees of low degree with three rings closed."""
    generator = np.random.default_rng(seed)
    size, edges = 23, []
    for molecule in range(count):
        bonds: set[tuple[int, int]] = set()
        degree = np.zeros(size, dtype=int)
        while len(bonds) < size + 2:
            grown = len(bonds) + 1
            v = grown if grown < size else int(generator.integers(5, size))
            near = [u for u in range(max(0, v - 6), v) if degree[u] < 4 and (u, v) not in bonds]
            if not near:
                continue
            u = int(generator.choice(near))
            bonds.add((u, v))
            degree[[u, v]] += 1
        edges += [(molecule * size + u, molecule * size + v) for u, v in bonds]
    one_way = torch.tensor(edges).t()
    return count * size, torch.cat([one_way, one_way.flip(0)], dim=1)


def hubs(nodes: int, edges: int, seed: int = 0) -> tuple[int, Tensor]:
    """Distinct directed edges whose ends follow a power law, as in a web graph."""
    generator = np.random.default_rng(seed)
    weight = np.arange(1, nodes + 1, dtype=float) ** -0.7
    ends = generator.choice(nodes, size=(2, 4 * edges), p=weight / weight.sum())
    ends = np.unique(generator.permutation(nodes)[ends], axis=1)
    chosen = generator.choice(ends.shape[1], edges, replace=False)
    return nodes, torch.from_numpy(ends[:, chosen])


def uniform(nodes: int, edges: int, seed: int = 0) -> tuple[int, Tensor]:
    """Directed edges between random nodes."""
    generator = np.random.default_rng(seed)
    return nodes, torch.from_numpy(generator.integers(0, nodes, (2, edges)))


WORKLOADS = {
    "zinc32": Workload("a batch of 32 molecules, 48 channels", lambda: molecules(32), 48, 25, 20),
    "squirrel64": Workload("5,201 nodes, 217,073 edges with hubs, 64 channels", lambda: hubs(5201, 217_073), 64, 7, 1),
    "large": Workload("200,000 nodes, 4,000,000 edges, 64 channels", lambda: uniform(200_000, 4_000_000), 64, 3, 1),
}
