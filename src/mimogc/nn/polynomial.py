"""PolynomialConv: polynomial graph filters of any degree as a trainable layer."""

import math
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.inits import glorot, zeros

from mimogc._polynomials import POLYNOMIALS, terms
from mimogc.graph import Graph
from mimogc.nn._inputs import check_features, no_jit, plain_graph
from mimogc.nn._layout import Operator
from mimogc.nn._parameters import check_size
from mimogc.ops import propagate


class PolynomialConv(torch.nn.Module):
    r"""A polynomial filter with a feature transformation for each power (Defferrard et al.; Levie et al.).

    .. math::
        \mathbf{X}^{\prime} = \sum_{k=0}^{K} p_k(\mathbf{A}_{sym})\, \mathbf{X} \mathbf{V}^{(k)}

    By Proposition 2 of Roth and Liebig it is a MIMO-GC on an undirected graph, and an LMGC on the K-hop
    graph. The :math:`p_k` are powers, Chebyshev polynomials :math:`T_k` (the spectrum of A_sym is in [−1, 1],
    so nothing is rescaled), or Cayley polynomials: :math:`p_0 = 1`, then :math:`2\,\mathrm{Re}\,C^k` and
    :math:`-2\,\mathrm{Im}\,C^k` of :math:`C = (hL - i)(hL + i)^{-1}`, with :math:`L = I - A_{sym}` and a
    learnable zoom h > 0. A Cayley filter of degree K therefore has 2K + 1 matrices.

    Args:
        in_channels: size of each input.
        out_channels: size of each output.
        degree: the degree K.
        basis: ``"monomial"``, ``"chebyshev"`` or ``"cayley"``.
        add_self_loops: replace self-loops by exactly one per node before A_sym is formed.
        bias: whether to add a learnable bias.

    Shapes:
        - **input:** ``x [N, F]``; ``edge_index [2, E]``, whatever else `LMGConv` accepts, or a `mimogc.Graph`, without
          weights or attributes
        - **output:** ``[N, C]``
    """

    __prepare_scriptable__ = no_jit

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        degree: int = 2,
        basis: str = "monomial",
        add_self_loops: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if basis not in POLYNOMIALS:
            raise ValueError(f"basis: expected one of {', '.join(POLYNOMIALS)}, got {basis!r}")
        check_size("degree", degree, smallest=0)
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.degree = degree
        self.basis = basis
        self.add_self_loops = add_self_loops
        count = 2 * degree + 1 if basis == "cayley" else degree + 1
        self.weight = Parameter(torch.empty(count, in_channels, out_channels))
        self.log_zoom = Parameter(torch.empty(())) if basis == "cayley" else None
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        glorot(self.weight)
        zeros(self.log_zoom)
        zeros(self.bias)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        check_features(x, self.in_channels, like=self.weight)
        graph = plain_graph(edge_index, x.size(0), self.add_self_loops)
        alpha = graph.normalization(x.dtype).view(-1, 1)  # A_sym
        if self.basis == "cayley":
            found = self._cayley(x, alpha, graph)
        else:
            found = terms(lambda y: _product(alpha, y, graph), x, self.degree, self.basis)
        out = torch.cat(found, dim=1) @ self.weight.flatten(0, 1)
        return out if self.bias is None else out + self.bias

    def _cayley(self, x: Tensor, alpha: Tensor, graph: Graph) -> list[Tensor]:
        """[x, 2 Re Cx, −2 Im Cx, …], with C = I − 2i (hL + i)⁻¹."""
        assert self.log_zoom is not None
        if not graph.is_undirected:
            raise ValueError(
                "edge_index: Cayley filters need an undirected graph, got a directed one, on which hL + i "
                "may have no inverse; use Graph.to_undirected()"
            )
        zoom = self.log_zoom.exp()
        real, imaginary = x, torch.zeros_like(x)
        found = [x]
        for _ in range(self.degree):
            y_real, y_imaginary = _resolvent(real, imaginary, zoom, alpha, graph)
            real, imaginary = real + 2 * y_imaginary, imaginary - 2 * y_real
            found += [2 * real, -2 * imaginary]
        return found

    def operator(self, x: Tensor, graph: Any) -> Operator:
        """The layer as an LMGC on the K-hop graph: alpha [E', K + 1] holds p_k(A_sym), weight is V.

        There is none for Cayley filters: they reach every node.
        """
        if self.basis == "cayley":
            raise NotImplementedError("operator: a Cayley filter is not local, its inverse fills the whole graph")
        given = plain_graph(graph, x.size(0), self.add_self_loops)
        n = given.num_nodes
        entries = (given.dst.cpu().numpy(), given.src.cpu().numpy())
        adjacency = scipy.sparse.csr_array((given.normalization(x.dtype).cpu().numpy(), entries), shape=(n, n))
        identity = scipy.sparse.eye_array(n, dtype=adjacency.dtype, format="csr")
        edges, alpha = _on_one_graph(terms(lambda power: adjacency @ power, identity, self.degree, self.basis))
        graph = Graph.from_edge_index(torch.from_numpy(edges).to(x.device), n)
        return Operator(torch.from_numpy(alpha).to(x)[graph.perm], self.weight, graph)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, degree={self.degree}, "
            f"basis={self.basis!r})"
        )


