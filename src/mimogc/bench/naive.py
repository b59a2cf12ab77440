"""The layer as one would first write it with PyG, straight from its equation: the baseline for speed and memory."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot, zeros

from mimogc.nn import LMGConv
from mimogc.nn.coefficients.lmgc import offsets


class NaiveLMGC(MessagePassing):
    """Σ_k Ã^(k) X W^(k), every message concatenated, scored and stored edge by edge."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        bias: bool = True,
        offset: bool = True,
    ) -> None:
        super().__init__(aggr="sum", node_dim=0)
        self.heads, self.out_channels, self.negative_slope = heads, out_channels, negative_slope
        self.lin = Linear(in_channels, heads * out_channels, bias=False, weight_initializer="glorot")
        self.att = Parameter(torch.empty(heads, 2 * heads * out_channels))
        self.offset = Parameter(offsets(heads)) if offset else None
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        glorot(self.att)
        zeros(self.bias)

    @torch.no_grad()
    def copy_from(self, layer: LMGConv) -> None:
        """Take over the weights of the library's layer of the same size."""
        att: Any = layer.coefficients.att
        self.lin.weight.copy_(layer.lin.weight)
        if self.offset is not None:
            self.offset.copy_(cast(Tensor, layer.coefficients.offset))
        if self.bias is not None:
            self.bias.copy_(cast(Tensor, layer.bias))
        self.att.copy_(torch.cat(att.chunk(2), dim=1))  # targets' half, sources' half

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.propagate(edge_index, h=self.lin(x))
        return out if self.bias is None else out + self.bias

    def message(self, h_i: Tensor, h_j: Tensor) -> Tensor:
        both = F.leaky_relu(torch.cat([h_i, h_j], dim=1), self.negative_slope)  # [E, 2·K·C]
        score = both @ self.att.t()
        alpha = torch.tanh(score if self.offset is None else score + self.offset)
        return (alpha.unsqueeze(-1) * h_j.view(-1, self.heads, self.out_channels)).sum(1)
