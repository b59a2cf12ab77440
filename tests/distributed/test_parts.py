"""Parts on disk: they hold the graph, belong together, and are refused where they do not."""

import json
import subprocess
from pathlib import Path

import pytest
import torch

from launching import torchrun
from mimogc import Graph
from mimogc.distributed import ORDERINGS, PartError, Partition, PartitionedGraph, cut, load_part, partition, save_parts
from mimogc.distributed.part import check_size, local_edges
from mimogc.nn import LMGConv, LMGCStack

NODES = 40


@pytest.fixture
def edges() -> torch.Tensor:
    return torch.randint(0, NODES, (2, 200))


def state_of(folder: Path, part: int) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(folder / f"part-{part}.pt", weights_only=True)
    return state


@pytest.mark.parametrize("order", ORDERINGS)
def test_the_parts_hold_the_graph(tmp_path: Path, edges: torch.Tensor, order: str) -> None:
    if order == "metis":
        pytest.importorskip("pymetis")
    attributes, x = torch.arange(200), torch.randn(NODES, 3)
    save_parts(tmp_path, edges, NODES, partition(edges, NODES, 3, order), {"x": x}, attributes)
    found, seen = {}, []
    for part in range(3):
        state = state_of(tmp_path, part)
        first = int(state["bounds"][part])
        own = state["original"].tolist()
        names = own + [None] * state["halo_nodes"].numel()
        for other in range(3):  # what halo nodes are called there
            of, begin = state_of(tmp_path, other)["original"], int(state["bounds"][other])
            for at, node in enumerate(state["halo_nodes"].tolist()):
                if begin <= node < begin + of.numel():
                    names[len(own) + at] = int(of[node - begin])
        for (j, i), number in zip(state["edges"].t().tolist(), state["edge_attr"].tolist(), strict=True):
            found[number] = (names[j], own[i])
        assert torch.equal(state["nodes"]["x"], x[state["original"]])
        assert first == len(seen)
        seen += own
    assert sorted(seen) == list(range(NODES))
    assert [found[number] for number in range(200)] == [tuple(edge) for edge in edges.t().tolist()]


def test_parts_have_like_work_and_a_small_cut() -> None:
    """A shuffled grid: the orderings find its neighbours again."""
    at = torch.arange(900).view(30, 30)
    one_way = torch.cat(
        [torch.stack([at[1:].flatten(), at[:-1].flatten()]), torch.stack([at.t()[1:], at.t()[:-1]]).flatten(1)], 1
    )
    shuffled = torch.randperm(900)[one_way]
    edges = torch.cat([shuffled, shuffled.flip(0)], dim=1)
    rows = {}
    for order in ("given", "near"):
        order_of, bounds = partition(edges, 900, 4, order)
        renumbered = Partition(order_of, bounds).renumbered(edges)
        counts = torch.bincount(torch.searchsorted(bounds, renumbered[1], right=True) - 1)
        assert float(counts.max() / counts.double().mean()) < 1.1
        rows[order] = int(cut(renumbered, bounds).sum())
    assert rows["near"] < rows["given"] / 8


def test_communities_are_found() -> None:
    label = torch.arange(2000) % 100
    src = torch.arange(2000).repeat(8)
    edges = torch.stack([src, (label[src] + 100 * torch.randint(0, 20, (len(src),))) % 2000])
    found = partition(edges, 2000, 4, "near")
    assert int(cut(found.renumbered(edges), found.bounds).sum()) < 200


def test_one_part_alone_is_the_graph(tmp_path: Path, edges: torch.Tensor) -> None:
    save_parts(tmp_path, edges, NODES, 1, {"x": (x := torch.randn(NODES, 5))})
    graph, nodes, original = load_part(tmp_path)
    layer = LMGConv(5, 5)
    whole = layer(x, Graph.from_edge_index(edges, NODES))
    torch.testing.assert_close(layer(nodes["x"], graph), whole[original])
    assert (graph.total_nodes, graph.total_edges) == (NODES, 200)


