"""The batched methods whose coefficients are computed from the features: FAGCN and LMGC; GATv2 has its own file."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mimogc.ops import propagate_tanh
from mimogc.training.batched.base import Batched, Problem, side_by_side

# With `out`, because a fresh temporary of this size costs more in page faults than in arithmetic.
leaky_relu = torch.ops.aten.leaky_relu.out
leaky_relu_backward = torch.ops.aten.leaky_relu_backward.grad_input


class FAGCN(Batched):
    """D^(-1/2) tanh(s_i + t_j) D^(-1/2) X W with s = X v, t = X u: one graph, scored on the input."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.graph = side_by_side(problems, layers[0].add_self_loops)
        self.scale = self.graph.in_degree.to(self.x.dtype).rsqrt().view(self.runs, self.nodes, 1)
        self.scaled = self.x * self.scale

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        score = (parameters["coefficients.att_dst.weight"], parameters["coefficients.att_src.weight"])
        return parameters["lin.weight"].t(), torch.cat(score)  # [F, C], [2, F]

    def forward(self) -> Tensor:
        weight, score = self.weights
        s, t = torch.bmm(score, self.x.mT).transpose(0, 1).reshape(2, -1, 1)
        h = torch.bmm(self.scaled, weight).view(-1, 1, self.channels)
        return self.propagated(propagate_tanh, s, t, h) * self.scale

    def backward(self, grad: Tensor) -> None:
        s, t, h = self.gradients(grad * self.scale)
        torch.bmm(self.scaled.mT, h.view_as(self.y), out=self.slopes[0])
        score = torch.stack([s, t]).view(2, self.runs, self.nodes).transpose(0, 1)
        torch.bmm(score, self.x, out=self.slopes[1])


class LMGC(Batched):
    """Equation 12: Σ_k tanh(s_k(i) + t_k(j)) W^(k) x_j with [s, t] = V LeakyReLU(W x)."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.graph = side_by_side(problems, layers[0].add_self_loops)
        self.heads: int = layers[0].heads
        self.slope: float = layers[0].coefficients.negative_slope
        self.h, self.bent, self.inner = self.buffers(3, self.nodes, self.heads * self.channels)

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return parameters["lin.weight"].t(), parameters["coefficients.att"]  # [F, K·C], [2K, K·C]

    def forward(self) -> Tensor:
        weight, score = self.weights
        torch.bmm(self.x, weight, out=self.h)  # [B, n, K·C]
        leaky_relu(self.h, self.slope, out=self.bent)
        terms = torch.bmm(score, self.bent.mT).view(self.runs, 2, self.heads, self.nodes)
        s, t = terms.permute(1, 0, 3, 2).reshape(2, -1, self.heads)
        return self.propagated(propagate_tanh, s, t, self.h.detach().view(-1, self.heads, self.channels))

    def backward(self, grad: Tensor) -> None:
        s, t, h = self.gradients(grad)
        terms = torch.cat([s, t], dim=1).view(self.runs, self.nodes, -1)  # [B, n, 2K]
        torch.bmm(terms.mT, self.bent, out=self.slopes[1])
        torch.bmm(terms, self.weights[1], out=self.inner)
        leaky_relu_backward(self.inner, self.h, self.slope, False, grad_input=self.inner)
        torch.bmm(self.x.mT, self.inner.add_(h.view_as(self.inner)), out=self.slopes[0])
