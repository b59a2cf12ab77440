"""Proposition 1 as a construction: the filter that maps given features to given targets."""

from typing import NamedTuple

import torch
from torch import Tensor

from mimogc.spectral import FourierBasis


class UniversalFilter(NamedTuple):
    """A filter with Θ * X = Y on every component that X has."""

    theta: Tensor  #: [N, C, F] float64, in the node domain
    absent: Tensor  #: [A] the components that X lacks; Y is reached exactly where it lacks them too


def universal_filter(x: Tensor, y: Tensor, basis: FourierBasis, tolerance: float | None = None) -> UniversalFilter:
    r"""The filter of smallest norm with :math:`\Theta * X = Y`.

    With the rows :math:`a = u_k^\top X` and :math:`b = u_k^\top Y` of component k, :math:`W^{(k)} = a^\top b/\|a\|^2`
    solves :math:`a W^{(k)} = b` and no smaller matrix does. It needs a row that is not zero, where the paper asks for
    entries that are not zero, and it fits any numbers of channels, where the constant of the paper's proof,
    :math:`b_n/(c\,a_m)`, fits d = c only.

    Args:
        x: [N, F] the features.
        y: [N, C] the targets.
        basis: a complete Fourier basis.
        tolerance: a component whose row is shorter than this part of the norm of X is absent; by default
            1e-12 for float64 and 1e-6 for float32.
    """
    if x.dim() != 2 or y.dim() != 2 or x.size(0) != y.size(0):
        raise ValueError(f"y: expected [N, C] with the nodes of x [N, F], got x {list(x.shape)}, y {list(y.shape)}")
    basis.check_complete()
    if tolerance is None:
        tolerance = 1e-12 if x.dtype == torch.float64 else 1e-6
    a, b = basis.transform(x), basis.transform(y)  # [N, F], [N, C]
    length = a.norm(dim=1)
    absent = length <= tolerance * a.norm()
    scale = torch.where(absent, torch.zeros_like(length), length.square().reciprocal())
    theta_hat = torch.einsum("kc,kf,k->kcf", b, a, scale)  # W^(k)ᵀ
    return UniversalFilter(basis.inverse(theta_hat), absent.nonzero().flatten())