LOADING = """
import sys
from mimogc.distributed import PartError, group, load_part
with group():
    import torch.distributed
    rank = torch.distributed.get_rank()
    try:
        load_part(sys.argv[1 + rank])
    except PartError as error:
        print(f"rank {rank}: {error}\\n", end="", flush=True)  # in one piece
"""


def test_parts_of_two_cuts_are_refused_by_every_rank(tmp_path: Path, edges: torch.Tensor) -> None:
    """As when one machine has an older copy: each is a set of parts in itself."""
    for name, bounds in (("one", [0, 20, NODES]), ("two", [0, 21, NODES])):
        save_parts(tmp_path / name, edges, NODES, Partition(torch.arange(NODES), torch.tensor(bounds)))
    (tmp_path / "load.py").write_text(LOADING)
    folders = [str(tmp_path / name) for name in ("one", "two")]
    command = [*torchrun(2), str(tmp_path / "load.py"), *folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.partition(":")[0] for line in lines] == ["rank 0", "rank 1"]
    assert all("different graphs or cuts" in line for line in lines)


def test_what_belongs_to_nodes_is_told_from_the_edges(tmp_path: Path, edges: torch.Tensor) -> None:
    """Names such as edges, order and bounds are free for what belongs to the nodes."""
    nodes = {name: torch.arange(NODES) for name in ("edges", "order", "bounds", "edge_attr")}
    for number, given in enumerate((edges, edges.flip(0))):
        save_parts(
            tmp_path / str(number), given, NODES, Partition(torch.arange(NODES), torch.tensor([0, NODES])), nodes
        )
    one, two = (json.loads((tmp_path / name / "parts.json").read_text())["identity"] for name in ("0", "1"))
    assert one != two


def test_altered_missing_and_foreign_parts_are_refused(tmp_path: Path, edges: torch.Tensor) -> None:
    with pytest.raises(PartError, match=r"parts\.json: no such file"):
        load_part(tmp_path)
    save_parts(tmp_path, edges, NODES, 1)
    path, listed = tmp_path / "part-0.pt", tmp_path / "parts.json"
    good, text = path.read_bytes(), listed.read_text()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(PartError, match=r"part-0\.pt: expected SHA-256 .*copy it again"):
        load_part(tmp_path)
    path.unlink()
    with pytest.raises(PartError, match=r"part-0\.pt: no such file"):
        load_part(tmp_path)
    path.write_bytes(good)
    changed = json.loads(text) | {"identity": "0" * 64}
    listed.write_text(json.dumps(changed))
    with pytest.raises(PartError, match="expected part 0 of 00000000"):
        load_part(tmp_path)
    listed.write_text("{}")
    with pytest.raises(PartError, match="not a list of parts"):
        load_part(tmp_path)
    save_parts(tmp_path, edges, NODES, 2)
    with pytest.raises(PartError, match="got 2 parts and 1 ranks"):
        load_part(tmp_path)


def test_numbers_beyond_int32_are_those_of_all_parts_not_of_one() -> None:
    """Billions of nodes and edges in all: a part has its own small numbers, and is refused where these do not fit."""
    bounds = torch.tensor([0, 5_000_000_000, 5_000_000_010, 9_000_000_000])
    given = torch.tensor([[5_000_000_003, 8_999_999_999, 7, 8_999_999_999], [5_000_000_001] * 2 + [5_000_000_009] * 2])
    edges, halo = local_edges(given, bounds, 1)
    assert edges.dtype == torch.int32
    assert edges.tolist() == [[3, 11, 10, 11], [1, 1, 9, 9]]
    assert halo.tolist() == [7, 8_999_999_999]
    check_size(0, 10**9, 10**9, 2**31 - 1 - 10**9)
    with pytest.raises(ValueError, match=r"part 0: expected at most 2147483647 .*more parts"):
        check_size(0, 10**9, 10**9, 2**31 - 10**9)
    with pytest.raises(ValueError, match="part 2: expected at most"):
        check_size(2, 2**30, 2**30, 5)


