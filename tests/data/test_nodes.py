"""Node datasets have the paper's statistics and PyG's tensors; any npz of the published form loads."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import Actor, HeterophilousGraphDataset, WebKB, WikipediaNetwork
from torch_geometric.utils import is_undirected

from mimogc.data import DataError, info, list_datasets, load, load_molecules, load_nodes, load_npz

# Nodes, edges, node features, classes: the paper's table of statistics.
PAPER = {
    "texas": (183, 325, 1703, 5),
    "cornell": (183, 298, 1703, 5),
    "wisconsin": (251, 515, 1703, 5),
    "film": (7600, 30019, 932, 5),
    "chameleon": (2277, 36101, 2325, 5),
    "squirrel": (5201, 217073, 2089, 5),
}


@pytest.mark.parametrize("name", [*PAPER, "minesweeper"])
def test_statistics_are_those_of_the_catalog(datasets: Path, name: str) -> None:
    data, entry = load_nodes(name), info(name)
    measured = data.num_nodes, data.edge_index.size(1), data.num_features, data.num_classes
    assert measured == (entry.nodes, entry.edges, entry.features, entry.classes)
    assert measured == PAPER.get(name, measured)
    assert data.num_splits == entry.splits == 10
    assert data.metric == entry.metric
    assert data.y.unique().tolist() == list(range(entry.classes))
    parts = data.train_mask.int() + data.val_mask.int() + data.test_mask.int()
    assert int(parts.max()) == 1, "train, val and test overlap"
    assert bool(data.train_mask.any(0).all() & data.val_mask.any(0).all() & data.test_mask.any(0).all())


@pytest.mark.parametrize("name", ["texas", "film", "chameleon", "minesweeper"])
def test_tensors_equal_pygs(datasets: Path, mirror: Path, tmp_path: Path, name: str) -> None:
    for file in info(name).files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(mirror / file, tmp_path / file)
    theirs = {
        "texas": lambda: WebKB(str(tmp_path / "webkb"), "texas"),
        "film": lambda: Actor(str(tmp_path / "actor")),
        "chameleon": lambda: WikipediaNetwork(str(tmp_path / "wikipedia"), "chameleon", geom_gcn_preprocess=True),
        "minesweeper": lambda: HeterophilousGraphDataset(str(tmp_path / "heterophilous"), "Minesweeper"),
    }[name]()[0]
    for ours in (load_nodes(name).data(), load_nodes(name).data()):  # as first made, and as kept
        for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
            assert ours[key].dtype == theirs[key].dtype, key
            assert torch.equal(ours[key], theirs[key]), key


def test_graph_directed_or_undirected(datasets: Path) -> None:
    data = load_nodes("texas")
    assert data.graph().num_edges == 325
    assert not data.graph().is_undirected
    assert data.graph(undirected=True).is_undirected


def npz(path: Path, **changes: object) -> Path:
    arrays = {
        "node_features": np.eye(4, 3, dtype=np.float64),
        "node_labels": np.array([0, 1, 1, 0]),
        "edges": np.array([[0, 1], [1, 2], [3, 2]]),
        "train_masks": np.array([[True, False, False, False]] * 2),
        "val_masks": np.array([[False, True, False, False]] * 2),
        "test_masks": np.array([[False, False, True, True]] * 2),
        **changes,
    }
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


def test_any_npz_of_that_form(tmp_path: Path) -> None:
    data = load_nodes(f"npz:{npz(tmp_path / 'mine.npz')}")
    assert is_undirected(data.edge_index, num_nodes=4)
    assert data.edge_index.size(1) == 6
    assert data.x.dtype == torch.float32
    assert data.metric == "roc_auc"
    assert data.train_mask.shape == (4, 2)
    three = load_nodes(f"npz:{npz(tmp_path / 'three.npz', node_labels=np.array([0, 1, 2, 0]))}")
    assert three.metric == "accuracy"
    assert load(f"npz:{tmp_path / 'mine.npz'}").y.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": None}, "missing: edges"),
        ({"edges": np.array([[0, 4]])}, "expected nodes 0 to 3, got 0 to 4"),
        ({"node_features": np.ones((4, 0))}, r"node_features of shape \[4, F\], F at least 1, got \[4, 0\]"),
        ({"edges": np.array([[0, 1, 2]])}, r"edges of shape \[E, 2\], got \[1, 3\]"),
        ({"val_masks": np.ones((2, 3), bool)}, r"val_masks of shape \[2, 4\] like train_masks, got \[2, 3\]"),
        ({"train_masks": np.ones((2, 3), bool)}, r"train_masks of shape \[S, 4\], got \[2, 3\]"),
        ({"train_masks": np.array(True)}, r"train_masks of shape \[S, 4\], got \[\]"),
        ({"test_masks": np.eye(4, dtype=bool)[:1]}, r"test_masks of shape \[2, 4\] like train_masks, got \[1, 4\]"),
        ({"node_labels": np.array([0, -2, 1, 0])}, "classes from 0, or -1 for a node without a label, got -2"),
        ({"node_labels": np.array([0, -1, 1, 0])}, "class for every node in a mask, got -1 for 1 of them, .* node 1;"),
        ({"node_labels": np.zeros(4, int)}, "node_labels: expected at least two classes, got 0"),
        (
            {"node_labels": np.array([0, "x"], dtype=object)},
            "node_labels: .* got Python objects; .*return_inverse=True",
        ),
        ({"node_features": np.array([[None]])}, "node_features: expected numbers, got Python objects$"),
        ({"node_features": np.array([[0.0], [1], [np.inf], [np.nan]])}, r"got inf at \[2, 0\], and 2 such numbers"),
        (
            {"train_masks": None, "test_masks": None},
            "missing: train_masks, test_masks; random masks of N nodes: part = ",
        ),
        ({"train_masks": np.zeros((2, 4), bool)}, "split 0: expected nodes in every mask, got none in train_masks"),
        ({"test_masks": np.array([[0, 0, 1, 1], [0, 0, 0, 0]])}, "split 1: .*, got none in test_masks"),
        ({"train_masks": np.ones((2, 4), bool)}, "split 0: 1 nodes are in train and val; expected masks that share no"),
        ({"train_masks": np.array([[1, 0, 0, 0], [1, 0, 1, 1]])}, "split 1: 2 nodes are in train and test"),
        ({f"{part}_masks": np.zeros((0, 4), bool) for part in ("train", "val", "test")}, r"one split, got \[0, 4\]"),
    ],
)
def test_wrong_npz_says_what_is_wrong(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_npz(npz(tmp_path / "wrong.npz", **changes))


def test_one_split_and_nodes_without_a_label(tmp_path: Path) -> None:
    changes = {"train_masks": np.array([True, False, False, False]), "val_masks": np.array([[0, 1, 0, 0]])}
    changes |= {"test_masks": np.array([0, 0, 1, 0]), "node_labels": np.array([0, 1, 1, -1])}
    data = load_npz(npz(tmp_path / "mine.npz", **changes))
    assert (data.num_splits, data.num_classes, data.metric) == (1, 2, "roc_auc")
    assert data.train_mask.tolist() == [[True], [False], [False], [False]]
    assert data.y.tolist() == [0, 1, 1, -1]


def test_one_array_of_np_save(tmp_path: Path) -> None:
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(DataError, match=r"one\.npz: expected np\.savez with the arrays .*, got one array \(np\.save\)"):
        load_npz(tmp_path / "one.npz")


def test_the_recipe_for_random_masks_makes_masks(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_npz(npz(tmp_path / "mine.npz", train_masks=None))
    recipe, masks = str(error.value).partition("random masks of N nodes: ")[2].split(", then ")
    names = {"np": np, "N": 40}
    exec(recipe, names)
    made = eval(f"dict({masks})", names)
    features = {"node_features": np.ones((40, 1)), "node_labels": np.arange(40) % 2}
    assert load_npz(npz(tmp_path / "mine.npz", **made, **features)).num_splits == 10


def test_truncated_or_absent_npz(tmp_path: Path) -> None:
    path = npz(tmp_path / "short.npz")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"short\.npz: not a readable npz file.*; it may be truncated$"):
        load_npz(path)
    with pytest.raises(DataError, match=r"expected an npz file with .*, got a folder"):
        load_npz(tmp_path)
    with pytest.raises(DataError, match=r"absent\.npz: no such file"):
        load_nodes(f"npz:{tmp_path / 'absent.npz'}")


def test_filtered_wikipedia_graphs_are_npz_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mirror"
    (file,) = info("chameleon-filtered").files
    (folder / file).parent.mkdir(parents=True)
    npz(folder / file, node_labels=np.array([0, 1, 2, 0]), train_masks=np.ones((2, 4), bool))  # taken as published
    monkeypatch.setenv("MIMOGC_MIRROR", str(folder))
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    data = load_nodes("chameleon-filtered")
    assert data.name == "chameleon-filtered"
    assert data.edge_index.size(1) == 6


def test_wrong_names() -> None:
    with pytest.raises(ValueError, match=r"dataset: expected npz:PATH or one of texas.*got 'texsa'"):
        load_nodes("texsa")
    with pytest.raises(ValueError, match="set of molecules"):
        load_nodes("zinc12k")
    with pytest.raises(ValueError, match="expected zinc12k or zinc, got 'texas'"):
        load_molecules("texas")


def test_every_entry_is_complete() -> None:
    for entry in list_datasets():
        assert entry.licence
        assert entry.citation
        assert entry.files
        assert entry.metric == ("mae" if entry.graphs > 1 else "roc_auc" if entry.classes == 2 else "accuracy")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("node_labels", np.array([0, 0.7, 1]), "node_labels: expected whole numbers, got 0.7"),
        (
            "node_labels",
            np.array(["a", "b", "c"]),
            "node_labels: expected whole numbers, got type <U1; .*return_inverse=True",
        ),
        ("node_labels", np.array([0, 2, 2]), "node_labels: expected classes 0, 1, … without gaps, got 0, 2"),
        ("edges", np.array([[0.5, 1.0]]), "edges: expected whole numbers, got 0.5"),
        ("node_features", np.array([[np.nan]] * 3), "node_features: expected finite numbers, got nan"),
        ("train_masks", np.array([[0, 1, 2]]), r"train_masks: expected yes or no \(bool\), got 2"),
    ],
)
def test_numbers_that_would_be_cut_off_are_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    masks = {f"{part}_masks": np.eye(3, dtype=bool)[[row]] for row, part in enumerate(("train", "val", "test"))}
    arrays = {"node_features": np.eye(3), "node_labels": np.arange(3), "edges": np.array([[0, 1], [1, 2]]), **masks}
    np.savez(tmp_path / "mine.npz", **arrays)
    sizes = "3 nodes, 4 edges, 3 features, 3 classes, 1 splits, accuracy"
    assert repr(load_npz(tmp_path / "mine.npz", "mine")) == f"NodeDataset(mine: {sizes})"
    np.savez(tmp_path / "mine.npz", **{**arrays, key: value})
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path / "mine.npz")
