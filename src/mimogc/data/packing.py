"""Builds the arena of molecules, from the packed arrays of a mirror or from PyG's published raw files."""

import pickle
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse
import torch

from mimogc.data.molecules import SPLITS, Edges, Molecules
from mimogc.data.sources import Array, DataError


def from_packed(name: str, digest: str, packed: Mapping[str, Array]) -> Molecules:
    """Build the arena from packed arrays: every bond once, as atoms u and v of its molecule."""
    n_atoms, n_bonds = packed["n_atoms"].astype(np.int64), packed["n_bonds"].astype(np.int64)
    ptr = np.concatenate([[0], np.cumsum(n_atoms)])
    owner = np.repeat(np.arange(n_atoms.size), n_bonds)  # molecule of each bond
    u, v = packed["bond_u"].astype(np.int64), packed["bond_v"].astype(np.int64)
    sizes = cast(tuple[int, int, int], tuple(int(size) for size in packed["split_sizes"]))
    if int(n_atoms.max()) > _ATOMS or sum(sizes) != n_atoms.size or packed["atom_type"].size != ptr[-1]:
        raise DataError(f"{name}: the packed arrays do not fit together; fetch the file again")
    first = ptr[owner]
    ends = np.concatenate([u, v]) + np.tile(first, 2), np.concatenate([v, u])
    both = (ends[0] * _ATOMS + ends[1]) * _BONDS + np.tile(packed["bond_type"].astype(np.int64), 2)
    local = np.arange(ptr[-1]) - np.repeat(ptr[:-1], n_atoms)
    loops = (np.arange(ptr[-1]) * _ATOMS + local) * _BONDS
    plain = _edges(np.sort(both), ptr)
    looped = _edges(np.sort(np.concatenate([both, loops])), ptr)
    # The pair (i, j) of the destination-sorted order is the message j → i, which PyG lists as (j, i).
    position = torch.full_like(looped.position, -1)
    position[looped.bond > 0] = plain.twin
    return Molecules(
        name=name,
        digest=digest,
        atom=torch.from_numpy(packed["atom_type"].astype(np.uint8)),
        ptr=torch.from_numpy(ptr),
        y=torch.from_numpy(packed["y"].astype(np.float32)),
        sizes=sizes,
        plain=plain,
        looped=replace(looped, position=position),
    )


_ATOMS, _BONDS = 64, 4  # an edge as one sortable number: (atom · 64 + neighbour) · 4 + bond type


def _edges(keys: Array, ptr: Array) -> Edges:
    """Edges from sorted keys, in which the atoms of all molecules are numbered through."""
    keys = cast("np.ndarray[Any, np.dtype[np.int64]]", keys)
    return sorted_edges(keys // (_ATOMS * _BONDS), keys // _BONDS % _ATOMS, keys % _BONDS, ptr)


def sorted_edges(atom: Array, neighbour: Array, kind: Array, ptr: Array) -> Edges:
    """Edges sorted by atom and neighbour; atoms are numbered through, neighbours counted within their molecule."""
    degree = np.bincount(atom, minlength=int(ptr[-1]))
    rowptr = np.concatenate([[0], np.cumsum(degree)])
    edge_ptr = rowptr[ptr]
    counts = np.diff(edge_ptr)
    column = neighbour + np.repeat(ptr[:-1], counts)
    order = scipy.sparse.csr_matrix((np.arange(atom.size), column, rowptr), shape=(ptr[-1], ptr[-1])).tocsc().data
    twin = torch.from_numpy((order - np.repeat(edge_ptr[:-1], counts)).astype(np.int16))
    return Edges(
        ptr=torch.from_numpy(edge_ptr),
        degree=torch.from_numpy(degree.astype(np.int16)),
        neighbour=torch.from_numpy(neighbour.astype(np.int16)),
        twin=twin,
        position=twin,
        bond=torch.from_numpy(kind.astype(np.uint8)),
    )


class _TensorsOnly(pickle.Unpickler):
    """Reads PyG's ZINC pickles, whose hashes are not known: lists, dicts, numbers and tensors only."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "torch._utils", "_rebuild_tensor_v2":
                return torch._utils._rebuild_tensor_v2
            case "torch.storage", "_load_from_bytes":
                return lambda data: torch.load(BytesIO(data), weights_only=True)
            case "collections", "OrderedDict":
                return dict
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a file of molecules")


def pack_pickles(raw: Path, subset: bool) -> dict[str, Array]:
    """The packed arrays from the raw files of PyG's ZINC, all molecules or the subset of 12,000."""
    rows: dict[str, list[Array]] = {key: [] for key in ("atom_type", "bond_u", "bond_v", "bond_type", "y")}
    sizes = []
    for split in SPLITS:
        try:
            with (raw / f"{split}.pickle").open("rb") as file:
                molecules = _TensorsOnly(file).load()
        except pickle.UnpicklingError as error:
            raise DataError(f"{raw / split}.pickle is not a list of molecules ({error}); fetch it again") from error
        if subset:
            index = (raw / f"{split}.index").read_text().strip().split(",")
            molecules = [molecules[int(i)] for i in index]
        for molecule in molecules:
            bonds = molecule["bond_type"].numpy()
            u, v = np.nonzero(np.triu(bonds))
            arrays = (molecule["atom_type"].numpy(), u, v, bonds[u, v], molecule["logP_SA_cycle_normalized"].numpy())
            for key, array in zip(rows, arrays, strict=True):
                rows[key].append(array)
        sizes.append(len(molecules))
    packed: dict[str, Array] = {
        key: np.concatenate(parts).astype(np.float32 if key == "y" else np.uint8) for key, parts in rows.items()
    }
    packed["n_atoms"] = np.array([a.size for a in rows["atom_type"]], np.uint8)
    packed["n_bonds"] = np.array([a.size for a in rows["bond_u"]], np.uint8)
    packed["split_sizes"] = np.array(sizes, np.int32)
    return packed