def _on_one_graph(matrices: list[Any]) -> tuple[Any, Any]:
    """The union of the matrices' entries as edge_index [2, E], and their values there, [E, K]."""
    n = matrices[0].shape[0]
    keys = []
    for matrix in matrices:
        coordinates = matrix.tocoo()
        keys.append(coordinates.row.astype(np.int64) * n + coordinates.col)
    union = np.unique(np.concatenate(keys))
    alpha = np.zeros((len(union), len(matrices)))
    for k, (key, matrix) in enumerate(zip(keys, matrices, strict=True)):
        alpha[np.searchsorted(union, key), k] = matrix.tocoo().data
    return np.stack([union % max(n, 1), union // max(n, 1)]), alpha


def _product(alpha: Tensor, x: Tensor, graph: Graph) -> Tensor:
    return propagate(alpha, graph.gathered(x).unsqueeze(1), graph)


def _resolvent(real: Tensor, imaginary: Tensor, zoom: Tensor, alpha: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """(hL + i)⁻¹ of real + i·imaginary, differentiable once in the features and in the zoom h."""
    stacked = torch.cat([real, imaginary], dim=1)
    frozen = float(zoom.detach())
    with torch.no_grad():
        solution = _solve(stacked, frozen, 1.0, alpha, graph)
    # A step of Newton's method changes no value but carries the gradients: y + M⁻¹(v − M(h) y).
    y_real, y_imaginary = solution.chunk(2, dim=1)
    laplacian = solution - _product(alpha, solution, graph)
    applied = zoom * laplacian + torch.cat([-y_imaginary, y_real], dim=1)
    step: Tensor = _Solve.apply(stacked - applied, frozen, alpha, graph)  # type: ignore[no-untyped-call]
    solution = solution + step
    y_real, y_imaginary = solution.chunk(2, dim=1)
    return y_real, y_imaginary


class _Solve(torch.autograd.Function):
    """v → (hL + i)⁻¹ v; the adjoint is (hL − i)⁻¹, since L is symmetric."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, zoom: float, alpha: Tensor, graph: Graph) -> Tensor:
        ctx.zoom, ctx.alpha, ctx.graph = zoom, alpha, graph
        return _solve(v, zoom, 1.0, alpha, graph)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _solve(gradient, ctx.zoom, -1.0, ctx.alpha, ctx.graph), None, None, None


def _solve(v: Tensor, zoom: float, sign: float, alpha: Tensor, graph: Graph) -> Tensor:
    """(hL + sign·i)⁻¹ v by y ← (v + hAy) / (h + sign·i), whose error shrinks by h/√(h² + 1) or more each time."""
    scale = zoom * zoom + 1
    rate = zoom / math.sqrt(scale)
    steps = math.ceil(math.log(torch.finfo(v.dtype).eps) / math.log(rate))
    y = torch.zeros_like(v)
    for _ in range(steps):
        right = v + zoom * _product(alpha, y, graph)
        real, imaginary = right.chunk(2, dim=1)
        y = torch.cat([zoom * real + sign * imaginary, zoom * imaginary - sign * real], dim=1) / scale
    return y
