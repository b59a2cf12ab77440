"""Rings: the shortest cycles of any graph, and molecules whose rings are edges of their own types."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mimogc.data.molecules import Molecules
from mimogc.data.packing import sorted_edges
from mimogc.data.sources import Array, derived
from mimogc.graph import Graph

LARGEST = 8  # nodes of the rings that are looked for
_TOGETHER = 1 << 14  # edges searched from at once: enough to hide numpy's overhead, few enough for the memory

Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class RingPairs:
    """Pairs of nodes that are in one ring, both ways; the smallest ring of a pair counts, then the shortest way."""

    index: Tensor  #: [2, P] int64, sorted
    size: Tensor  #: [P] int64: nodes of the ring
    distance: Tensor  #: [P] int64: steps along the ring; 1 is an edge of the graph

    def __repr__(self) -> str:
        return f"RingPairs({self.size.numel():,} pairs)"


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Which type the edges of a molecule with rings have; type 0 is the self-loop.

    A computational graph may have any edges. `RINGS` and `STRUCTURE` are tables, and one's own may take their place.
    """

    bonds: tuple[int, ...]  #: of single, double and triple bonds outside rings
    ring_bonds: tuple[int, ...]  #: of the same in a ring
    pairs: Mapping[tuple[int, int], int] = field(repr=False)  #: (nodes of the ring, steps along it) → type of a pair
    others: int  #: of the pairs in all other rings

    def __post_init__(self) -> None:
        for name, kinds in (("bonds", self.bonds), ("ring_bonds", self.ring_bonds)):
            if len(kinds) != 3:
                raise ValueError(f"{name}: expected three types, of single, double and triple bonds, got {kinds}")
        if any(kind < 1 or kind > 255 for kind in self._all()):
            raise ValueError(f"types: expected numbers from 1 to 255 (0 is the self-loop), got {self._all()}")

    def _all(self) -> list[int]:
        return [*self.bonds, *self.ring_bonds, *self.pairs.values(), self.others]

    @property
    def types(self) -> int:
        """Their number, with that of the self-loop."""
        return 1 + max(self._all())


_PAIRS = MappingProxyType({(5, 2): 6, (6, 2): 7, (6, 3): 8})
#: ten types: bonds by kind, in rings or not; pairs in a five-ring, in a six-ring at distance 2 and 3, in others
RINGS = EdgeTable((1, 2, 3), (4, 5, 5), _PAIRS, 9)
#: seven types of the structure alone: all kinds of bonds are alike
STRUCTURE = EdgeTable((1, 1, 1), (2, 2, 2), MappingProxyType({pair: kind - 3 for pair, kind in _PAIRS.items()}), 6)


