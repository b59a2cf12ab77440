"""The arena equals PyG's ZINC, its batches equal freshly sorted graphs, its encodings their definition."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.datasets import ZINC

from mimogc import Graph
from mimogc.data import DataError, Molecules, laplacian_encoding, load, load_molecules, random_walk_encoding, verify
from mimogc.data.packing import pack_pickles

GRAPH_ARRAYS = ("rowptr", "sources", "position", "colptr", "targets", "slot")


@pytest.fixture(scope="session")
def pyg_root(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The raw layout of PyG's ZINC, expanded from the packed arrays by the mirror's own script."""
    root = tmp_path_factory.mktemp("zinc")
    subprocess.run([sys.executable, mirror / "make_zinc.py", root], check=True, capture_output=True)
    return root


@pytest.fixture
def molecules(datasets: Path) -> Molecules:
    return load_molecules("zinc12k")


def test_every_molecule_equals_pygs(molecules: Molecules, pyg_root: Path) -> None:
    for split in ("train", "val", "test"):
        theirs, ours = ZINC(str(pyg_root), subset=True, split=split), molecules.data_list(split)
        assert len(theirs) == len(ours)
        for a, b in zip(theirs, ours, strict=True):
            for key in ("x", "edge_index", "edge_attr", "y"):
                assert a[key].dtype == b[key].dtype, key
                assert torch.equal(a[key], b[key]), key


def test_statistics(molecules: Molecules) -> None:
    assert molecules.sizes == (10000, 1000, 1000)
    assert len(molecules) == 12000
    assert molecules.atom.size(0) / 12000 == pytest.approx(23.16, abs=0.005)
    assert molecules.plain.bond.size(0) / 12000 == pytest.approx(49.83, abs=0.005)
    assert molecules.data(0).num_nodes == 29
    assert molecules.y[0].item() == pytest.approx(0.8350356)
    assert int(molecules.atom.max()) < 28


def test_full_zinc(datasets: Path) -> None:
    molecules = load("zinc")
    assert isinstance(molecules, Molecules)
    assert molecules.sizes == (220011, 24445, 5000)
    assert round(molecules.atom.size(0) / len(molecules), 1) == 23.2
    assert round(molecules.plain.bond.size(0) / len(molecules), 1) == 49.8
    assert set(molecules.atom.unique().tolist()) == set(range(28))
    first = [float(molecules.y[molecules.split(split)[0]]) for split in ("train", "val", "test")]
    assert first == pytest.approx([3.0464, 2.0992, 3.1382], abs=5e-5)
    order = torch.tensor([0, 219999, 249455, 17])
    _assert_batch_equal(molecules, order, 4, True)


@pytest.mark.parametrize("add_self_loops", [False, True])
def test_batches_equal_sorted_graphs(molecules: Molecules, add_self_loops: bool) -> None:
    order = torch.randperm(10000, generator=torch.Generator().manual_seed(0))
    _assert_batch_equal(molecules, order[:2100], 32, add_self_loops)  # more than one chunk, last batch short
    _assert_batch_equal(molecules, molecules.split("test"), 1000, add_self_loops)


def _assert_batch_equal(molecules: Molecules, order: torch.Tensor, size: int, add_self_loops: bool) -> None:
    batches = list(molecules.batches(order, size, add_self_loops))
    assert sum(batch.num_graphs for batch in batches) == order.size(0)
    for batch, part in zip(batches, order.split(size), strict=True):
        theirs = Batch.from_data_list([molecules.data(int(i)) for i in part])
        expected = Graph.from_edge_index(theirs.edge_index, theirs.num_nodes, add_self_loops=add_self_loops)
        for name in GRAPH_ARRAYS:
            ours, reference = getattr(batch.graph, name), getattr(expected, name)
            assert ours.dtype == reference.dtype, name
            assert torch.equal(ours, reference), name
        assert batch.graph.num_nodes == theirs.num_nodes
        assert batch.graph.looped is add_self_loops
        assert torch.equal(batch.atom, theirs.x.flatten())
        assert torch.equal(batch.ptr, theirs.ptr)
        assert torch.equal(batch.owner, theirs.batch)
        assert torch.equal(batch.y, theirs.y)
        perm = expected.perm
        bond = torch.where(perm < 0, 0, theirs.edge_attr[perm.clamp(min=0)])
        assert torch.equal(batch.bond, bond)


