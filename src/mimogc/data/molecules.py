"""ZINC as one arena: all molecules concatenated and pre-indexed; a batch is cut out without sorting."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from mimogc._structs import known_sorted
from mimogc.data.encodings import Encoding
from mimogc.graph import Graph

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
CHUNK = 64  # batches gathered together: enough to hide torch's overhead, few enough for the processor's cache


@dataclass(frozen=True, eq=False)
class MoleculeBatch:
    """A batch of B molecules with N atoms: what `GraphRegressor` takes."""

    atom: Tensor  #: [N] int64 atom type
    graph: Graph  #: the disjoint union
    ptr: Tensor  #: [B + 1] int64: the atoms of molecule b are ptr[b] .. ptr[b + 1]
    owner: Tensor  #: [N] int64: the molecule of each atom
    y: Tensor  #: [B] float32 target
    bond: Tensor  #: [E] int64 bond type in the graph's edge order, 0 for an added self-loop
    encoding: Tensor | None  #: [N, k, 2] Laplacian pairs (vector, eigenvalue), or [N, k] return probabilities

    @property
    def num_graphs(self) -> int:
        return self.y.size(0)

    def to(self, device: torch.device | str) -> "MoleculeBatch":
        moved: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(device) for k, v in moved.items() if v is not None})


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of all molecules, sorted by (atom, neighbour): for undirected graphs both CSR and CSC."""

    ptr: Tensor  #: [G + 1] int64: the edges of molecule g are ptr[g] .. ptr[g + 1]
    degree: Tensor  #: [N] int16
    neighbour: Tensor  #: [E] int16, counted within the molecule
    twin: Tensor  #: [E] int16: place of the reverse edge, counted within the molecule
    position: Tensor  #: [E] int16: place in PyG's edge_index, counted within the molecule, -1 for a self-loop
    bond: Tensor  #: [E] uint8: 1 single, 2 double, 3 triple, 0 self-loop