def find_rings(graph: Graph, largest: int = LARGEST) -> dict[int, Tensor]:
    """All shortest cycles through every edge, if they have at most `largest` nodes; each cycle once.

    Direction, loops and duplicates of edges do not matter. A breadth-first search from every edge, of many edges at
    once: for graphs of bounded degree the time is linear in the number of edges.

    Returns:
        Size → ``[R, size]`` int64: the nodes in the order of the ring, from the smallest to its smaller neighbour.
        Such a cycle has no chord, so its nodes say which it is.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"graph: expected a Graph (Graph.from_edge_index), got {type(graph).__name__}")
    if largest < 3:
        raise ValueError(f"largest: expected at least 3, got {largest}")
    if graph.num_src != graph.num_dst:
        raise ValueError(f"graph: expected one set of nodes, got {graph.num_src} sources and {graph.num_dst} targets")
    n = graph.num_nodes
    source, target = (side.cpu().numpy().astype(np.int64) for side in (graph.src, graph.dst))
    low, high = np.minimum(source, target), np.maximum(source, target)
    low, high = np.divmod(np.unique((low * n + high)[low < high]), max(n, 1))
    for _ in range(largest):  # nodes with one neighbour are in no ring; what is left of long chains costs time only
        inner = np.bincount(np.concatenate([low, high]), minlength=n) > 1
        kept = inner[low] & inner[high]
        if kept.all():
            break
        low, high = low[kept], high[kept]
    tail, head = np.concatenate([low, high]), np.concatenate([high, low])
    around = head[np.argsort(tail, kind="stable")]
    rowptr = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=n))])
    found: dict[int, list[Index]] = {}
    for start in range(0, low.size, _TOGETHER):
        part = slice(start, start + _TOGETHER)
        for size, rings in _through(low[part], high[part], _Neighbours(rowptr, around), largest).items():
            found.setdefault(size, []).append(rings)
    return {size: torch.from_numpy(np.unique(np.concatenate(found[size]), axis=0)) for size in sorted(found)}


@dataclass(frozen=True, eq=False)
class _Neighbours:
    rowptr: Index
    around: Index

    def of(self, nodes: Index) -> tuple[Index, Index]:
        """Each neighbour of each node: the place of the node in `nodes`, and the neighbour."""
        first = self.rowptr[nodes]
        count = self.rowptr[nodes + 1] - first
        place = np.repeat(np.arange(nodes.size), count)
        ends = np.cumsum(count)
        return place, self.around[np.arange(place.size) + np.repeat(first - (ends - count), count)]


def _through(first: Index, last: Index, graph: _Neighbours, largest: int) -> dict[int, Index]:
    """The shortest cycles through the edges first[e] – last[e], those of an edge with one length; some more than once.

    Level l holds, as sorted numbers (e, node), the nodes that are l steps from first[e] without the edge itself.
    """
    n = graph.rowptr.size - 1
    levels = [np.arange(first.size) * n + first]
    found: dict[int, Index] = {}
    for length in range(1, largest):
        edge, node = np.divmod(levels[-1], n)
        place, reached = graph.of(node)
        itself = (reached == last[edge[place]]) & (length == 1)
        keys = np.unique((edge[place] * n + reached)[~itself])
        for level in levels[-2:]:
            keys = keys[~_among(keys, level)]
        closed = keys[keys % n == last[keys // n]]
        if closed.size:
            found[length + 1] = _traced(closed, levels, graph)
            keys = keys[~_among(keys // n, closed // n)]
        levels.append(keys)
    return found


def _traced(closed: Index, levels: list[Index], graph: _Neighbours) -> Index:
    """[R, size] from the ends (e, last[e]) of the shortest ways back through the levels."""
    n = graph.rowptr.size - 1
    edge, node = np.divmod(closed, n)
    paths = node[:, None]
    for level in reversed(levels):
        place, reached = graph.of(paths[:, -1])
        kept = _among(edge[place] * n + reached, level)
        place, reached = place[kept], reached[kept]
        edge, paths = edge[place], np.concatenate([paths[place], reached[:, None]], axis=1)
    size = paths.shape[1]
    turned = (paths.argmin(axis=1)[:, None] + np.arange(size)) % size
    paths = np.take_along_axis(paths, turned, axis=1)
    other_way = paths[:, 1] > paths[:, -1]
    paths[other_way, 1:] = paths[other_way, :0:-1]
    return np.unique(paths, axis=0)


def _among(values: Index, ascending: Index) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which values are in a sorted array."""
    if not ascending.size:
        return np.zeros(values.shape, dtype=np.bool_)
    place = np.searchsorted(ascending, values).clip(max=ascending.size - 1)
    return np.asarray(ascending[place] == values)