def test_pickles_give_the_same_arena(
    molecules: Molecules, pyg_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no packed file, PyG's own raw files are read, tensors only."""
    (tmp_path / "mirror" / "ZINC").mkdir(parents=True)
    (tmp_path / "mirror" / "ZINC" / "raw").symlink_to(pyg_root / "raw")
    monkeypatch.setenv("MIMOGC_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    assert {(row.found, row.state) for row in verify(["zinc12k"])} == {("mirror", "unknown hash")}
    other = load_molecules("zinc12k")
    assert other.sizes == molecules.sizes
    assert torch.equal(other.atom, molecules.atom)
    assert torch.equal(other.y, molecules.y)
    for name, value in vars(molecules.looped).items():
        assert torch.equal(getattr(other.looped, name), value), name


class _Harmful:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path("harm").touch, ())


def test_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.pickle").write_bytes(pickle.dumps([_Harmful()]))
    with pytest.raises(DataError, match="has no place in a file of molecules"):
        pack_pickles(tmp_path, subset=False)
    assert not (tmp_path / "harm").exists()


def test_laplacian_encoding_is_its_definition(molecules: Molecules) -> None:
    encoding = laplacian_encoding(molecules)
    assert encoding.molecule is not None
    sizes = molecules.ptr.diff()
    smallest = int(sizes.argmin())
    assert int(sizes[smallest]) <= 9, "no padded molecule among those tested"
    for molecule in (0, 1, 11999, smallest):
        data = molecules.data(molecule)
        n = data.num_nodes
        laplacian = torch.zeros(n, n, dtype=torch.float64)
        laplacian[data.edge_index[0], data.edge_index[1]] = -1
        laplacian -= laplacian.sum(1).diag()
        kept = min(8, n - 1)
        vectors = encoding.atom[molecules.ptr[molecule] : molecules.ptr[molecule + 1]].double()
        values = encoding.molecule[molecule].double()
        expected = torch.linalg.eigvalsh(laplacian)[1 : kept + 1]
        torch.testing.assert_close(values[:kept], expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(laplacian @ vectors, vectors * values, atol=1e-5, rtol=0)
        gram = torch.eye(8, dtype=torch.float64)
        gram[kept:] = 0
        torch.testing.assert_close(vectors.T @ vectors, gram, atol=1e-5, rtol=0)
        assert not values[kept:].any()
    assert bool((encoding.molecule[sizes >= 9] > 1e-4).all()), "a zero eigenvalue that is not padding"


def test_random_walk_encoding_is_its_definition(molecules: Molecules) -> None:
    encoding = random_walk_encoding(molecules, k=5)
    for molecule in (0, 6000, 11999):
        data = molecules.data(molecule)
        adjacency = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
        adjacency[data.edge_index[0], data.edge_index[1]] = 1
        step = adjacency / adjacency.sum(1, keepdim=True)
        powers = [torch.linalg.matrix_power(step, s).diagonal() for s in range(1, 6)]
        rows = encoding.atom[molecules.ptr[molecule] : molecules.ptr[molecule + 1]].double()
        torch.testing.assert_close(rows, torch.stack(powers, 1), atol=1e-6, rtol=1e-5)


def test_encodings_are_cached_and_travel_with_batches(molecules: Molecules, datasets: Path) -> None:
    encoding = laplacian_encoding(molecules)
    (kept,) = (datasets / "processed").glob("zinc12k-laplacian8-*.npz")
    before = kept.stat().st_mtime_ns
    again = laplacian_encoding(molecules)
    assert kept.stat().st_mtime_ns == before
    assert torch.equal(again.atom, encoding.atom)
    assert again.molecule is not None
    batch = next(molecules.batches(torch.tensor([7, 3]), 2, encoding=encoding))
    assert batch.encoding is not None
    first = int(molecules.ptr[8] - molecules.ptr[7])
    assert torch.equal(batch.encoding[:first, :, 0], encoding.atom[molecules.ptr[7] : molecules.ptr[8]])
    assert torch.equal(batch.encoding[first, :, 1], again.molecule[3])


def test_wrong_arguments(molecules: Molecules) -> None:
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        next(molecules.batches(torch.arange(3), 0))
    with pytest.raises(ValueError, match="split: expected one of train, val, test, got 'valid'"):
        molecules.split("valid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k: expected at least 1, got 0"):
        laplacian_encoding(molecules, k=0)