@dataclass(frozen=True, eq=False)
class Molecules:
    """All molecules of a ZINC dataset, in the published order: train, then val, then test."""

    name: str
    digest: str  #: identity of the raw files, for what is derived from them
    atom: Tensor  #: [N] uint8 atom type
    ptr: Tensor  #: [G + 1] int64: the atoms of molecule g are ptr[g] .. ptr[g + 1]
    y: Tensor  #: [G] float32
    sizes: tuple[int, int, int]  #: molecules in train, val, test
    plain: Edges
    looped: Edges  #: with one self-loop per atom

    def __len__(self) -> int:
        return self.y.size(0)

    def __repr__(self) -> str:
        return f"Molecules({self.name}: {len(self):,} molecules, {self.atom.numel():,} atoms)"

    def split(self, name: Split) -> Tensor:
        """[n] the molecules of a split."""
        if name not in SPLITS:
            raise ValueError(f"split: expected one of {', '.join(SPLITS)}, got {name!r}")
        place = SPLITS.index(name)
        start = sum(self.sizes[:place])
        return torch.arange(start, start + self.sizes[place], device=self.y.device)

    def to(self, device: torch.device | str) -> "Molecules":
        """The arena on another device; batches are then collated there."""
        plain, looped = (Edges(**{k: v.to(device) for k, v in vars(e).items()}) for e in (self.plain, self.looped))
        atom, ptr, y = (t.to(device) for t in (self.atom, self.ptr, self.y))
        return replace(self, atom=atom, ptr=ptr, y=y, plain=plain, looped=looped)

    def batches(
        self, order: Tensor, batch_size: int, add_self_loops: bool = True, encoding: Encoding | None = None
    ) -> Iterator[MoleculeBatch]:
        """The molecules `order` ([n] int64), `batch_size` at a time; the last batch may be smaller.

        `CHUNK` batches are gathered at once with batch-local indices; each batch is then cut out of that.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        edges = self.looped if add_self_loops else self.plain
        for part in torch.split(order, batch_size * CHUNK):
            yield from self._gathered(part, batch_size, edges, add_self_loops, encoding)

    def _gathered(
        self, part: Tensor, batch_size: int, edges: Edges, looped: bool, encoding: Encoding | None
    ) -> Iterator[MoleculeBatch]:
        first = torch.arange(0, part.size(0), batch_size, device=part.device)  # first molecule of each batch
        batch = torch.arange(part.size(0), device=part.device) // batch_size  # [n]
        atoms = _Ranges.of(self.ptr, part, first, batch)
        bonds = _Ranges.of(edges.ptr, part, first, batch)
        given = bonds if edges is self.plain else _Ranges.of(self.plain.ptr, part, first, batch)

        neighbour = edges.neighbour[bonds.index].int() + bonds.spread(atoms.offset).int()
        twin = edges.twin[bonds.index].int() + bonds.spread(bonds.offset).int()
        position = edges.position[bonds.index].int()
        position = torch.where(position < 0, position, position + bonds.spread(given.offset).int())
        bond = edges.bond[bonds.index].long()
        starts = torch.tensor(bonds.cuts, device=part.device)
        of_atom = atoms.spread(batch)
        ends = (edges.degree[atoms.index].cumsum(0) - starts[of_atom]).int()
        rowptr, ptr = _after_zeros(ends, of_atom), _after_zeros(atoms.offset + atoms.count, batch)
        atom = self.atom[atoms.index].long()
        owner = atoms.spread(torch.arange(part.size(0), device=part.device) % batch_size)
        extra = None if encoding is None else encoding.rows(atoms.index, atoms.spread(part))
        y = self.y[part]

        cut = atoms.cuts, bonds.cuts
        for b, start in enumerate(range(0, part.size(0), batch_size)):
            (n0, n1), (e0, e1) = ((c[b], c[b + 1]) for c in cut)
            stop = min(start + batch_size, part.size(0))
            row, col = rowptr[n0 + b : n1 + b + 1], neighbour[e0:e1]
            arrays = row, col, position[e0:e1], row, col, twin[e0:e1]
            yield MoleculeBatch(
                atom=atom[n0:n1],
                graph=known_sorted(Graph(*arrays, n1 - n0, n1 - n0, None, looped)),
                ptr=ptr[start + b : stop + b + 1],
                owner=owner[n0:n1],
                y=y[start:stop],
                bond=bond[e0:e1],
                encoding=None if extra is None else extra[n0:n1],
            )

    def data(self, molecule: int) -> Data:
        """One molecule as the PyG `Data` that `torch_geometric.datasets.ZINC` gives."""
        n0, n1 = self.ptr[molecule : molecule + 2].tolist()
        e0, e1 = self.plain.ptr[molecule : molecule + 2].tolist()
        row = torch.repeat_interleave(torch.arange(n1 - n0), self.plain.degree[n0:n1].long())
        return Data(
            x=self.atom[n0:n1].long().view(-1, 1),
            edge_index=torch.stack([row, self.plain.neighbour[e0:e1].long()]),
            edge_attr=self.plain.bond[e0:e1].long(),
            y=self.y[molecule : molecule + 1].clone(),
        )

    def data_list(self, split: Split) -> list[Data]:
        """The molecules of a split as PyG objects, for a PyG `DataLoader`."""
        return [self.data(int(molecule)) for molecule in self.split(split)]


@dataclass(frozen=True, eq=False)
class _Ranges:
    """The concatenated ranges pointer[m] .. pointer[m + 1] of the molecules of some batches."""

    count: Tensor  # [n] length of each range
    offset: Tensor  # [n] where each range starts, counted within its batch
    index: Tensor  # [total] the concatenated ranges
    cuts: list[int]  # where each batch starts, and the total

    @staticmethod
    def of(pointer: Tensor, part: Tensor, first: Tensor, batch: Tensor) -> "_Ranges":
        start = pointer[part]
        count = pointer[part + 1] - start
        ends = count.cumsum(0)
        begin = ends - count
        cuts = [*begin[first].tolist(), int(ends[-1])]
        shift = torch.repeat_interleave(start - begin, count, output_size=cuts[-1])
        index = shift + torch.arange(cuts[-1], device=part.device)
        return _Ranges(count, begin - begin[first][batch], index, cuts)

    def spread(self, values: Tensor) -> Tensor:
        """One value per range → one per element."""
        return torch.repeat_interleave(values, self.count, output_size=self.cuts[-1])


def _after_zeros(values: Tensor, batch: Tensor) -> Tensor:
    """The values, with a zero in front of those of every batch; `batch` [n] is ascending from 0, each at least once."""
    place = torch.arange(1, values.size(0) + 1, device=values.device) + batch
    out = values.new_zeros(values.size(0) + (int(batch[-1]) + 1 if batch.numel() else 0))
    out[place] = values
    return out
