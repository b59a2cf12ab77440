"""The graph convolution in the Fourier domain: one channel, many channels, and its equivalent forms.

A filter has two representations: `theta` in the node domain, [N] or [N, C, F], and its transform
`theta_hat` = F(θ) = Uᵀθ, [M] or [M, C, F]. Only the transform is independent of the signs of U, so it is the
one to learn or to store. Everything is computed in float64 and returned in the type of the signal.
"""

import torch
from torch import Tensor

from mimogc.spectral.basis import FourierBasis

Filter = Tensor | None  # None where the other of theta and theta_hat is given


def siso_convolution(theta: Filter, x: Tensor, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""The convolution of one channel, :math:`\theta * x = U \,\mathrm{diag}(U^\top\theta)\, U^\top x`.

    Args:
        theta: [N] the filter in the node domain, or None with ``theta_hat``.
        x: [N] the signal.
        basis: the Fourier basis.
        theta_hat: [M] the filter in the Fourier domain.
    """
    if x.dim() != 1:
        raise ValueError(f"x: expected one channel of shape [N], got {list(x.shape)}; see mimo_convolution")
    weight = _transformed(theta, theta_hat, basis, ())
    return basis.inverse(weight * basis.transform(x)).to(x.dtype)


def mimo_convolution(theta: Filter, x: Tensor, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""The MIMO graph convolution of Theorem 1, :math:`\Theta * X = U (F(\Theta) \odot U^\top X)`.

    The product :math:`F(\Theta)_k (U^\top X)_k` is one of a matrix with a vector for each component k. Given
    ``theta_hat`` the cost is O(N²(F + C) + N·F·C).

    Args:
        theta: [N, C, F] the filter in the node domain, or None with ``theta_hat``.
        x: [N, F] the signal.
        basis: the Fourier basis, complete or not.
        theta_hat: [M, C, F] the filter in the Fourier domain.
    """
    weight = _transformed(theta, theta_hat, basis, _channels(x))
    x_hat = basis.transform(x)  # [M, F]
    return basis.inverse(torch.einsum("kcf,kf->kc", weight, x_hat)).to(x.dtype)


def mimo_graphs(theta: Filter, x: Tensor, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""The same convolution as message passing on N complete graphs, :math:`\sum_k A^{(k)} X W^{(k)}`.

    The weights of graph k are :math:`A^{(k)} = u_k u_k^\top` and :math:`W^{(k)} = F(\Theta)_k^\top`.
    """
    weight = _transformed(theta, theta_hat, basis, _channels(x))
    out = x.new_zeros(x.size(0), weight.size(1), dtype=weight.dtype)
    for u, w in zip(basis.vectors.T, weight, strict=True):
        out = out + torch.outer(u, u) @ x.to(weight.dtype) @ w.T
    return out.to(x.dtype)


def pairwise_maps(theta: Filter, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""[N, N, C, F]: the map of each pair of nodes, :math:`W_{(i,j)} = \sum_k U_{ik} U_{jk} F(\Theta)_k`."""
    weight = _transformed(theta, theta_hat, basis, (None, None))
    return torch.einsum("ik,jk,kcf->ijcf", basis.vectors, basis.vectors, weight)


def mimo_pairwise(theta: Filter, x: Tensor, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""The same convolution with a map for each pair of nodes, :math:`x'_i = \sum_j W_{(i,j)} x_j`."""
    _channels(x)
    maps = pairwise_maps(theta, basis, theta_hat=theta_hat)
    if maps.size(3) != x.size(1):
        raise ValueError(f"theta: expected {x.size(1)} input channels, like x, got {maps.size(3)}")
    return torch.einsum("ijcf,jf->ic", maps, x.to(maps.dtype)).to(x.dtype)


def mimo_channel_pairs(theta: Filter, x: Tensor, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""Bruna's form of it: a filter per pair of channels, :math:`\sum_p \theta_{(p,q)} * X_{:,p}`."""
    weight = _transformed(theta, theta_hat, basis, _channels(x))
    columns = []
    for q in range(weight.size(1)):
        terms = [siso_convolution(None, x[:, p], basis, theta_hat=weight[:, q, p]) for p in range(x.size(1))]
        columns.append(torch.stack(terms).sum(0) if terms else x.new_zeros(x.size(0)))
    return torch.stack(columns, dim=1) if columns else x.new_zeros(x.size(0), 0)


def mimo_kronecker(theta: Filter, x: Tensor, basis: FourierBasis, *, theta_hat: Filter = None) -> Tensor:
    r"""The same convolution in the proof's form, :math:`(\sum_k F(\Theta)_k \otimes u_k u_k^\top)\,vec(X)`.

    It needs a matrix of N·C × N·F and exists to be compared with.
    """
    weight = _transformed(theta, theta_hat, basis, _channels(x))
    n, c = x.size(0), weight.size(1)
    matrix = weight.new_zeros(n * c, n * x.size(1))
    for u, w in zip(basis.vectors.T, weight, strict=True):
        matrix = matrix + torch.kron(w.contiguous(), torch.outer(u, u))
    stacked = x.to(weight.dtype).T.reshape(-1)  # vec stacks the columns
    return (matrix @ stacked).view(c, n).T.to(x.dtype)


def _channels(x: Tensor) -> tuple[int | None, int | None]:
    if x.dim() != 2:
        raise ValueError(f"x: expected shape [N, F], got {list(x.shape)}")
    return None, x.size(1)


def _transformed(theta: Filter, theta_hat: Filter, basis: FourierBasis, channels: tuple[int | None, ...]) -> Tensor:
    """F(θ) in float64, after checking its shape; None in `channels` is any size."""
    if (theta is None) == (theta_hat is None):
        raise ValueError("theta: expected either theta or theta_hat, got " + ("none" if theta is None else "both"))
    name, given = ("theta", theta) if theta is not None else ("theta_hat", theta_hat)
    assert given is not None
    rows = basis.num_nodes if name == "theta" else basis.values.size(0)
    expected = (rows, *channels)
    if given.dim() != len(expected) or any(e not in (None, s) for e, s in zip(expected, given.shape, strict=True)):
        wanted = ", ".join("any" if size is None else str(size) for size in expected)
        raise ValueError(f"{name}: expected shape [{wanted}], got {list(given.shape)}")
    return basis.transform(given) if name == "theta" else given.to(basis.vectors.dtype)
