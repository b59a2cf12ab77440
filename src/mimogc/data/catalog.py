"""The catalog of datasets: what each one is, where its files come from, how it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch_geometric.datasets

from mimogc.data import nodes
from mimogc.data.molecules import SPLITS, Molecules
from mimogc.data.nodes import Family, Metric, NodeDataset, load_npz
from mimogc.data.packing import from_packed, pack_pickles
from mimogc.data.sources import (
    Array,
    DataError,
    FileStatus,
    cache_root,
    fetch,
    load_arrays,
    manifest,
    save_arrays,
    status,
)

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
    note: str = ""  #: what results on it have to say

    @property
    def raw_name(self) -> str:
        """The name in PyG's folders and files."""
        return self.name.replace("-", "_")


_PEI = "Pei et al., Geom-GCN, ICLR 2020"
_PLATONOV = "Platonov et al., A critical look at the evaluation of GNNs under heterophily, ICLR 2023"
_DWIVEDI = (
    "Sterling and Irwin, ZINC 15, 2015; subset and targets: Dwivedi et al., Benchmarking GNNs, JMLR 2023"
)
_NONE_STATED = "none stated (geom-gcn repository)"
_ZINC_LICENCE = "freely available (zinc.docking.org)"
_REBUILT = (
    "val and test targets of the 12,000 are the published ones, all others are rebuilt to 5e-7; "
    "bond types and targets of five train molecules of the 12,000 are doubtful"
)
_MUSAE = "GPL-3.0 (MUSAE repository); splits: none stated"


def _size(files: Sequence[str]) -> int | None:
    known = [manifest()[file] for file in files]
    return sum(k.bytes for k in known if k) if all(known) else None


def _node(
    name: str,
    family: Family,
    size: tuple[int, int | None, int, int],
    licence: str,
    citation: str,
    folder: str,
    stem: str | None = None,
) -> DatasetInfo:
    """A node dataset; with `stem` its files are geom-gcn's text files and ten splits, else a single npz."""
    if stem:
        names = ["out1_node_feature_label.txt", "out1_graph_edges.txt"]
        names += [f"{stem}_split_0.6_0.2_{i}.npz" for i in range(10)]
    else:
        names = [f"{name.replace('-', '_')}.npz"]
    files = tuple(f"{folder}/raw/{file}" for file in names)
    n, e, f, c = size
    metric: Metric = "roc_auc" if c == 2 else "accuracy"
    return DatasetInfo(
        name, "node classification", metric, 10, 1, n, e, f, c, licence, citation, family, files, _size(files)
    )


def _webkb(name: str, *size: int) -> DatasetInfo:
    n, e, f, c = size
    return _node(name, "webkb", (n, e, f, c), _NONE_STATED, _PEI, f"webkb/{name}", name)


def _wikipedia(name: str, *size: int) -> DatasetInfo:
    n, e, f, c = size
    citation = f"Rozemberczki et al., Multi-scale attributed node embedding, 2021; splits: {_PEI}"
    return _node(name, "wikipedia", (n, e, f, c), _MUSAE, citation, f"wikipedia/{name}/geom_gcn", name)


def _platonov(
    name: str, n: int, e: int | None, f: int, c: int, family: Family = "heterophilous"
) -> DatasetInfo:
    folder = f"heterophilous/{name.replace('-', '_')}"
    return _node(name, family, (n, e, f, c), "MIT (heterophilous-graphs repository)", _PLATONOV, folder)


def _zinc(name: str, graphs: int, file: str, note: str) -> DatasetInfo:
    files = (f"ZINC/{file}",)
    return DatasetInfo(
        name=name,
        task="graph regression",
        metric="mae",
        splits=1,
        graphs=graphs,
        nodes=23.2,
        edges=49.8,
        features=1,
        classes=1,
        licence=_ZINC_LICENCE,
        citation=_DWIVEDI,
        family="ZINC",
        files=files,
        bytes=_size(files),
        note=f"packed file: {note}; PyG's own download has no such limits",
    )


CATALOG: dict[str, DatasetInfo] = {
    info.name: info
    for info in [
        _webkb("texas", 183, 325, 1703, 5),
        _webkb("cornell", 183, 298, 1703, 5),
        _webkb("wisconsin", 251, 515, 1703, 5),
        _node("film", "actor", (7600, 30019, 932, 5), _NONE_STATED, _PEI, "actor", "film"),
        _wikipedia("chameleon", 2277, 36101, 2325, 5),
        _wikipedia("squirrel", 5201, 217073, 2089, 5),
        _platonov("minesweeper", 10000, 78804, 7, 2),
        _platonov("tolokers", 11758, 1038000, 10, 2),
        _platonov("roman-empire", 22662, 65854, 300, 18),
        _platonov("amazon-ratings", 24492, 186100, 300, 5),
        _platonov("questions", 48921, 307080, 301, 2),
        _platonov("chameleon-filtered", 890, None, 2325, 5, "npz"),
        _platonov("squirrel-filtered", 2223, None, 2089, 5, "npz"),
        _zinc("zinc12k", 12000, "zinc12k.npz", _REBUILT),
        _zinc("zinc", 249456, "zinc_full.npz", f"{_REBUILT}; most of train in another order than published"),
    ]
}
_ZINC_RAW = tuple(f"ZINC/raw/{split}.{kind}" for kind in ("pickle", "index") for split in SPLITS)


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


def load(name: str) -> NodeDataset | Molecules:
    """Any dataset by its name, or `npz:PATH`."""
    if not name.startswith("npz:") and info(name).family == "ZINC":
        return load_molecules(name)
    return load_nodes(name)


def load_nodes(name: str) -> NodeDataset:
    """A node-classification dataset by its name, or `npz:PATH` for a file of your own."""
    if name.startswith("npz:"):
        return load_npz(Path(name.removeprefix("npz:")).expanduser())
    entry = info(name)
    if entry.family == "ZINC":
        raise ValueError(f"dataset: {name} is a set of molecules; use load_molecules")
    digest = fetch(name, entry.files, partial(nodes.download, entry.family, entry.raw_name))
    return nodes.load_verified(name, entry.family, entry.raw_name, entry.files, digest)


def load_molecules(name: str) -> Molecules:
    """ZINC12k (`zinc12k`) or all of ZINC (`zinc`): from the packed file, else from PyG's raw files."""
    entry = info(name)
    if entry.family != "ZINC":
        raise ValueError(f"dataset: expected zinc12k or zinc, got {name!r}; use load_nodes")
    if status(name, entry.files)[0].found != "missing":
        digest = fetch(name, entry.files, _no_download)
        packed = load_arrays(cache_root() / entry.files[0])
        if packed is None:
            raise DataError(f"{cache_root() / entry.files[0]}: not a readable npz file; delete it")
        return from_packed(name, digest, packed)
    return _from_pyg(name)


def _from_pyg(name: str) -> Molecules:
    digest = fetch(name, _ZINC_RAW, _download_zinc)
    path = cache_root() / "processed" / f"{name}-{digest[:16]}.npz"
    packed: dict[str, Array] | None = load_arrays(path)
    if packed is None:
        packed = pack_pickles(cache_root() / "ZINC" / "raw", subset=name == "zinc12k")
        save_arrays(path, packed)
    return from_packed(name, digest, packed)


def _download_zinc(root: Path) -> None:
    overrides = {"process": lambda self: None, "load": lambda self, path: None}
    type("ZINC", (torch_geometric.datasets.ZINC,), overrides)(root=str(root / "ZINC"))


def _no_download(root: Path) -> None:
    raise DataError("the file disappeared while it was read; try again")
