"""The batched methods whose coefficients do not depend on the features: ACM, GIN and the exact MIMO-GC."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mimogc.ops import propagate
from mimogc.training.batched.base import Batched, Problem


class ACM(Batched):
    """Σ_k Ã^(k) X W^(k) with coefficients that depend on the graph only: linear least squares."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        spread = []
        for layer, problem in zip(layers, problems, strict=True):
            operator = layer.operator(problem.x, problem.graph)
            copies = problem.x.unsqueeze(1).expand(-1, layer.heads, -1)
            spread.append(propagate(operator.alpha, copies, operator.graph, reduce="none").flatten(1))
        self.spread = torch.stack(spread).detach()  # [B, n, K·F]: the Ã^(k) X side by side

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        weight = parameters["lin.weight"]  # [K·C, F]
        return (weight.view(-1, self.channels, weight.size(1)).mT.flatten(0, 1),)  # [K·F, C]

    def forward(self) -> Tensor:
        return torch.bmm(self.spread, self.weights[0])

    def backward(self, grad: Tensor) -> None:
        torch.bmm(self.spread.mT, grad, out=self.slopes[0])


class GIN(Batched):
    """MLP(x_i + Σ_j x_j) with one hidden layer."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        sums = [propagate(p.graph.ones(p.x.dtype), p.x.unsqueeze(1), p.graph) for p in problems]
        self.sums = self.x + torch.stack(sums)  # [B, n, F]

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        hidden, last = parameters["hidden.weight"], parameters["last.weight"]
        return (hidden.t(), parameters["hidden.bias"].view(1, -1), last.t(), parameters["last.bias"].view(1, -1))

    def forward(self) -> Tensor:
        hidden, hidden_bias, last, last_bias = self.weights
        self.active = torch.baddbmm(hidden_bias, self.sums, hidden).relu_()
        return torch.baddbmm(last_bias, self.active, last)

    def backward(self, grad: Tensor) -> None:
        hidden, hidden_bias, last, last_bias = self.slopes
        torch.bmm(self.active.mT, grad, out=last)
        torch.sum(grad, 1, keepdim=True, out=last_bias)
        inner = torch.bmm(grad, self.weights[2].mT).mul_(self.active > 0)
        torch.bmm(self.sums.mT, inner, out=hidden)
        torch.sum(inner, 1, keepdim=True, out=hidden_bias)


class MIMO(Batched):
    """U (Θ̂ ⊙ Uᵀ X): the exact MIMO graph convolution with a free transformed filter."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.vectors = torch.stack([layer.vectors for layer in layers]).to(self.x.dtype)  # [B, n, n]
        self.xhat = torch.bmm(self.vectors.mT, self.x).unsqueeze(-1)  # [B, n, F, 1]
        self.product = torch.empty_like(self.weights[0])

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (parameters["weight"].mT,)  # [n, F, C]

    def forward(self) -> Tensor:
        torch.mul(self.xhat, self.weights[0], out=self.product)
        return torch.bmm(self.vectors, self.product.sum(2))

    def backward(self, grad: Tensor) -> None:
        ghat = torch.bmm(self.vectors.mT, grad).unsqueeze(2)  # [B, n, 1, C]
        torch.mul(self.xhat, ghat, out=self.slopes[0])
