"""The graph Fourier basis: eigenvectors of the Laplacian, as a function of the graph and nothing else."""

import inspect
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from mimogc.graph import Graph

Array = NDArray[np.float64]

LAPLACIANS = ("normalized", "combinatorial")
ENDS = ("smallest", "largest")

_SAME = 1e-10  # closer eigenvalues, relative to the largest, are one: eigh is accurate to about N·1e-16
_TIE = 1e-6  # entries closer than this, relative to the largest, are a tie, and the first of them wins
_SMALL = 512  # below this size a dense decomposition is quicker than the sparse solver
_RESTARTS = 100  # after this many Lanczos' method is not going to be quick
# From scipy 1.17 the solver draws new directions from a generator, which is not seeded unless given.
_TAKES_RNG = "rng" in inspect.signature(scipy.sparse.linalg.eigsh).parameters


@dataclass(frozen=True, eq=False)
class FourierBasis:
    """Eigenpairs of a graph Laplacian: L = U diag(values) Uᵀ, in ascending order of the values."""

    values: Tensor  #: [M] float64; equal eigenvalues are exactly equal
    vectors: Tensor  #: [N, M] float64, orthonormal columns
    laplacian: str = "normalized"

    @property
    def num_nodes(self) -> int:
        return self.vectors.size(0)

    @property
    def complete(self) -> bool:
        """Whether this is a basis of all signals, not only of some components."""
        return self.vectors.size(0) == self.vectors.size(1)

    @property
    def adjacency_values(self) -> Tensor:
        """[M] the eigenvalues of A_sym = I − L_sym: the λ of the paper's examples and figures."""
        if self.laplacian != "normalized":
            raise ValueError(
                f"basis: expected the basis of the normalized Laplacian, which A_sym has, got {self.laplacian!r}"
            )
        return 1 - self.values

    def check_complete(self) -> None:
        """Refuse a basis of some components only."""
        if not self.complete:
            got = self.values.size(0)
            raise ValueError(f"basis: expected a complete basis of {self.num_nodes} components, got {got}")

    def transform(self, x: Tensor) -> Tensor:
        """F(x) = Uᵀx along the first dimension; x: [N, ...] → [M, ...]."""
        if x.dim() == 0 or x.size(0) != self.num_nodes:
            raise ValueError(f"x: expected {self.num_nodes} rows, one per node, got shape {list(x.shape)}")
        x_hat: Tensor = torch.tensordot(self.vectors.T, x.to(self.vectors.dtype), dims=1)
        return x_hat

    def inverse(self, x_hat: Tensor) -> Tensor:
        """F⁻¹(x̂) = U x̂ along the first dimension; x_hat: [M, ...] → [N, ...]."""
        if x_hat.dim() == 0 or x_hat.size(0) != self.values.size(0):
            raise ValueError(f"x_hat: expected {self.values.size(0)} rows, one per component, got {list(x_hat.shape)}")
        x: Tensor = torch.tensordot(self.vectors, x_hat.to(self.vectors.dtype), dims=1)
        return x

    def __repr__(self) -> str:
        return (
            f"FourierBasis(num_nodes={self.num_nodes}, components={self.values.size(0)}, laplacian={self.laplacian!r})"
        )


