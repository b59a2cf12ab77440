"""Datasets by name, from a mirror or PyG's own downloads, each file verified before it is parsed."""

from mimogc.data.catalog import DatasetInfo, info, list_datasets, load, load_molecules, load_nodes, verify
from mimogc.data.encodings import Encoding, laplacian_encoding, random_walk_encoding
from mimogc.data.molecules import MoleculeBatch, Molecules
from mimogc.data.nodes import NodeDataset, load_npz
from mimogc.data.sources import DataError, FileStatus

__all__ = [
    "DataError",
    "DatasetInfo",
    "Encoding",
    "FileStatus",
    "MoleculeBatch",
    "Molecules",
    "NodeDataset",
    "info",
    "laplacian_encoding",
    "list_datasets",
    "load",
    "load_molecules",
    "load_nodes",
    "load_npz",
    "random_walk_encoding",
    "verify",
]
