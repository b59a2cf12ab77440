"""Node-classification datasets of the Open Graph Benchmark, from the files as its package `ogb` lays them out.

The files are read here and not by the package, which unpickles what it has cached: it is needed to get them, if at all.
"""

import gzip
import hashlib
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from mimogc.data.nodes import NodeDataset
from mimogc.data.sources import Array, DataError, cache_root, derived, mirror_root, sha256

_BLOCK = 2**26  # bytes of text at a time
_SPLITS = ("train", "valid", "test")


class Source(NamedTuple):
    """One dataset: where its files are, and what has to be in them."""

    split: str  # the folder of OGB's own split
    both_ways: bool  # whether every edge is to be added in the other direction, as OGB does
    nodes: int
    edges: int  # as they are in the file
    features: int
    classes: int
    archive: str


SOURCES = {
    "ogbn-products": Source("sales_ranking", True, 2_449_029, 61_859_140, 100, 47, "products.zip"),
    "ogbn-arxiv": Source("time", False, 169_343, 1_166_243, 128, 40, "arxiv.zip"),
}
_URL = "http://snap.stanford.edu/ogb/data/nodeproppred/"


def load_ogb(name: str) -> NodeDataset:
    """The dataset, checked against its published size; the first time its text is read, which takes minutes."""
    source = SOURCES[name]
    folder = _folder(name)
    files = {key: folder / "raw" / f"{key}.csv.gz" for key in ("edge", "node-feat", "node-label")}
    files |= {key: folder / "split" / source.split / f"{key}.csv.gz" for key in _SPLITS}
    for path in files.values():
        if not path.is_file():
            raise DataError(f"{name}: {path} is missing; unpack {_URL}{source.archive} again")
    digest = hashlib.sha256("".join(sha256(path) for path in files.values()).encode()).hexdigest()

    def arrays() -> dict[str, Array]:
        found: dict[str, Array] = {
            "edge": _numbers(files["edge"], np.int32, 2).T,
            "x": _numbers(files["node-feat"], np.float32, source.features),
            "y": _numbers(files["node-label"], np.int32, 1)[:, 0],
            **{key: _numbers(files[key], np.int32, 1)[:, 0] for key in _SPLITS},
        }
        _check(name, source, found)
        return found

    held = {key: torch.from_numpy(value) for key, value in derived(f"{name}-{digest[:16]}", arrays).items()}
    edges = held.pop("edge").long()
    masks = [torch.zeros(source.nodes, 1, dtype=torch.bool) for _ in _SPLITS]
    for mask, key in zip(masks, _SPLITS, strict=True):
        mask[held[key].long()] = True
    edges = torch.cat([edges, edges.flip(0)], dim=1) if source.both_ways else edges
    train, val, test = masks
    return NodeDataset(name, held["x"], edges, held["y"].long(), train, val, test, "accuracy")


def _folder(name: str) -> Path:
    """Where the files are: in the cache or in the mirror, below `ogb`."""
    own = name.replace("-", "_")
    for root in (cache_root(), mirror_root()):
        if root is not None and (root / "ogb" / own).is_dir():
            return root / "ogb" / own
    place = cache_root() / "ogb"
    raise DataError(
        f"{name}: expected its files in {place / own} (MIMOGC_DATA), or below ogb in MIMOGC_MIRROR, got none. Unpack "
        f"{_URL}{SOURCES[name].archive} there and call the folder {own}, or let the package ogb do it "
        f"(pip install 'mimogc[ogb]'): ogb.nodeproppred.NodePropPredDataset({name!r}, root={str(place)!r})"
    )


def _blocks(path: Path) -> Iterator[bytes]:
    """The text, some whole lines at a time."""
    rest = b""
    with gzip.open(path, "rb") as file:
        while block := file.read(_BLOCK):
            lines, end, rest = (rest + block).rpartition(b"\n")
            yield lines + end
    yield rest


def _numbers(path: Path, dtype: type[np.generic], columns: int) -> Array:
    """[rows, columns] of a file of numbers between commas."""
    parts = []
    try:
        for block in _blocks(path):
            text = block.strip()
            if text:
                parts.append(_rows(text, dtype, columns))
        found: Array = np.concatenate(parts)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path}: expected lines of {columns} numbers, got what cannot be read ({error})") from error
    return found


def _rows(text: bytes, dtype: type[np.generic], columns: int) -> Array:
    """[rows, columns] of some lines, or a ValueError where they have other numbers than these."""
    with warnings.catch_warnings():  # else numpy ends at what is no number, and says so in a warning
        warnings.simplefilter("error")
        try:
            found = np.fromstring(text.replace(b"\n", b",").decode("ascii"), dtype=np.float64, sep=",")
        except DeprecationWarning as error:
            raise ValueError("something that is no number") from error
    lines = text.count(b"\n") + 1
    if found.size != lines * columns or text.count(b",") != lines * (columns - 1):
        raise ValueError(f"{found.size} numbers in {lines} lines")
    if not np.isfinite(found).all():
        raise ValueError("a number that is not finite")
    if issubclass(dtype, np.integer) and (np.abs(found).max() >= 2**31 or (found != np.rint(found)).any()):
        raise ValueError("a number that is not a whole one of 32 bits")
    return found.astype(dtype).reshape(-1, columns)


def _check(name: str, source: Source, arrays: dict[str, Array]) -> None:
    """Refuse files that are not those of the dataset."""
    found = {"nodes": len(arrays["x"]), "labels": len(arrays["y"]), "edges": arrays["edge"].shape[1]}
    expected = {"nodes": source.nodes, "labels": source.nodes, "edges": source.edges}
    if found != expected:
        raise DataError(f"{name}: expected {expected}, got {found}; its files are truncated or of another version")
    if int(arrays["y"].min()) < 0 or int(arrays["y"].max()) >= source.classes:
        low, high = arrays["y"].min(), arrays["y"].max()
        raise DataError(f"{name}: expected labels 0 to {source.classes - 1}, got {low} to {high}")
    split = np.concatenate([arrays[key] for key in _SPLITS])
    for key, numbers in (("edge", arrays["edge"]), ("split", split)):
        if numbers.size and not (int(numbers.min()) >= 0 and int(numbers.max()) < source.nodes):
            raise DataError(
                f"{name}: {key}: expected nodes 0 to {source.nodes - 1}, got {numbers.min()} to {numbers.max()}"
            )
    if len(np.unique(split)) != len(split):
        raise DataError(f"{name}: expected splits without a node in two of them, got {len(split)} entries with doubles")
