"""What a person can pick on the page: a graph, a method and how it is set, as a graph and as layers."""

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mimogc._texts import read_texts
from mimogc.data import load_nodes, verify
from mimogc.explore import own
from mimogc.methods import method as record_of

if TYPE_CHECKING:  # what needs torch is imported by the functions that compute, so that the page opens without it
    import torch
    from torch import Tensor

    from mimogc.graph import Graph

TEXTS = read_texts(Path(__file__).with_name("texts.md"))
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
MIN_NODES, MAX_NODES, MAX_HEADS, MAX_DEPTH, MAX_SEED = 6, 128, 8, 128, 9999
ELEMENTS = ("a", "b", "c", "2a")  # 2a is twice a, which is what Proposition 4 needs two graphs for
COMPONENT = 2  # that is shown at first, in percent from smooth to rough


class NotShownError(ValueError):
    """A view that this choice does not have; the message, a text of the page, says why."""

    def __init__(self, text: str, **fields: str) -> None:
        super().__init__(TEXTS[text][0].format(**fields))


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
        if self.graph not in GRAPHS and not own.is_known(self.graph):
            raise ValueError(f"graph: expected one of {', '.join(GRAPHS)}, got {self.graph!r}")
        record_of(self.method)
        ranges = {
            "nodes": (MIN_NODES, MAX_NODES),
            "heads": (1, MAX_HEADS),
            "depth": (1, MAX_DEPTH),
            "seed": (0, MAX_SEED),
        }
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}: expected {low} to {high}, got {getattr(self, name)}")


def given_graph(choice: Choice) -> "Graph":
    """The graph that was picked, as layers get it."""
    if choice.graph in DATASETS:
        return _dataset(choice.graph)[0]
    if own.is_known(choice.graph):
        return own.graph_of(choice.graph)
    if choice.graph == "random":
        from mimogc.studies.figures.measure import synthetic_graph

        # Half as dense again as where such a graph becomes connected.
        return synthetic_graph(choice.nodes, 1.5 * math.log(choice.nodes) / choice.nodes, choice.seed)
    return _regular(choice.graph, choice.nodes)


def effective_graph(choice: Choice) -> "Graph":
    """The graph that layers then run on, with the self-loops they add."""
    graph = given_graph(choice)
    return graph.with_self_loops() if choice.loops else graph


def features(choice: Choice, width: int) -> "Tensor":
    """[N, width] float64: normal, or those of the dataset under a random projection; seeded by the caller."""
    import torch

    if choice.graph not in DATASETS:
        return torch.randn(given_graph(choice).num_nodes, width).double()
    x = _dataset(choice.graph)[1].double()
    return x @ torch.randn(x.size(1), width).double()


TOUR_CARDS = ("amplification", "amplification", "multisets", "multisets")  # where to look at each step


def tour() -> "list[tuple[str, str, Choice]]":
    """The steps of the guided tour: a title, what to look at, and what is picked."""
    choices = (Choice(), Choice(method="gcn"), Choice(method="gat", loops=False), Choice(heads=1, loops=False))
    texts = [TEXTS[f"tour {step}"] for step in range(1, 1 + len(choices))]
    return [(title, what, choice) for (title, what), choice in zip(texts, choices, strict=True)]


def random_layer(choice: Choice, width: int) -> "torch.nn.Module":
    """A new random layer of the method, `width` channels in and out, in float64; seeded by the caller."""
    record, graph = record_of(choice.method), effective_graph(choice)
    return record.build(width, choice.heads, add_self_loops=choice.loops, bias=False, graph=graph).double()


@functools.lru_cache(maxsize=8)
def _regular(kind: str, nodes: int) -> "Graph":
    """A ring, a one-way ring, or the grid nearest to a square."""
    import torch

    from mimogc.graph import Graph

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
def _dataset(name: str) -> "tuple[Graph, Tensor]":
    """The undirected graph and the features of a dataset whose files are here; nothing is downloaded."""
    missing = [row.file for row in verify([name]) if row.state == "missing"]
    if missing:
        raise NotShownError("not here", label=GRAPHS[name], file=missing[0], name=name)
    data = load_nodes(name)
    return data.graph(undirected=True), data.x
