"""Rings equal what a search over all simple paths finds, and become edges of the types that a table says."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mimogc import Graph
from mimogc.data import RINGS, STRUCTURE, EdgeTable, Molecules, find_rings, load_molecules, ring_pairs, with_rings
from mimogc.data import rings as module


@pytest.fixture
def molecules(datasets: Path) -> Molecules:
    return load_molecules("zinc12k")


def undirected(*edges: tuple[int, int]) -> Graph:
    return Graph.from_edge_index(torch.tensor(edges).t(), 1 + max(max(edge) for edge in edges))


def by_search(graph: Graph, largest: int) -> set[tuple[int, ...]]:
    """The shortest cycles through every edge, from all simple paths; each from its smallest node on."""
    around: dict[int, set[int]] = {node: set() for node in range(graph.num_nodes)}
    for j, i in zip(graph.src.tolist(), graph.dst.tolist(), strict=True):
        if i != j:
            around[i].add(j)
            around[j].add(i)
    found: set[tuple[int, ...]] = set()
    for u in around:
        for v in around[u]:
            paths, closed = [(u, w) for w in around[u] if w != v], []
            while paths and not closed and len(paths[0]) < largest:
                paths = [(*path, w) for path in paths for w in around[path[-1]] if w not in path]
                closed = [path for path in paths if path[-1] == v]
            for path in closed:
                at = path.index(min(path))
                turned = path[at:] + path[:at]
                found.add(turned if turned[1] < turned[-1] else (turned[0], *turned[:0:-1]))
    return found


def as_set(rings: dict[int, Tensor]) -> set[tuple[int, ...]]:
    listed = [tuple(ring) for nodes in rings.values() for ring in nodes.tolist()]
    assert len(listed) == len(set(listed))
    assert all(nodes.size(1) == size for size, nodes in rings.items())
    return set(listed)


@pytest.mark.parametrize(
    ("nodes", "edges", "largest"), [(12, 14, 8), (12, 20, 8), (9, 25, 6), (20, 24, 5), (30, 33, 9)]
)
def test_random_graphs(nodes: int, edges: int, largest: int) -> None:
    for seed in range(20):
        index = torch.randint(0, nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
        graph = Graph.from_edge_index(index, nodes)  # with loops, duplicates and edges of one direction
        assert as_set(find_rings(graph, largest)) == by_search(graph, largest)


def test_parts_of_the_edges_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_edge_index(torch.randint(0, 15, (2, 30), generator=torch.Generator().manual_seed(3)), 15)
    whole = find_rings(graph)
    monkeypatch.setattr(module, "_TOGETHER", 4)
    parts = find_rings(graph)
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[size], parts[size]) for size in whole)


def test_known_shapes() -> None:
    naphthalene = [(i, (i + 1) % 10) for i in range(10)] + [(0, 5)]
    assert as_set(find_rings(undirected(*naphthalene))) == {(0, 1, 2, 3, 4, 5), (0, 5, 6, 7, 8, 9)}
    cube = [(a, a ^ bit) for a in range(8) for bit in (1, 2, 4) if a < a ^ bit]
    assert {size: len(found) for size, found in find_rings(undirected(*cube)).items()} == {4: 6}
    circle = [(i, (i + 1) % 9) for i in range(9)]
    assert find_rings(undirected(*circle)) == {}  # one node too many
    assert find_rings(undirected(*circle), largest=9)[9].tolist() == [list(range(9))]
    assert find_rings(undirected((0, 1), (1, 2), (1, 3))) == {}
    assert find_rings(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0)) == {}


def test_a_pair_belongs_to_its_smallest_ring() -> None:
    # Norbornane: two five-rings that share three atoms (1, 0, 4 over the bridge 6), within a six-ring.
    pairs = ring_pairs(find_rings(undirected((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6), (6, 3))))
    of = dict(
        zip(
            map(tuple, pairs.index.t().tolist()),
            zip(pairs.size.tolist(), pairs.distance.tolist(), strict=True),
            strict=True,
        )
    )
    assert of[0, 3] == of[3, 0] == (5, 2)
    assert of[0, 1] == (5, 1)
    assert (1, 4) not in of  # opposite in a six-ring that is no shortest cycle of any edge
    assert len(of) == 2 * (8 + 9)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="largest: expected at least 3, got 2"):
        find_rings(undirected((0, 1)), 2)
    with pytest.raises(TypeError, match=r"graph: expected a Graph .*, got Tensor"):
        find_rings(torch.zeros(2, 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"molecules: expected Molecules .*, got Tensor"):
        with_rings(torch.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="graph: expected one set of nodes, got 2 sources and 3 targets"):
        find_rings(Graph.from_edge_index(torch.tensor([[0], [2]]), (2, 3)))
    with pytest.raises(ValueError, match=r"types: expected numbers from 1 to 255 \(0 is the self-loop\)"):
        EdgeTable((0, 1, 2), (3, 4, 5), {}, 6)
    with pytest.raises(ValueError, match=r"ring_bonds: expected three types.*got \(4,\)"):
        EdgeTable((1, 2, 3), (4,), {}, 6)


class TestMolecules:
    def typed(self, molecules: Molecules, molecule: int, table: EdgeTable) -> dict[tuple[int, int], tuple[int, int]]:
        """The edges (atom, neighbour) of a molecule with type and place, written down from the definition."""
        data = molecules.data(molecule)
        index, bonds = data.edge_index.t().tolist(), data.edge_attr.tolist()
        found = {(i, i): (0, -1) for i in range(data.num_nodes)}
        rings = sorted(by_search(Graph.from_edge_index(data.edge_index, data.num_nodes), 8), key=len, reverse=True)
        place = {(i, j): number for number, (j, i) in enumerate(index)}
        for (i, j), bond in zip(index, bonds, strict=True):
            found[i, j] = (table.bonds[bond - 1], place[i, j])
        steps = [
            (len(ring), min(abs(a - b), len(ring) - abs(a - b)), ring[a], ring[b])
            for ring in rings for a in range(len(ring)) for b in range(len(ring)) if a != b
        ]  # fmt: skip
        for size, distance, i, j in sorted(steps, reverse=True):
            if distance == 1:
                found[i, j] = (table.ring_bonds[bonds[index.index([i, j])] - 1], place[i, j])
            else:
                found[i, j] = (table.pairs.get((size, distance), table.others), -1)
        return found

    @pytest.mark.parametrize("table", [RINGS, STRUCTURE, EdgeTable((1, 2, 3), (3, 2, 1), {(5, 2): 7, (4, 2): 5}, 4)])
    def test_every_edge_and_its_type(self, molecules: Molecules, table: EdgeTable) -> None:
        ringed = with_rings(molecules, table)
        for molecule in (0, 1, 7, 100, 5000, 11999, 1234, 4321):
            edges, (n0, n1) = ringed.looped, molecules.ptr[molecule : molecule + 2].tolist()
            e0, e1 = edges.ptr[molecule : molecule + 2].tolist()
            atom = torch.repeat_interleave(torch.arange(n1 - n0), edges.degree[n0:n1].long()).tolist()
            pairs = list(zip(atom, edges.neighbour[e0:e1].tolist(), strict=True))
            found = zip(edges.bond[e0:e1].tolist(), edges.position[e0:e1].tolist(), strict=True)
            assert pairs == sorted(pairs)
            assert dict(zip(pairs, found, strict=True)) == self.typed(molecules, molecule, table)
            assert [pairs[twin] for twin in edges.twin[e0:e1].tolist()] == [(j, i) for i, j in pairs]

    def test_types_of_zinc(self, molecules: Molecules) -> None:
        ringed = with_rings(molecules)
        assert RINGS.types == 10
        assert STRUCTURE.types == 7
        assert int(ringed.looped.bond.max()) == 9
        assert ringed.plain is molecules.plain
        count = torch.bincount(ringed.looped.bond.long())
        assert count[0] == molecules.atom.size(0)
        assert int(count[1:6].sum()) == molecules.plain.bond.size(0)
        structure = with_rings(molecules, STRUCTURE)
        of_rings = torch.tensor([0, 1, 1, 1, 2, 2, 3, 4, 5, 6])
        assert torch.equal(structure.looped.bond.long(), of_rings[ringed.looped.bond.long()])

    def test_batches(self, molecules: Molecules) -> None:
        ringed = with_rings(molecules)
        (batch,) = ringed.batches(torch.tensor([3, 0, 5]), 3)
        graph = Graph.from_edge_index(batch.graph.edge_index, batch.atom.size(0))
        assert torch.equal(graph.targets, batch.graph.targets)
        assert batch.bond.size(0) == batch.graph.num_edges > sum(molecules.data(m).num_edges for m in (3, 0, 5))

    def test_rings_are_cached(self, molecules: Molecules, monkeypatch: pytest.MonkeyPatch) -> None:
        first = with_rings(molecules).looped.bond
        monkeypatch.setattr(module, "find_rings", None)
        assert torch.equal(with_rings(molecules).looped.bond, first)
        with pytest.raises(TypeError):
            with_rings(replace(molecules, digest="another"))
