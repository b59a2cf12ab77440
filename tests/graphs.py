"""Random graphs and the graphs where kernels go wrong, shared by the tests."""

import os

import torch
from hypothesis import strategies as st
from torch import Tensor

# Through the Triton kernels in their interpreter, which is slow: fewer and smaller cases, the same comparisons.
INTERPRETED = os.environ.get("MIMOGC_BACKEND") == "triton" and os.environ.get("TRITON_INTERPRET") == "1"

AWKWARD = {
    "no nodes": (0, []),
    "one node": (1, []),
    "no edges": (5, []),
    "one loop": (1, [(0, 0)]),
    "isolated nodes": (7, [(1, 3), (3, 1)]),
    "self-loops": (4, [(0, 0), (1, 1), (0, 1), (2, 2), (3, 1)]),
    "duplicate edges": (4, [(0, 1), (0, 1), (0, 1), (2, 3), (3, 2), (2, 3)]),
    "duplicate loops": (3, [(1, 1), (1, 1), (0, 2)]),
    "all into one": (9, [(j, 0) for j in range(9)]),
    "all out of one": (9, [(0, i) for i in range(9)]),
}


def awkward(name: str) -> tuple[int, Tensor]:
    """(number of nodes, edge_index) of a named awkward graph."""
    nodes, edges = AWKWARD[name]
    return nodes, torch.tensor(edges, dtype=torch.long).view(-1, 2).t()


def random_edges(nodes: int, edges: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, nodes, (2, edges), generator=generator, device="cpu").to(torch.get_default_device())


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 8, max_edges: int = 24) -> tuple[int, Tensor]:
    """Any small directed multigraph with loops, and its number of nodes."""
    nodes = draw(st.integers(0, max_nodes))
    if not nodes:
        return 0, torch.zeros(2, 0, dtype=torch.long)
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    return nodes, torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
