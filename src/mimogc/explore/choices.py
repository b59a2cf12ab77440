"""What a person can pick on the page: a graph, a method and how it is set, as a graph and as layers."""

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mimogc.data import load_nodes, verify
from mimogc.experiments.figures.measure import layer_of as fixed_layer_of
from mimogc.experiments.figures.measure import synthetic_graph
from mimogc.graph import Graph
from mimogc.nn import LMGConv

GRAPHS = {
    "random": "random (Erdős–Rényi)",
    "ring": "ring",
    "one-way ring": "one-way ring (directed)",
    "grid": "grid",
    "texas": "Texas",
    "cornell": "Cornell",
    "wisconsin": "Wisconsin",
}
DATASETS = ("texas", "cornell", "wisconsin")
METHODS = {
    "eq12": "LMGC (the paper's eq. 12)",
    "lmgc": "LMGC with offset, at its start",
    "gcn": "GCN",
    "gat": "GAT",
    "gatv2": "GATv2",
    "fagcn": "FAGCN",
    "acm": "ACM's filter bank",
    "chebyshev": "Chebyshev, degree 2",
    "gated": "Gated",
    "sheaf": "Sheaf, s = 2",
    "gin": "GIN",
    "mimogc": "MIMO-GC",
}
FREE_HEADS = ("eq12", "lmgc", "gat", "gatv2")  # the others have as many graphs as their definition says
MIN_NODES, MAX_NODES, MAX_HEADS, MAX_DEPTH = 6, 128, 8, 128


class NotShownError(ValueError):
    """A view that this choice does not have; the message says why, in words for the page."""


@dataclass(frozen=True)
class Choice:
    """What was picked. Layers, features and the random graph are functions of it."""

    graph: str = "random"
    nodes: int = 64  # of a synthetic graph
    loops: bool = True  # whether layers add self-loops
    method: str = "eq12"
    heads: int = 4  # K, where the method leaves it free
    depth: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("graph", GRAPHS), ("method", METHODS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name, low, high in (
            ("nodes", MIN_NODES, MAX_NODES),
            ("heads", 1, MAX_HEADS),
            ("depth", 1, MAX_DEPTH),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}: expected {low} to {high}, got {getattr(self, name)}")


def given_graph(choice: Choice) -> Graph:
    """The graph that was picked, as layers get it."""
    if choice.graph in DATASETS:
        return _dataset(choice.graph)[0]
    if choice.graph == "random":
        # Half as dense again as where such a graph becomes connected.
        return synthetic_graph(choice.nodes, 1.5 * math.log(choice.nodes) / choice.nodes, choice.seed)
    return _regular(choice.graph, choice.nodes)


def effective_graph(choice: Choice) -> Graph:
    """The graph that layers then run on, with the self-loops they add."""
    graph = given_graph(choice)
    return graph.with_self_loops() if choice.loops else graph


def features(choice: Choice, width: int) -> Tensor:
    """[N, width] float64: normal, or those of the dataset under a random projection; seeded by the caller."""
    if choice.graph not in DATASETS:
        return torch.randn(given_graph(choice).num_nodes, width).double()
    x = _dataset(choice.graph)[1].double()
    return x @ torch.randn(x.size(1), width).double()


def random_layer(choice: Choice, width: int) -> torch.nn.Module:
    """A new random layer of the method, `width` channels in and out, in float64; seeded by the caller."""
    if choice.method in FREE_HEADS:
        layer: torch.nn.Module = LMGConv(
            width, width, choice.heads, choice.method, add_self_loops=choice.loops, bias=False
        )
        return layer.double()
    return fixed_layer_of(choice.method, width, effective_graph(choice), choice.loops)


@functools.lru_cache(maxsize=8)
def _regular(kind: str, nodes: int) -> Graph:
    """A ring, a one-way ring, or the grid nearest to a square."""
    if kind == "grid":
        height = math.isqrt(nodes)
        place = torch.arange(height * (nodes // height)).view(height, -1)
        right = torch.stack([place[:, :-1].flatten(), place[:, 1:].flatten()])
        down = torch.stack([place[:-1].flatten(), place[1:].flatten()])
        return Graph.from_edge_index(torch.cat([right, down], dim=1), place.numel()).to_undirected()
    node = torch.arange(nodes)
    ring = Graph.from_edge_index(torch.stack([node, (node + 1) % nodes]), nodes)
    return ring if kind == "one-way ring" else ring.to_undirected()


@functools.lru_cache(maxsize=len(DATASETS))
def _dataset(name: str) -> tuple[Graph, Tensor]:
    """The undirected graph and the features of a dataset whose files are here; nothing is downloaded."""
    missing = [row.file for row in verify([name]) if row.state == "missing"]
    if missing:
        raise NotShownError(
            f"{GRAPHS[name]} is not on this machine: {missing[0]} is neither in the cache (MIMOGC_DATA) nor in a "
            f'mirror (MIMOGC_MIRROR). This page downloads nothing; python -c "import mimogc.data; '
            f"mimogc.data.load_nodes('{name}')\" does."
        )
    data = load_nodes(name)
    return data.graph(undirected=True), data.x
