"""Datasets of the Open Graph Benchmark, on a small folder of the same layout."""

import gzip
from pathlib import Path

import pytest
import torch

from mimogc.data import DataError, load_nodes, ogb

EDGES = [(0, 1), (1, 2), (3, 0), (4, 4)]
FEATURES = [[0.5, -1.25], [3e-05, 2.0], [0.0, 1.0], [7.5, 8.0], [1.0, 1.0]]
LABELS = [2, 0, 1, 2, 0]
SPLIT = {"train": [0, 3], "valid": [1], "test": [4, 2]}


def write(path: Path, rows: list[list[float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a products of five nodes."""
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    for name in ogb.SOURCES:
        small = ogb.SOURCES[name]._replace(nodes=5, edges=4, features=2)
        monkeypatch.setitem(ogb.SOURCES, name, small)
        at = tmp_path / "ogb" / name.replace("-", "_")
        write(at / "raw" / "edge.csv.gz", [list(edge) for edge in EDGES])
        write(at / "raw" / "node-feat.csv.gz", FEATURES)
        write(at / "raw" / "node-label.csv.gz", [[label] for label in LABELS])
        for key, nodes in SPLIT.items():
            write(at / "split" / small.split / f"{key}.csv.gz", [[node] for node in nodes])
    return tmp_path / "ogb" / "ogbn_products"


def test_products_is_undirected_and_arxiv_is_not(folder: Path) -> None:
    one_way = torch.tensor(EDGES).t()
    assert torch.equal(load_nodes("ogbn-arxiv").edge_index, one_way)
    data = load_nodes("ogbn-products")
    assert torch.equal(data.edge_index, torch.cat([one_way, one_way.flip(0)], dim=1))
    assert torch.equal(data.x, torch.tensor(FEATURES))
    assert data.y.tolist() == LABELS
    assert (data.metric, data.num_classes, data.num_splits) == ("accuracy", 3, 1)
    for mask, nodes in zip((data.train_mask, data.val_mask, data.test_mask), SPLIT.values(), strict=True):
        assert mask[:, 0].nonzero().flatten().tolist() == sorted(nodes)


def test_text_is_read_in_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ogb, "_BLOCK", 7)
    assert torch.equal(load_nodes("ogbn-products").x, torch.tensor(FEATURES))


def test_what_was_read_is_kept_until_a_file_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_nodes("ogbn-products")
    with monkeypatch.context() as patched:
        patched.setattr(ogb, "_numbers", None)
        assert torch.equal(load_nodes("ogbn-products").x, before.x)
    write(folder / "raw" / "node-label.csv.gz", [[1]] * 5)
    assert load_nodes("ogbn-products").y.tolist() == [1] * 5


def test_missing_and_wrong_files_are_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "split" / "sales_ranking" / "test.csv.gz", [[4], [0]])
    with pytest.raises(DataError, match="without a node in two of them"):
        load_nodes("ogbn-products")
    write(folder / "raw" / "edge.csv.gz", [[0, 1]])
    with pytest.raises(DataError, match="truncated or of another version"):
        load_nodes("ogbn-products")
    write(folder / "raw" / "edge.csv.gz", [[0, 5], *EDGES[:3]])
    with pytest.raises(DataError, match="edge: expected nodes 0 to 4, got 5"):
        load_nodes("ogbn-products")
    (folder / "raw" / "edge.csv.gz").unlink()
    with pytest.raises(DataError, match=r"edge\.csv\.gz is missing"):
        load_nodes("ogbn-products")
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "empty"))
    with pytest.raises(DataError, match=r"products\.zip .*NodePropPredDataset"):
        load_nodes("ogbn-products")