def fourier_basis(
    graph: Graph,
    k: int | None = None,
    which: str = "smallest",
    laplacian: str = "normalized",
    memory_limit: int = 4 * 2**30,
) -> FourierBasis:
    r"""The eigenvectors of the Laplacian of an undirected graph, always in float64.

    .. math::
        L_{sym} = I - D^{-1/2} A D^{-1/2} = U \,\mathrm{diag}(\lambda)\, U^\top

    The result depends on the graph alone. In each vector the entry of largest magnitude is positive. In an
    eigenspace of several dimensions the basis is the one of pivoted Gram-Schmidt on the columns of its
    projector, which for a disconnected graph separates the components. An isolated node has a zero row in
    A_sym, so its normalized eigenvalue is 1. Self-loops and duplicate edges count in A and in the degrees.

    Args:
        graph: an undirected graph; a directed one is refused, since its Laplacian has no orthonormal eigenbasis.
        k: only this many pairs, by a sparse solver where the graph is large. An eigenspace that the cut goes
            through is represented by some orthonormal vectors in it.
        which: ``"smallest"`` or ``"largest"`` eigenvalues, with ``k``.
        laplacian: ``"normalized"`` (I − A_sym) or ``"combinatorial"`` (D − A).
        memory_limit: refuse a dense decomposition that needs more than this many bytes.
    """
    if k is not None and k < 1:
        raise ValueError(f"k: expected at least 1 eigenpair, got {k}")
    check_choice("which", which, ENDS)
    check_choice("laplacian", laplacian, LAPLACIANS)
    check_graph(graph)
    if not graph.is_undirected:
        raise ValueError(
            "graph: expected an undirected graph, got a directed one, whose Laplacian has no orthonormal "
            "eigenbasis; use graph.to_undirected() for the basis and the given graph for the layer"
        )
    n = graph.num_nodes
    adjacency = adjacency_matrix(graph, normalized=laplacian == "normalized")
    if k is None or k >= n or (n <= _SMALL):
        _check_memory(n, memory_limit)
        values, vectors = _dense(adjacency, laplacian)
        if k is not None:
            part = slice(None, k) if which == "smallest" else slice(max(n - k, 0), None)
            values, vectors = values[part], vectors[:, part]
    else:
        values, vectors = _sparse(adjacency, laplacian, k, which)
    values, vectors = _canonical(values, vectors)
    device = graph.device
    return FourierBasis(torch.from_numpy(values).to(device), torch.from_numpy(vectors).to(device), laplacian)


def adjacency_matrix(graph: Graph, normalized: bool) -> scipy.sparse.csr_array:
    """A or A_sym as a scipy matrix: [N, N] float64, row i collects the edges into node i."""
    n = graph.num_nodes
    weight = graph.normalization(torch.float64) if normalized else torch.ones(graph.num_edges)
    return scipy.sparse.csr_array(
        (weight.double().cpu().numpy(), (graph.dst.cpu().numpy(), graph.src.cpu().numpy())), shape=(n, n)
    )


