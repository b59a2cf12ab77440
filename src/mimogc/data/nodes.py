"""Node-classification datasets: PyG's own classes on verified raw files, and plain npz files."""

import zipfile
import zlib
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset, download_url
from torch_geometric.datasets import Actor, HeterophilousGraphDataset, WebKB, WikipediaNetwork
from torch_geometric.utils import to_undirected

from mimogc.data.catalog import Family, Metric
from mimogc.data.sources import Array, DataError, cache_root, derived, scratch_folder
from mimogc.graph import Graph

FILTERED_URL = f"{HeterophilousGraphDataset.url}/{{}}.npz"
_TENSORS = ("edge_index", "y", "train_mask", "val_mask", "test_mask")
_MASKS = ("train_masks", "val_masks", "test_masks")
_ARRAYS = ("node_features", "node_labels", "edges", *_MASKS)
_EXPECTED = {"node_features": "numbers", "node_labels": "whole numbers", "edges": "whole numbers"}
_EXPECTED |= dict.fromkeys(_MASKS, "yes or no (bool)")
_RANDOM_MASKS = (
    "part = np.random.default_rng(0).choice(3, size=(10, N), p=(0.5, 0.25, 0.25)), then train_masks=part == 0, "
    "val_masks=part == 1, test_masks=part == 2"
)


@dataclass(frozen=True, eq=False, repr=False)
class NodeDataset:
    """One graph whose nodes are to be classified, with its splits."""

    name: str
    x: Tensor  #: [N, F] float32
    edge_index: Tensor  #: [2, E] int64, as PyG's dataset class gives it
    y: Tensor  #: [N] int64
    train_mask: Tensor  #: [N, S] bool, one column per split
    val_mask: Tensor  #: [N, S] bool
    test_mask: Tensor  #: [N, S] bool
    metric: Metric
    unknown: int | None = None  #: the feature that says that nothing else is known of a node

    def __repr__(self) -> str:
        sizes = f"{self.num_nodes:,} nodes, {self.edge_index.size(1):,} edges, {self.num_features:,} features"
        return f"NodeDataset({self.name}: {sizes}, {self.num_classes} classes, {self.num_splits} splits, {self.metric})"

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_features(self) -> int:
        return self.x.size(1)

    @property
    def num_splits(self) -> int:
        return self.train_mask.size(1)

    @cached_property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1

    def graph(self, undirected: bool = False) -> Graph:
        """The graph as it was published, or with every edge in both directions."""
        edge_index = to_undirected(self.edge_index, num_nodes=self.num_nodes) if undirected else self.edge_index
        return Graph.from_edge_index(edge_index, self.num_nodes)

    def data(self) -> Data:
        """The PyG object."""
        return Data(**{key: getattr(self, key) for key in ("x", *_TENSORS)})


# Makes PyG's classes get their raw files and parse none of them.
UNPARSED: dict[str, Any] = {"process": lambda self: None, "load": lambda self, path: None}


def download(family: Family, name: str, root: Path) -> None:
    """Download the raw files as PyG does."""
    if family == "npz":
        download_url(FILTERED_URL.format(name), str(root / "heterophilous" / name / "raw"), log=False)
    else:
        _pyg_dataset(family, name, root, UNPARSED)


def _pyg_dataset(family: Family, name: str, root: Path, overrides: dict[str, Any]) -> InMemoryDataset:
    """PyG's dataset on the raw files below `root`, which is laid out like the mirror."""
    classes: dict[str, tuple[type[InMemoryDataset], dict[str, Any]]] = {
        "webkb": (WebKB, {"name": name}),
        "actor": (Actor, {}),
        "wikipedia": (WikipediaNetwork, {"name": name, "geom_gcn_preprocess": True}),
        "heterophilous": (HeterophilousGraphDataset, {"name": name}),
    }
    base, arguments = classes[family]
    with redirect_stderr(StringIO()):  # PyG's "Processing... Done!"
        return type(base.__name__, (base,), overrides)(root=str(root / family), **arguments)