def test_refusals(edges: torch.Tensor, tmp_path: Path) -> None:
    bounds = torch.tensor([0, NODES])
    with pytest.raises(IndexError, match="expected targets 0 to 9, the nodes of part 0"):
        local_edges(edges, torch.tensor([0, 10, NODES]), 0)
    with pytest.raises(ValueError, match="bounds: expected 2 ascending int64 for 1 ranks"):
        PartitionedGraph.from_edge_index(edges, torch.tensor([0, NODES, NODES]))
    graph = PartitionedGraph.from_edge_index(edges, bounds)
    with pytest.raises(ValueError, match="one part of a graph"):
        _ = graph.num_nodes
    with pytest.raises(ValueError, match="before it is cut"):
        graph.to_undirected()
    with pytest.raises(ValueError, match=r"x: expected|edge_index: expected"):
        LMGConv(4, 4)(torch.randn(NODES + 1, 4), graph)
    with pytest.raises(ValueError, match="part of one"):
        LMGCStack(4, 4, 2)(torch.randn(NODES, 4), graph)
    with pytest.raises(ValueError, match="parameters of its edges"):
        LMGConv(4, 4, coefficients="free")(torch.randn(NODES, 4), graph)
    with pytest.raises(ValueError, match="order: expected one of metis, near, given"):
        partition(edges, NODES, 2, "fine")
    with pytest.raises(ValueError, match="parts: expected a whole number"):
        partition(edges, NODES, 0)
    with pytest.raises(ValueError, match=r"nodes\['x'\]: expected one row per node"):
        save_parts(tmp_path, edges, NODES, 2, {"x": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"edge_attr: expected one row per edge \(200\), got \[3\]"):
        save_parts(tmp_path, edges, NODES, 2, edge_attr=torch.zeros(3))
    for wrong in ([0, 30, 20, NODES], [0, 20], [1, NODES], [NODES]):
        with pytest.raises(ValueError, match="parts: expected ascending int64 bounds from 0 to 40"):
            save_parts(tmp_path, edges, NODES, Partition(torch.arange(NODES), torch.tensor(wrong)))
    for cut_it in (lambda given, n: save_parts(tmp_path, given, n, 2), lambda given, n: partition(given, n, 2)):
        for outside in (-1, NODES):
            with pytest.raises(IndexError, match="edge_index: expected nodes 0 to 39, got"):
                cut_it(edges.index_fill(1, torch.tensor([0]), outside), NODES)
        with pytest.raises(ValueError, match="num_nodes: expected a whole number of at least 1, got 0"):
            cut_it(edges[:, :0], 0)
        with pytest.raises(ValueError, match=r"edge_index: expected \[2, E\]"):
            cut_it(edges[0], NODES)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="parts: expected an order of 40 nodes"):
        save_parts(tmp_path, edges, NODES, Partition(torch.zeros(NODES, dtype=torch.int64), bounds))


MISMATCHED = """
import torch
from mimogc.distributed import PartitionedGraph, group
with group():
    rank = torch.distributed.get_rank()
    graph = PartitionedGraph.from_edge_index(torch.tensor([[1 - rank], [rank]]), torch.tensor([0, 1, 2]))
    graph.gathered(torch.ones(1, 4))
    for x in (torch.ones(1, 4 + rank), torch.ones(1, 4, dtype=(torch.float32, torch.float64)[rank])):
        try:
            graph.gathered(x)
        except ValueError as error:
            print(f"rank {rank}: {error}\\n", end="", flush=True)  # in one piece
"""


def test_rows_that_are_not_alike_are_refused_by_every_rank(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(MISMATCHED)
    done = subprocess.run([*torchrun(2), str(tmp_path / "ranks.py")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = "x: expected rows of the same width and type on every rank, got rank 0: 4 of torch.float32, rank 1:"
    expected = [
        f"rank {rank}: {said} {other}" for rank in (0, 1) for other in ("4 of torch.float64", "5 of torch.float32")
    ]
    assert sorted(done.stdout.splitlines()) == expected
