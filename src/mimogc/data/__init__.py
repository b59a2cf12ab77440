"""Datasets by name, from a mirror or PyG's own downloads, each file verified before it is parsed."""

import importlib
from typing import TYPE_CHECKING, Any

from mimogc.data.catalog import DatasetInfo, info, list_datasets, load, load_molecules, load_nodes, verify
from mimogc.data.sources import DataError, FileStatus

if TYPE_CHECKING:
    from mimogc.data.encodings import Encoding, laplacian_encoding, random_walk_encoding
    from mimogc.data.molecules import MoleculeBatch, Molecules
    from mimogc.data.nodes import NodeDataset, load_npz
    from mimogc.data.rings import RINGS, STRUCTURE, EdgeTable, RingPairs, find_rings, ring_pairs, with_rings

__all__ = ["DatasetInfo", "info", "list_datasets", "load", "load_molecules", "load_nodes", "verify"]
__all__ += ["DataError", "FileStatus", "MoleculeBatch", "Molecules", "NodeDataset", "load_npz"]
__all__ += ["Encoding", "laplacian_encoding", "random_walk_encoding"]
__all__ += ["RINGS", "STRUCTURE", "EdgeTable", "RingPairs", "find_rings", "ring_pairs", "with_rings"]

# Loaded when first asked for: they need torch, for which `mimogc data list` does not wait.
_HOMES = {"Encoding": "encodings", "laplacian_encoding": "encodings", "random_walk_encoding": "encodings"}
_HOMES |= {"MoleculeBatch": "molecules", "Molecules": "molecules", "NodeDataset": "nodes", "load_npz": "nodes"}
_HOMES |= dict.fromkeys(
    ("RINGS", "STRUCTURE", "EdgeTable", "RingPairs", "find_rings", "ring_pairs", "with_rings"), "rings"
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"mimogc.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'mimogc.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