def load_verified(name: str, family: Family, raw_name: str, files: tuple[str, ...], digest: str) -> NodeDataset:
    """The dataset from verified raw files in the cache; what PyG makes of them is kept as plain arrays."""
    if family == "npz":  # published splits are taken as they are
        return _from_npz(cache_root() / files[0], _read_npz(cache_root() / files[0]), name)

    def arrays() -> dict[str, Array]:
        with scratch_folder() as folder:
            for file in files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).symlink_to(cache_root() / file)
            return _to_arrays(_pyg_dataset(family, raw_name, folder, {})[0])

    return _from_arrays(name, derived(f"{name}-{digest[:16]}", arrays))


def _to_arrays(data: Data) -> dict[str, Array]:
    """Plain arrays, the features as their non-zero entries."""
    place = data.x.nonzero()
    return {
        "shape": np.array(data.x.shape),
        "place": place.numpy().astype(np.int32),
        "value": data.x[place[:, 0], place[:, 1]].numpy(),
        **{key: data[key].numpy() for key in _TENSORS},
    }


def _from_arrays(name: str, arrays: dict[str, Array]) -> NodeDataset:
    x = torch.zeros(*(int(size) for size in arrays["shape"]))
    row, column = torch.from_numpy(arrays["place"]).long().t()
    x[row, column] = torch.from_numpy(arrays["value"])
    return _node_dataset(name, x=x, **{key: torch.from_numpy(arrays[key]) for key in _TENSORS})


def _node_dataset(name: str, y: Tensor, **tensors: Any) -> NodeDataset:
    return NodeDataset(name=name, y=y, metric="roc_auc" if int(y.max()) == 1 else "accuracy", **tensors)


def load_npz(path: Path | str, name: str | None = None) -> NodeDataset:
    """A dataset from one npz file of your own.

    Args:
        path: of the file, with the arrays node_features [N, F], node_labels [N] with classes 0, 1, … (−1 for a node
            without a label, which is in no mask), edges [E, 2] with nodes 0 to N − 1, and train_masks, val_masks and
            test_masks [S, N], a row for each split ([N] for one split), which share no node. Every edge is used in both
            directions, and an edge that is there twice once. With two classes the metric is ROC-AUC, with more it is
            accuracy.
        name: of the dataset; by default ``npz:PATH``.
    """
    path = Path(path).expanduser()
    arrays = _read_npz(path)
    data = _from_npz(path, arrays, name or f"npz:{path}")
    _check_splits(path, arrays)
    return data


def _read_npz(path: Path) -> dict[str, Array]:
    """The arrays of the file, each a plain one; a mask of one split as a row."""
    names = ", ".join(_ARRAYS)
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise DataError(f"{path}: expected np.savez with the arrays {names}, got one array (np.save)")
        with file:
            missing = [key for key in _ARRAYS if key not in file.files]
            if missing:
                advice = f"; random masks of N nodes: {_RANDOM_MASKS}" if missing[-1] in _MASKS else ""
                raise DataError(f"{path}: expected the arrays {names}; missing: {', '.join(missing)}{advice}")
            arrays = {key: _plain(path, key, file) for key in _ARRAYS}
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; npz:PATH names an npz file with {names}") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: expected an npz file with {names}, got a folder") from error
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, AttributeError) as error:
        reason = "it was not written by np.savez" if "pickle" in str(error) else str(error)
        raise DataError(f"{path}: not a readable npz file ({reason}); it may be truncated") from error
    return {key: array[None] if key in _MASKS and array.ndim == 1 else array for key, array in arrays.items()}


def _plain(path: Path, key: str, file: "np.lib.npyio.NpzFile") -> Array:
    try:
        return np.asarray(file[key])
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
        raise DataError(f"{path}: {key}: expected {_EXPECTED[key]}, got Python objects{_advice(key)}") from error


def _from_npz(path: Path, arrays: dict[str, Array], name: str) -> NodeDataset:
    _check_numbers(path, arrays)
    _check_shapes(path, arrays)
    x = torch.from_numpy(arrays["node_features"]).float()
    edges = torch.from_numpy(arrays["edges"]).long().t().contiguous()
    edges = to_undirected(edges, num_nodes=x.size(0))
    labels = torch.from_numpy(arrays["node_labels"]).long()
    masks = {key.removesuffix("s"): torch.from_numpy(arrays[key]).bool().t().contiguous() for key in _MASKS}
    return _node_dataset(name, x=x, y=labels, edge_index=edges, **masks)


def _advice(key: str) -> str:
    return "; names, labels = np.unique(labels, return_inverse=True) numbers them" if key == "node_labels" else ""


