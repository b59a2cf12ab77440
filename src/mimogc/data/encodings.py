"""Positional encodings of molecules, computed once: Laplacian eigenpairs and random-walk returns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mimogc.data.sources import Array, derived

if TYPE_CHECKING:
    from mimogc.data.molecules import Molecules

_TOGETHER = 4096  # molecules of one size whose dense matrices are decomposed in one call


@dataclass(frozen=True, eq=False)
class Encoding:
    """An encoding of every atom of an arena."""

    atom: Tensor  #: [N, k] float32
    molecule: Tensor | None = None  #: [G, k] float32: the eigenvalues, where there are any

    def rows(self, atoms: Tensor, owners: Tensor) -> Tensor:
        """The encoding of some atoms: [n, k], or [n, k, 2] pairs (vector entry, eigenvalue)."""
        if self.molecule is None:
            return self.atom[atoms]
        return torch.stack([self.atom[atoms], self.molecule[owners]], dim=-1)

    def to(self, device: torch.device | str) -> "Encoding":
        molecule = None if self.molecule is None else self.molecule.to(device)
        return replace(self, atom=self.atom.to(device), molecule=molecule)


def laplacian_encoding(molecules: "Molecules", k: int = 8) -> Encoding:
    """The k smallest non-trivial eigenpairs of D − A, vectors of length 1; cached.

    A molecule of n ≤ k atoms has only n − 1 of them: the rest is padded with zeros, also the eigenvalue,
    which is never zero otherwise because molecules are connected. Signs are those of the eigensolver.
    """

    def compute(adjacency: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(adjacency.sum(-1).diag_embed() - adjacency)
        missing = max(0, k + 1 - values.size(-1))
        pad = torch.nn.functional.pad
        return pad(vectors[..., 1 : k + 1], (0, missing)), pad(values[..., 1 : k + 1], (0, missing))

    return _cached(f"laplacian{k}", molecules, k, compute)


def random_walk_encoding(molecules: "Molecules", k: int = 20) -> Encoding:
    """The probabilities of being back after s = 1, …, k random steps, the diagonals of (D⁻¹A)^s; cached."""

    def compute(adjacency: Tensor) -> tuple[Tensor, None]:
        step = adjacency / adjacency.sum(-1, keepdim=True).clamp(min=1)
        power, diagonals = step, []
        for _ in range(k):
            diagonals.append(power.diagonal(dim1=-2, dim2=-1))
            power = power @ step
        return torch.stack(diagonals, dim=-1), None

    return _cached(f"randomwalk{k}", molecules, k, compute)


def _cached(
    kind: str, molecules: "Molecules", k: int, compute: Callable[[Tensor], tuple[Tensor, Tensor | None]]
) -> Encoding:
    """Read the encoding of these very molecules from the cache, or compute and keep it."""
    if k < 1:
        raise ValueError(f"k: expected at least 1, got {k}")

    def arrays() -> dict[str, Array]:
        found = {"atom": torch.zeros(molecules.atom.size(0), k)}
        for index, atoms, adjacency in _by_size(molecules):
            rows, values = compute(adjacency)
            found["atom"][atoms] = rows.float()
            if values is not None:
                found.setdefault("molecule", torch.zeros(len(molecules), k))[index] = values.float()
        return {name: tensor.numpy() for name, tensor in found.items()}

    kept = derived(f"{molecules.name}-{kind}-{molecules.digest[:16]}", arrays)
    return Encoding(**{name: torch.from_numpy(array) for name, array in kept.items()})


def _by_size(molecules: "Molecules") -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Molecules of equal size n together: their numbers [m], atoms [m, n] and float64 adjacency [m, n, n]."""
    edges, sizes = molecules.plain, molecules.ptr.diff()
    for n in sorted(set(sizes.tolist())):
        for index in (sizes == n).nonzero().flatten().split(_TOGETHER):
            atoms = molecules.ptr[index].unsqueeze(1) + torch.arange(n)  # [m, n]
            degree = edges.degree[atoms].long()
            count = degree.sum(1)
            row = torch.repeat_interleave(torch.arange(index.size(0) * n), degree.flatten())
            start = edges.ptr[index] - (count.cumsum(0) - count)
            place = torch.repeat_interleave(start, count) + torch.arange(row.size(0))
            adjacency = torch.zeros(index.size(0) * n, n, dtype=torch.float64)
            adjacency[row, edges.neighbour[place].long()] = 1
            yield index, atoms, adjacency.view(-1, n, n)
