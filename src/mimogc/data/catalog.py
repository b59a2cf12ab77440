"""The catalog of datasets: what each one is, where its files come from, how it is loaded."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mimogc.data.sources import DataError, FileStatus, cache_root, derived, fetch, load_arrays, manifest, status

if TYPE_CHECKING:  # what needs torch is imported by the functions that load
    from mimogc.data.molecules import Molecules
    from mimogc.data.nodes import NodeDataset

Metric = Literal["accuracy", "roc_auc", "mae"]
Family = Literal["webkb", "actor", "wikipedia", "heterophilous", "npz"]
Task = Literal["node classification", "graph regression"]


@dataclass(frozen=True)
class DatasetInfo:
    """One dataset of the catalog. Edges are counted as the loader gives them, each direction on its own."""

    name: str
    task: Task
    metric: Metric
    splits: int
    graphs: int
    nodes: float  #: per graph, as in the paper's table of statistics
    edges: float | None  #: per graph; None where no copy has been measured
    features: int
    classes: int
    licence: str
    citation: str
    family: Family | Literal["ZINC"]
    files: tuple[str, ...]  #: raw files, relative to the cache or the mirror
    bytes: int | None  #: of the raw files; None where no copy has been verified
    unknown: int | None = None  #: the feature that says that nothing else is known of a node
    note: str = ""  #: what results on it have to say

    @property
    def raw_name(self) -> str:
        """The name in PyG's folders and files."""
        return self.name.replace("-", "_")


def _entry(fields: dict[str, Any]) -> DatasetInfo:
    files = [manifest()[file] for file in fields["files"]]
    size = sum(k.bytes for k in files if k) if all(files) else None
    return DatasetInfo(**fields | {"files": tuple(fields["files"]), "bytes": size})


_ENTRIES = json.loads(Path(__file__).with_name("catalog.json").read_text(encoding="utf-8"))
CATALOG: dict[str, DatasetInfo] = {fields["name"]: _entry(fields) for fields in _ENTRIES}
_ZINC_RAW = tuple(f"ZINC/raw/{split}.{kind}" for kind in ("pickle", "index") for split in ("train", "val", "test"))


def list_datasets() -> list[DatasetInfo]:
    """Every dataset of the catalog."""
    return list(CATALOG.values())


def info(name: str) -> DatasetInfo:
    """The catalog's entry of one dataset."""
    if name not in CATALOG:
        raise ValueError(f"dataset: expected npz:PATH or one of {', '.join(CATALOG)}, got {name!r}")
    return CATALOG[name]


def verify(names: Sequence[str] | None = None) -> list[FileStatus]:
    """Where each raw file of the named datasets (by default of all) is, and whether it is the right one."""
    rows = []
    for entry in [info(name) for name in names] if names else list_datasets():
        found = status(entry.name, entry.files)
        if entry.family == "ZINC" and found[0].found == "missing":
            raw = status(entry.name, _ZINC_RAW)
            found = raw if any(row.found != "missing" for row in raw) else found
        rows += found
    return rows


def load(name: str) -> "NodeDataset | Molecules":
    """Any dataset by its name, or `npz:PATH`."""
    if name in CATALOG and info(name).family == "ZINC":
        return load_molecules(name)
    return load_nodes(name)


def load_nodes(name: str) -> "NodeDataset":
    """A node-classification dataset by its name, of the catalog or of OGB (`ogbn-products`, `ogbn-arxiv`).

    `npz:PATH` is a file of your own.
    """
    from mimogc.data import nodes, ogb

    if name.startswith("npz:"):
        return nodes.load_npz(name.removeprefix("npz:"))
    if name in ogb.SOURCES:
        return ogb.load_ogb(name)
    entry = info(name)
    if entry.family == "ZINC":
        raise ValueError(f"dataset: {name} is a set of molecules; use load_molecules")
    digest = fetch(name, entry.files, partial(nodes.download, entry.family, entry.raw_name))
    data = nodes.load_verified(name, entry.family, entry.raw_name, entry.files, digest)
    return replace(data, unknown=entry.unknown)


def load_molecules(name: str) -> "Molecules":
    """ZINC12k (`zinc12k`) or all of ZINC (`zinc`): from the packed file, else from PyG's raw files."""
    from mimogc.data.packing import from_packed, pack_pickles

    entry = info(name)
    if entry.family != "ZINC":
        raise ValueError(f"dataset: expected zinc12k or zinc, got {name!r}; use load_nodes")
    if status(name, entry.files)[0].found == "missing":
        digest, raw = fetch(name, _ZINC_RAW, _download_zinc), cache_root() / "ZINC" / "raw"
        arrays = derived(f"{name}-{digest[:16]}", lambda: pack_pickles(raw, subset=name == "zinc12k"))
        return from_packed(name, digest, arrays)
    digest = fetch(name, entry.files, _no_download)
    packed = load_arrays(cache_root() / entry.files[0])
    if packed is None:
        raise DataError(f"{cache_root() / entry.files[0]}: not a readable npz file; delete it")
    return from_packed(name, digest, packed)


def _download_zinc(root: Path) -> None:
    import torch_geometric.datasets

    from mimogc.data import nodes

    type("ZINC", (torch_geometric.datasets.ZINC,), nodes.UNPARSED)(root=str(root / "ZINC"))


def _no_download(root: Path) -> None:
    raise DataError("the file disappeared while it was read; try again")