def _check_numbers(path: Path, arrays: dict[str, Array]) -> None:
    """Refuse what would be cut off or misread when it becomes a tensor."""
    for key, array in arrays.items():
        expected = _EXPECTED[key]
        if array.dtype.kind not in "biuf":
            raise DataError(f"{path}: {key}: expected {expected}, got type {array.dtype}{_advice(key)}")
        if array.dtype.kind == "f" and "whole" in expected and (odd := array[array != np.floor(array)]).size:
            raise DataError(f"{path}: {key}: expected {expected}, got {odd.flat[0]:g}")
        if key in _MASKS and array.dtype != bool and (odd := array[(array != 0) & (array != 1)]).size:
            raise DataError(f"{path}: {key}: expected {expected}, got {odd.flat[0]:g}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            places = np.argwhere(~np.isfinite(array))
            got = f"{array[tuple(places[0])]} at {places[0].tolist()}, and {len(places)} such numbers in all"
            raise DataError(f"{path}: {key}: expected finite {expected}, got {got}")


def _check_shapes(path: Path, arrays: dict[str, Array]) -> None:
    features, labels, edges = (arrays[key] for key in _ARRAYS[:3])
    n = labels.shape[0] if labels.ndim == 1 else -1
    splits = arrays["train_masks"].shape[0] if arrays["train_masks"].ndim else 0
    shapes = [
        ("node_labels", "[N]", n > 0),
        (
            "node_features",
            f"[{n}, F], F at least 1",
            features.ndim == 2 and features.shape[0] == n and features.shape[1] > 0,
        ),
        ("edges", "[E, 2]", edges.ndim == 2 and edges.shape[1] == 2),
        ("train_masks", f"[S, {n}]", arrays["train_masks"].ndim == 2 and arrays["train_masks"].shape[1] == n),
        *((key, f"[{splits}, {n}] like train_masks", arrays[key].shape == (splits, n)) for key in _MASKS[1:]),
    ]
    for key, expected, fits in shapes:
        if not fits:
            raise DataError(f"{path}: expected {key} of shape {expected}, got {list(arrays[key].shape)}")
    if edges.size and not (int(edges.min()) >= 0 and int(edges.max()) < n):
        raise DataError(f"{path}: edges: expected nodes 0 to {n - 1}, got {int(edges.min())} to {int(edges.max())}")
    if int(labels.min()) < -1:
        raise DataError(
            f"{path}: node_labels: expected classes from 0, or -1 for a node without a label, got {int(labels.min())}"
        )
    classes = [label for label in np.unique(labels).astype(np.int64).tolist() if label >= 0]
    got = ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")
    if len(classes) < 2:
        raise DataError(f"{path}: node_labels: expected at least two classes, got {got or 'none'}")
    if classes[-1] != len(classes) - 1:
        raise DataError(f"{path}: node_labels: expected classes 0, 1, … without gaps, got {got}")


def _check_splits(path: Path, arrays: dict[str, Array]) -> None:
    """Refuse splits that would train or score nothing, or score what was trained on."""
    masks = {key.removesuffix("_masks"): arrays[key].astype(bool) for key in _MASKS}
    if not len(masks["train"]):
        raise DataError(f"{path}: train_masks: expected at least one split, got {list(masks['train'].shape)}")
    for split in range(len(masks["train"])):
        rows = {part: mask[split] for part, mask in masks.items()}
        empty = [f"{part}_masks" for part, row in rows.items() if not row.any()]
        if empty:
            raise DataError(f"{path}: split {split}: expected nodes in every mask, got none in {', '.join(empty)}")
        for one, other in combinations(rows, 2):
            if both := int((rows[one] & rows[other]).sum()):
                raise DataError(
                    f"{path}: split {split}: {both} nodes are in {one} and {other}; expected masks that share no node"
                )
    unlabelled = (arrays["node_labels"].astype(np.int64) < 0) & np.any([mask.any(0) for mask in masks.values()], axis=0)
    if unlabelled.any():
        raise DataError(
            f"{path}: node_labels: expected a class for every node in a mask, got -1 for {int(unlabelled.sum())} of "
            f"them, the first is node {int(unlabelled.argmax())}; leave nodes without a label out of all masks"
        )
