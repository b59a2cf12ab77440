"""MIMOConv: the exact MIMO graph convolution as a trainable layer on one fixed graph."""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.inits import glorot, zeros

from mimogc.nn._inputs import check_features
from mimogc.nn._parameters import check_size


class Basis(Protocol):
    """A Fourier basis, such as `mimogc.spectral.fourier_basis` gives."""

    @property
    def values(self) -> Tensor: ...  # [M]

    @property
    def vectors(self) -> Tensor: ...  # [N, M]


class MIMOConv(torch.nn.Module):
    r"""The MIMO graph convolution of Roth and Liebig, "What Can We Learn From MIMO Graph Convolutions?"
    (Theorem 1).

    .. math::
        \mathbf{X}^{\prime} = \sum_{k} \mathbf{u}_k \mathbf{u}_k^{\top} \mathbf{X} \mathbf{W}^{(k)}

    with the eigenvectors :math:`\mathbf{u}_k` of the graph Laplacian and one transformation of the features
    for each of them. ``weight[k]`` is :math:`\mathbf{W}^{(k)\top}`, the filter in the Fourier domain. The
    layer belongs to the graph of its basis and costs O(N²(F + C) + N·F·C), with ``rank=r`` O(r·(N(F + C) +
    F·C)). By Proposition 1 it can map any features in which no component is absent to any others.

    Args:
        in_channels: size of each input.
        out_channels: size of each output.
        basis: an object with ``values [M]`` and ``vectors [N, M]``, or the two as a pair.
        rank: use only the first r components of the basis, those of the smallest eigenvalues; the others are
            mapped to zero.
        bias: whether to add a learnable bias.

    Shapes:
        - **input:** ``x [N, F]``; ``edge_index`` is accepted, so that the layer fits where others do, and not
          used
        - **output:** ``[N, C]``
    """

    values: Tensor
    vectors: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        basis: Basis | tuple[Tensor, Tensor],
        rank: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        values, vectors = basis if isinstance(basis, tuple) else (basis.values, basis.vectors)
        if vectors.dim() != 2 or values.shape != vectors.shape[1:]:
            raise ValueError(
                f"basis: expected values [M] and vectors [N, M], got {list(values.shape)} and {list(vectors.shape)}"
            )
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels)
        components = values.numel()
        if rank is not None and not 1 <= rank <= components:
            raise ValueError(f"rank: expected 1 to {components}, the components of the basis, got {rank}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.rank = rank
        # In the basis' own precision; the graph is not part of what is learnt, so it is not saved.
        self.register_buffer("values", values[:rank].clone(), persistent=False)
        self.register_buffer("vectors", vectors[:, :rank].clone(), persistent=False)
        self.weight = Parameter(torch.empty(self.values.numel(), out_channels, in_channels))
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        glorot(self.weight)
        zeros(self.bias)

    def forward(self, x: Tensor, edge_index: Any = None) -> Tensor:
        n = self.vectors.size(0)
        if x.dim() != 2 or x.shape != (n, self.in_channels):
            raise ValueError(
                f"x: expected shape [{n}, {self.in_channels}], the nodes of the basis and in_channels, "
                f"got {list(x.shape)}"
            )
        check_features(x, self.in_channels, like=self.weight)
        vectors = self.vectors.to(x.dtype)
        x_hat = vectors.t() @ x  # [M, F]
        out = vectors @ torch.einsum("kcf,kf->kc", self.weight, x_hat)
        return out if self.bias is None else out + self.bias

    def __repr__(self) -> str:
        n, m = self.vectors.shape
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, nodes={n}, components={m})"
