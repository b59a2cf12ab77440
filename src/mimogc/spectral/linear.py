"""A layer as a linear map J[i,c,j,f] from features to features, in closed form or by differentiation."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.spectral.basis import check_graph

Layer = Callable[..., Any]


class Operator(Protocol):
    """What ``layer.operator(x, graph)`` returns: the layer as Σ_k Ã^(k) X W^(k)."""

    @property
    def alpha(self) -> Tensor: ...  # [E, K]

    @property
    def weight(self) -> Tensor: ...  # [K, F, C]

    @property
    def graph(self) -> Graph: ...  # the edges that alpha is on


@dataclass(frozen=True)
class ClosedForm:
    """Σ_k Ã^(k) X W^(k), in float64, with duplicate edges added up."""

    src: Tensor  # [E] distinct edges, sorted by (dst, src)
    dst: Tensor  # [E]
    alpha: Tensor  # [E, K]
    weight: Tensor  # [K, F, C]
    num_nodes: int
    precision: torch.dtype  # what alpha and weight were computed in

    def squared_norm(self) -> Tensor:
        flat = self.weight.flatten(1)
        return torch.sum((self.alpha.T @ self.alpha) * (flat @ flat.T))

    def diagonal(self, vectors: Tensor) -> Tensor:
        """D[k,c,f] = Σ_m (u_kᵀ Ã^(m) u_k) W^(m)_fc, with a sparse product per graph; vectors: [N, M]."""
        u = vectors.cpu().numpy()
        indices = self.src.cpu().numpy()
        counts = torch.bincount(self.dst, minlength=self.num_nodes).cumsum(0)
        indptr = np.concatenate([[0], counts.cpu().numpy()])
        quadratic = []
        for values in self.alpha.T.cpu().numpy():
            matrix = scipy.sparse.csr_array((values, indices, indptr), shape=(self.num_nodes,) * 2)
            quadratic.append(np.einsum("nm,nm->m", u, matrix @ u))
        forms = torch.from_numpy(np.stack(quadratic)).to(self.weight.device)  # [K, M]
        return torch.einsum("km,kfc->mcf", forms, self.weight)

    def schmidt_values(self) -> Tensor:
        """The singular values of J as an N² × C·F matrix: it is alpha · weight, so two small QRs suffice."""
        left = torch.linalg.qr(self.alpha, mode="r").R
        right = torch.linalg.qr(self.weight.flatten(1).T, mode="r").R
        values: Tensor = torch.linalg.svdvals(left @ right.T)
        return values


@dataclass(frozen=True)
class DenseForm:
    """J itself, in float64."""

    jacobian: Tensor  # [N, C, N, F]
    precision: torch.dtype

    def squared_norm(self) -> Tensor:
        return self.jacobian.square().sum()

    def diagonal(self, vectors: Tensor) -> Tensor:
        half = torch.tensordot(vectors.T.to(self.jacobian.device), self.jacobian, dims=1)  # [M, C, N, F]
        return torch.einsum("kcjf,jk->kcf", half, vectors.to(half.device))

    def schmidt_values(self) -> Tensor:
        n, c, _, f = self.jacobian.shape
        values: Tensor = torch.linalg.svdvals(self.jacobian.permute(0, 2, 1, 3).reshape(n * n, c * f))
        return values


LinearForm = ClosedForm | DenseForm


def linear_form(
    layer: Layer, x: Tensor, graph: Graph, differentiate: bool = False, memory_limit: int = 2 * 2**30
) -> LinearForm:
    """The layer as a linear map at x: from ``layer.operator`` where there is one, else by differentiation."""
    check_graph(graph)
    if x.dim() != 2 or x.size(0) != graph.num_nodes:
        raise ValueError(f"x: expected shape [{graph.num_nodes}, F], got {list(x.shape)}")
    operator: Callable[[Tensor, Graph], Operator] | None = getattr(layer, "operator", None)
    if operator is not None and not differentiate:
        # Some layers have a closed form only with some of their options.
        with torch.no_grad(), contextlib.suppress(NotImplementedError):
            return closed_form(operator(x, graph))
    return DenseForm(_jacobian(layer, x, graph, memory_limit).double(), x.dtype)


def closed_form(operator: Operator) -> ClosedForm:
    """The operator in float64, with duplicate edges merged."""
    edges, n = operator.graph, operator.graph.num_nodes
    alpha = operator.alpha.detach().double()
    key, group = torch.unique(edges.dst * n + edges.src, return_inverse=True)
    merged = alpha.new_zeros(key.numel(), alpha.size(1)).index_add(0, group, alpha)
    weight = operator.weight.detach().double()
    return ClosedForm(key % max(n, 1), key // max(n, 1), merged, weight, n, operator.alpha.dtype)


def _jacobian(layer: Layer, x: Tensor, graph: Graph, memory_limit: int) -> Tensor:
    """∂ layer(x)[i,c] / ∂ x[j,f], one backward pass per row: torch.func is wrong over custom kernels."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        # Our own layers take the graph with its edge attributes, others the plain tensor.
        out = layer(x, graph if hasattr(layer, "operator") else graph.edge_index)
        if not isinstance(out, Tensor) or out.dim() != 2 or out.size(0) != x.size(0):
            got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(f"layer: expected it to return node features [{x.size(0)}, C], got {got}")
        needed = 3 * 8 * out.numel() * x.numel()  # J and what is computed from it
        if needed > memory_limit:
            raise ValueError(
                f"layer: the Jacobian of {type(layer).__name__} from {list(x.shape)} to {list(out.shape)} takes about "
                f"{needed / 2**30:.1f} GiB, more than the memory_limit of {memory_limit / 2**30:.1f} GiB; give the "
                "layer an operator(x, graph), use a smaller graph, or raise memory_limit"
            )
        if not out.requires_grad:
            return x.new_zeros(*out.shape, *x.shape)
        rows = [torch.autograd.grad(entry, x, retain_graph=True, materialize_grads=True)[0] for entry in out.flatten()]
    return torch.stack(rows).view(*out.shape, *x.shape) if rows else x.new_zeros(*out.shape, *x.shape)
