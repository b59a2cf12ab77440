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
    with pytest.raises(DataError, match="edge: expected nodes 0 to 4, got 0 to 5"):
        load_nodes("ogbn-products")
    (folder / "raw" / "edge.csv.gz").unlink()
    with pytest.raises(DataError, match=r"edge\.csv\.gz is missing"):
        load_nodes("ogbn-products")
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "empty"))
    with pytest.raises(DataError, match=r"products\.zip .*NodePropPredDataset"):
        load_nodes("ogbn-products")


def _text(path: Path, text: bytes) -> None:
    with gzip.open(path, "wb") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("edge", b"0,1\n1,2\n3,0\n4,four\n", "no number|unmatched"),
        ("edge", b"0,1\n1,2\n3,0\n4,4\nend", "no number|unmatched"),
        ("edge", b"0,1,2\n1\n3,0,1\n4\n0", "numbers in . lines"),
        ("edge", b"0 1\n1 2\n3 0\n4 4\n", "no number|unmatched|numbers in 4 lines"),
        ("edge", b"0,1\n1,2\n3,0\n4,1.5\n", "whole"),
        ("edge", b"0,1\n1,2\n3,0\n4,4294967297\n", "whole"),  # 1 in 32 bits
        ("edge", b"0,1\n1,2\n3,0\n4,-1\n", "got -1 to 4"),
        ("edge", b"\xff\xfe0,1\n", "cannot be read"),
        ("edge", b"", "cannot be read"),
        ("node-feat", b"0,1\n1,2\n3,nan\n4,4\n1,1\n", "not finite"),
        ("node-feat", b"0,1\n1,2\n3,1e999\n4,4\n1,1\n", "not finite"),
        ("node-label", b"0\n1\n-3\n1\n1\n", "expected labels 0 to 46, got -3 to 1"),
        ("node-label", b"0\n1\n47\n1\n1\n", "expected labels 0 to 46, got 0 to 47"),
    ],
)
def test_text_that_is_not_what_it_should_be_is_refused(folder: Path, key: str, text: bytes, said: str) -> None:
    _text(folder / "raw" / f"{key}.csv.gz", text)
    with pytest.raises(DataError, match=said):
        load_nodes("ogbn-products")


def test_lines_may_end_as_on_windows(folder: Path) -> None:
    _text(folder / "raw" / "edge.csv.gz", b"0,1\r\n1,2\r\n3,0\r\n4,4\r\n")
    assert load_nodes("ogbn-products").edge_index[:, :4].t().tolist() == [list(edge) for edge in EDGES]


def test_damaged_archives_are_refused(folder: Path) -> None:
    path = folder / "raw" / "edge.csv.gz"
    write(path, [[n % 5, 3 * n % 5] for n in range(500)])
    good = path.read_bytes()
    damaged = [good[:-20], good[:5], b"no archive", good[:30] + bytes(20) + good[50:]]
    damaged += [good[:at] + bytes([good[at] ^ 255]) + good[at + 1 :] for at in range(24, len(good), 7)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"ogbn|edge\.csv\.gz"):
            load_nodes("ogbn-products")