def check_choice(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuse a name that is none of the options."""
    if value not in options:
        raise ValueError(f"{name}: expected one of {', '.join(options)}, got {value!r}")


def check_graph(graph: object) -> None:
    """Refuse what is no graph, such as an edge_index."""
    if not isinstance(graph, Graph):
        raise TypeError(f"graph: expected a mimogc.Graph, got {type(graph).__name__}")


def _check_memory(n: int, memory_limit: int) -> None:
    needed = 4 * 8 * n * n  # the matrix, its vectors and LAPACK's workspace
    if needed > memory_limit:
        raise ValueError(
            f"graph: a complete basis of {n:,} nodes takes about {needed / 2**30:.1f} GiB, more than the "
            f"memory_limit of {memory_limit / 2**30:.1f} GiB; ask for k=... eigenpairs or raise memory_limit"
        )


def _dense(adjacency: scipy.sparse.csr_array, laplacian: str) -> tuple[Array, Array]:
    matrix = -adjacency.toarray()
    if matrix.size == 0:
        return np.zeros(0), np.zeros((0, 0))
    diagonal = np.ones(len(matrix)) if laplacian == "normalized" else -matrix.sum(axis=1)
    matrix[np.diag_indices_from(matrix)] += diagonal
    values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
    return values, vectors


def _sparse(adjacency: scipy.sparse.csr_array, laplacian: str, k: int, which: str) -> tuple[Array, Array]:
    n = adjacency.shape[0]
    diagonal = np.ones(n) if laplacian == "normalized" else adjacency.sum(axis=1)
    matrix = scipy.sparse.diags_array(diagonal) - adjacency
    # Gershgorin: the spectrum of L is in [0, width], so that of width·I − L is too, in the opposite order.
    width = 2.0 * float(diagonal.max(initial=0.0))
    identity = scipy.sparse.eye_array(n)
    try:
        wanted = width * identity - matrix if which == "smallest" else matrix
        vectors = _leading(scipy.sparse.linalg.aslinearoperator(wanted), k, _RESTARTS)
    except scipy.sparse.linalg.ArpackNoConvergence:
        # Eigenvalues this close belong to long, thin graphs, whose factors are sparse: invert beside the spectrum.
        beside = matrix + 1e-6 * width * identity
        if which == "largest":
            beside = (1 + 1e-6) * width * identity - matrix
        factors = scipy.sparse.linalg.splu(beside.tocsc())
        inverse = scipy.sparse.linalg.LinearOperator((n, n), matvec=factors.solve, dtype=np.float64)
        vectors = _leading(inverse, k)
    values = np.einsum("nk,nk->k", vectors, matrix @ vectors)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def _leading(operator: scipy.sparse.linalg.LinearOperator, k: int, restarts: int | None = None) -> Array:
    """[N, k] eigenvectors of the k largest eigenvalues of a positive semidefinite operator.

    Lanczos' method starts from one vector, so of an eigenspace of several dimensions it sees one direction, and
    the others only by rounding. What is orthogonal to the vectors found is therefore searched again until it has
    nothing larger.
    """
    n = operator.shape[0]
    values, vectors = _lanczos(operator, k, restarts)
    while True:
        found = vectors

        def without(x: Array, found: Array = found) -> Array:
            x = x.reshape(-1)
            x = operator.matvec(x - found @ (found.T @ x))
            return np.asarray(x - found @ (found.T @ x))

        rest = scipy.sparse.linalg.LinearOperator((n, n), matvec=without, dtype=np.float64)
        others, missed = _lanczos(rest, min(k, n - k), restarts)
        better = others > values.min() + _SAME * values.max()
        if not better.any():
            return np.asarray(vectors)
        values = np.concatenate([values, others[better]])
        order = np.argsort(-values, kind="stable")[:k]
        values, vectors = values[order], np.hstack([vectors, missed[:, better]])[:, order]


def _lanczos(operator: scipy.sparse.linalg.LinearOperator, k: int, restarts: int | None) -> tuple[Array, Array]:
    """Some eigenpairs at the upper end, the same in every call."""
    random = np.random.default_rng(0)
    seeded = {"rng": random} if _TAKES_RNG else {}
    start = random.standard_normal(operator.shape[0])
    values, vectors = scipy.sparse.linalg.eigsh(operator, k=k, which="LA", v0=start, maxiter=restarts, **seeded)
    return values, vectors


def _canonical(values: Array, vectors: Array) -> tuple[Array, Array]:
    """Make equal eigenvalues exactly equal, and the vectors independent of how the solver found them."""
    if values.size == 0:
        return values, vectors
    scale = max(1.0, float(np.abs(values).max()))
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > _SAME * scale)
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=True):
        value = values[start:stop].mean()
        values[start:stop] = 0.0 if value <= _SAME * scale else value
        if stop - start > 1:
            vectors[:, start:stop] = _pivoted(vectors[:, start:stop])
    magnitude = np.abs(vectors)
    leading = np.argmax(magnitude >= magnitude.max(axis=0) * (1 - _TIE), axis=0)
    signs = np.sign(vectors[leading, np.arange(len(values))])
    return values, np.ascontiguousarray(vectors * signs)


def _pivoted(space: Array) -> Array:
    """The basis of an eigenspace that Gram-Schmidt gives on the columns of its projector, largest first.

    What remains after each step is again a projector, so the largest norm never falls below 1/N.
    """
    n, m = space.shape
    rotation, basis = np.zeros((m, m)), np.zeros((n, m))
    norms = np.einsum("ij,ij->i", space, space)  # the projector's diagonal
    for step in range(m):
        pivot = int(np.argmax(norms >= norms.max() * (1 - _TIE)))
        done, direction = rotation[:, :step], space[pivot]
        for _ in range(2):  # once more for orthogonality to the last digit
            direction = direction - done @ (done.T @ direction)
        rotation[:, step] = direction / np.linalg.norm(direction)
        basis[:, step] = space @ rotation[:, step]
        norms -= basis[:, step] ** 2
    return basis