def ring_pairs(rings: Mapping[int, Tensor]) -> RingPairs:
    """Every pair of nodes of every ring, as `find_rings` gives them."""
    columns: list[Tensor] = []
    for size, nodes in rings.items():
        place = torch.arange(size)
        steps = (place.view(-1, 1) - place).abs()
        steps = torch.minimum(steps, size - steps)
        one, other = (steps > 0).nonzero(as_tuple=True)
        count = nodes.size(0)
        pair = nodes[:, one].flatten(), nodes[:, other].flatten()
        columns.append(torch.stack([*pair, torch.full_like(pair[0], size), steps[one, other].repeat(count)]))
    if not columns:
        none = torch.empty(0, dtype=torch.int64)
        return RingPairs(torch.empty(2, 0, dtype=torch.int64), none, none)
    table = torch.cat(columns, dim=1).numpy()
    order = np.lexsort(table[::-1])
    table = table[:, order]
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = (table[:2, 1:] != table[:2, :-1]).any(axis=0)
    kept = torch.from_numpy(table[:, first])
    return RingPairs(kept[:2], kept[2], kept[3])


def with_rings(molecules: Molecules, table: EdgeTable = RINGS, largest: int = LARGEST) -> Molecules:
    """The molecules with an edge between any two atoms of a ring, and types for all edges as the table says.

    `looped` is what changes, its edges and its ``bond``; `plain` stays what the dataset gives. The rings are cached.
    """
    if not isinstance(molecules, Molecules):
        raise TypeError(f"molecules: expected Molecules (load_molecules), got {type(molecules).__name__}")
    arrays = derived(f"{molecules.name}-rings{largest}-{molecules.digest[:16]}", lambda: _arrays(molecules, largest))
    pairs = RingPairs(*(torch.from_numpy(arrays[name].astype(np.int64)) for name in ("index", "size", "distance")))
    ptr, plain = molecules.ptr.numpy(), molecules.plain
    owner = np.repeat(np.arange(len(molecules)), np.diff(ptr))  # of each atom
    atom, neighbour = _bonds(molecules)
    n = molecules.atom.size(0)
    bond, in_ring = plain.bond.numpy().astype(np.int64), pairs.distance == 1
    ringed = _among(atom * n + neighbour, (pairs.index[0] * n + pairs.index[1])[in_ring].numpy())
    kinds = np.where(ringed, np.array((0, *table.ring_bonds))[bond], np.array((0, *table.bonds))[bond])
    of_pair = np.full((largest + 1, largest), table.others)
    for (size, distance), kind in table.pairs.items():
        if size <= largest and distance < largest:
            of_pair[size, distance] = kind
    new = ~in_ring
    loops = np.arange(n)
    ends = (
        np.concatenate([atom, pairs.index[0][new].numpy(), loops]),
        np.concatenate([neighbour, pairs.index[1][new].numpy(), loops]),
    )
    kinds = np.concatenate([kinds, of_pair[pairs.size[new].numpy(), pairs.distance[new].numpy()], np.zeros_like(loops)])
    given = np.concatenate([plain.twin.numpy(), np.full(kinds.size - atom.size, -1)])
    order = np.argsort(ends[0] * n + ends[1])
    edges = sorted_edges(ends[0][order], (ends[1] - ptr[owner[ends[1]]])[order], kinds[order], ptr)
    return replace(molecules, looped=replace(edges, position=torch.from_numpy(given[order].astype(np.int16))))


def _arrays(molecules: Molecules, largest: int) -> dict[str, Array]:
    """The pairs of atoms, which are numbered through."""
    graph = Graph.from_edge_index(torch.from_numpy(np.stack(_bonds(molecules))), molecules.atom.size(0))
    pairs = ring_pairs(find_rings(graph, largest))
    arrays = pairs.index.int(), pairs.size.to(torch.uint8), pairs.distance.to(torch.uint8)
    return dict(zip(("index", "size", "distance"), (array.numpy() for array in arrays), strict=True))


def _bonds(molecules: Molecules) -> tuple[Index, Index]:
    """Both ends of every bond, both ways, in the order of `plain`; the atoms of all molecules are numbered through."""
    edges = molecules.plain
    atom = np.repeat(np.arange(molecules.atom.size(0)), edges.degree.numpy())
    first = np.repeat(molecules.ptr[:-1].numpy(), np.diff(edges.ptr.numpy()))
    return atom, edges.neighbour.numpy().astype(np.int64) + first
