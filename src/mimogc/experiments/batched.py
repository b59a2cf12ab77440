"""Many tiny layers trained as one: B runs side by side, each with its own weights, graph, signals and learning rate.

The gradients are written by hand, because at this size autograd costs more than the arithmetic; the tests compare
them with autograd through the library's layers. Shapes: B runs of n nodes, K graphs, F = d and C = c channels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import propagate, propagate_tanh

leaky_relu_backward = torch.ops.aten.leaky_relu_backward


@dataclass(frozen=True)
class Problem:
    """One task of the universality study: find the weights with layer(x, graph) = y."""

    graph: Graph  # undirected and connected, without self-loops
    x: Tensor  # [n, F]
    y: Tensor  # [n, C]


class Batched:
    """B layers of one method. A subclass lays out the parameters of a layer and gives the two passes."""

    def __init__(self, layers: Sequence[Module], problems: Sequence[Problem]) -> None:
        self.x = torch.stack([problem.x for problem in problems])  # [B, n, F]
        self.y = torch.stack([problem.y for problem in problems])  # [B, n, C]
        self.runs, self.nodes, self.channels = self.y.shape
        packed = [self.pack(dict(layer.named_parameters())) for layer in layers]
        stacked = [torch.stack(tensors).detach() for tensors in zip(*packed, strict=True)]  # each [B, ...]
        self.parameters = torch.cat([tensor.flatten() for tensor in stacked])
        self.gradient = torch.zeros_like(self.parameters)
        shapes = [tensor.shape for tensor in stacked]
        self.weights = views(self.parameters, shapes)
        self.slopes = views(self.gradient, shapes)
        self.setup(layers, problems)

    def setup(self, layers: Sequence[Module], problems: Sequence[Problem]) -> None:
        """Compute what stays the same in all steps."""

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """A layer's parameters, or their gradients, in the layout of `weights`."""
        raise NotImplementedError

    def forward(self) -> Tensor:
        """The outputs [B, n, C]; keeps what `backward` needs."""
        raise NotImplementedError

    def backward(self, grad: Tensor) -> None:
        """Write the gradients of the weights into `slopes`, from the gradient [B, n, C] of the outputs."""
        raise NotImplementedError

    def loss(self) -> Tensor:
        """The mean squared errors [B]; their gradients are in `gradient` afterwards."""
        error = self.forward() - self.y
        loss = error.square().mean((1, 2))
        self.backward(error.mul_(2 / (self.nodes * self.channels)))
        return loss


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
        return (
            hidden.t(),
            parameters["hidden.bias"].view(1, -1),
            last.t(),
            parameters["last.bias"].view(1, -1),
        )

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


class FAGCN(Batched):
    """D^(-1/2) tanh(s_i + t_j) D^(-1/2) X W with s = X v, t = X u: one graph, scored on the input."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.graph = side_by_side(problems, layers[0].add_self_loops)
        scale = self.graph.in_degree.to(self.x.dtype).rsqrt()
        self.scale = scale.view(self.runs, self.nodes, 1)
        self.scaled = self.x * self.scale

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        score = (parameters["coefficients.att_dst.weight"], parameters["coefficients.att_src.weight"])
        return parameters["lin.weight"].t(), torch.cat(score)  # [F, C], [2, F]

    def forward(self) -> Tensor:
        weight, score = self.weights
        s, t = torch.bmm(score, self.x.mT).transpose(0, 1).reshape(2, -1, 1)
        h = torch.bmm(self.scaled, weight).view(-1, 1, self.channels)
        with torch.enable_grad():
            self.parts = s.requires_grad_(), t.requires_grad_(), h.requires_grad_()
            self.out = propagate_tanh(*self.parts, self.graph)
        return self.out.detach().view_as(self.y) * self.scale

    def backward(self, grad: Tensor) -> None:
        s, t, h = torch.autograd.grad(self.out, self.parts, (grad * self.scale).view_as(self.out))
        torch.bmm(self.scaled.mT, h.view_as(self.y), out=self.slopes[0])
        score = torch.stack([s, t]).view(2, self.runs, self.nodes).transpose(0, 1)
        torch.bmm(score, self.x, out=self.slopes[1])


class LMGC(Batched):
    """Equation 12: Σ_k tanh(s_k(i) + t_k(j)) W^(k) x_j with [s, t] = V LeakyReLU(W x)."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.graph = side_by_side(problems, layers[0].add_self_loops)
        self.heads: int = layers[0].heads
        self.slope: float = layers[0].coefficients.negative_slope

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return parameters["lin.weight"].t(), parameters["coefficients.att"]  # [F, K·C], [2K, K·C]

    def forward(self) -> Tensor:
        weight, score = self.weights
        self.h = torch.bmm(self.x, weight)  # [B, n, K·C]
        self.bent = F.leaky_relu(self.h, self.slope)
        terms = torch.bmm(score, self.bent.mT).view(self.runs, 2, self.heads, self.nodes)
        s, t = terms.permute(1, 0, 3, 2).reshape(2, -1, self.heads)
        h = self.h.view(-1, self.heads, self.channels)
        with torch.enable_grad():
            self.parts = s.requires_grad_(), t.requires_grad_(), h.detach().requires_grad_()
            self.out = propagate_tanh(*self.parts, self.graph)
        return self.out.detach().view_as(self.y)

    def backward(self, grad: Tensor) -> None:
        s, t, h = torch.autograd.grad(self.out, self.parts, grad.view_as(self.out))
        terms = torch.cat([s, t], dim=1).view(self.runs, self.nodes, -1)
        torch.bmm(terms.mT, self.bent, out=self.slopes[1])
        bent = torch.bmm(terms, self.weights[1])
        inner = leaky_relu_backward(bent, self.h, self.slope, False).add_(h.view_as(bent))
        torch.bmm(self.x.mT, inner, out=self.slopes[0])


class MIMO(Batched):
    """U (Θ̂ ⊙ Uᵀ X): the exact MIMO graph convolution with a free transformed filter."""

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.vectors = torch.stack([layer.vectors for layer in layers]).to(self.x.dtype)  # [B, n, n]
        self.xhat = torch.bmm(self.vectors.mT, self.x).unsqueeze(-1)  # [B, n, F, 1]

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (parameters["weight"].mT,)  # [n, F, C]

    def forward(self) -> Tensor:
        return torch.bmm(self.vectors, (self.xhat * self.weights[0]).sum(2))

    def backward(self, grad: Tensor) -> None:
        ghat = torch.bmm(self.vectors.mT, grad).unsqueeze(2)  # [B, n, 1, C]
        torch.mul(self.xhat, ghat, out=self.slopes[0])


class GATv2(Batched):
    """Softmax attention with one matrix for both ends, v_kᵀ LeakyReLU(W^(k) x_i + W^(k) x_j).

    The graph is undirected and the score is symmetric in i and j, so it is computed once per pair of neighbours.
    Coefficients are kept as slots [D, B·n, K]: slot d of a node is its d-th edge, the last slot of all is empty.
    """

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.heads: int = layers[0].heads
        self.slope: float = layers[0].coefficients.negative_slope
        self.graph = graph = side_by_side(problems, layers[0].add_self_loops)
        total = graph.num_nodes
        low, high = torch.minimum(graph.src, graph.dst), torch.maximum(graph.src, graph.dst)
        code, pair = torch.unique(low * total + high, return_inverse=True)
        # Each run's pairs in a row of their own, filled up with a pair that no edge uses.
        ends = torch.stack([code // total, code % total])  # [2, M]
        run = ends[0] // self.nodes
        place = torch.arange(len(run)) - torch.searchsorted(run, run)
        self.pairs = int(place.max()) + 1
        at = run * self.pairs + place
        self.ends = torch.zeros(2, self.runs * self.pairs, dtype=torch.long)
        self.ends[:, at] = ends
        pair = at[pair]
        depth = int(graph.in_degree.max()) + 1
        rank = torch.arange(graph.num_edges) - graph.rowptr.long()[graph.dst]
        self.slot = rank * total + graph.dst  # [E] of each edge
        empty = depth * total - 1
        self.pair = torch.full((depth * total,), self.runs * self.pairs)  # [D·B·n] of each slot
        self.pair[self.slot] = pair
        self.edge = torch.full((depth * total,), graph.num_edges)
        self.edge[self.slot] = torch.arange(graph.num_edges)
        self.twins = torch.full((2, self.runs * self.pairs), empty)  # the slots of a pair's two edges
        forward = graph.src <= graph.dst
        self.twins[0, pair[forward]] = self.slot[forward]
        backward = graph.src > graph.dst
        self.twins[1, pair[backward]] = self.slot[backward]
        self.depth = depth

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return parameters["lin.weight"].t(), parameters["coefficients.att"].view(1, -1)  # [F, K·C], [1, K·C]

    def forward(self) -> Tensor:
        weight, score = self.weights
        h = torch.bmm(self.x, weight).view(-1, self.heads * self.channels)
        self.sum = h.index_select(0, self.ends[0]).add_(h.index_select(0, self.ends[1]))  # [B·M, K·C]
        self.bent = F.leaky_relu(self.sum, self.slope).view(self.runs, self.pairs, -1)
        scores = (self.bent * score).view(-1, self.heads, self.channels).sum(-1)
        scores = torch.cat([scores, scores.new_full((1, self.heads), -torch.inf)])
        slots = scores.index_select(0, self.pair).view(self.depth, -1)
        slots = slots.sub_(slots.amax(0)).exp_()
        self.alpha = slots.div_(slots.sum(0)).view(-1, self.heads)  # [D·B·n, K]
        with torch.enable_grad():
            alpha = self.alpha.index_select(0, self.slot).requires_grad_()
            self.parts = alpha, h.view(-1, self.heads, self.channels).requires_grad_()
            self.out = propagate(*self.parts, self.graph)
        return self.out.detach().view_as(self.y)

    def backward(self, grad: Tensor) -> None:
        alpha, h = torch.autograd.grad(self.out, self.parts, grad.view_as(self.out))
        slots = torch.cat([alpha, alpha.new_zeros(1, self.heads)]).index_select(0, self.edge)
        slots = slots.mul_(self.alpha).view(self.depth, -1)
        total = slots.sum(0)
        slots = slots.sub_(self.alpha.view(self.depth, -1) * total).view(-1, self.heads)
        scores = slots.index_select(0, self.twins[0]).add_(slots.index_select(0, self.twins[1]))  # [B·M, K]
        wide = scores.unsqueeze(-1).expand(-1, -1, self.channels).reshape(self.runs, self.pairs, -1)
        torch.sum(wide * self.bent, 1, keepdim=True, out=self.slopes[1])
        inner = wide.mul_(self.weights[1]).view_as(self.sum)
        inner = leaky_relu_backward(inner, self.sum, self.slope, False)
        total = h.reshape(-1, self.heads * self.channels)
        total.index_add_(0, self.ends[0], inner).index_add_(0, self.ends[1], inner)
        torch.bmm(self.x.mT, total.view(self.runs, self.nodes, -1), out=self.slopes[0])


def side_by_side(problems: Sequence[Problem], add_self_loops: bool) -> Graph:
    """The graphs of the problems as the blocks of one."""
    nodes = problems[0].graph.num_nodes
    edges = [problem.graph.edge_index + i * nodes for i, problem in enumerate(problems)]
    return Graph.from_edge_index(torch.cat(edges, 1), nodes * len(problems), add_self_loops=add_self_loops)


def views(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Consecutive parts of a flat tensor in the given shapes, on the same memory."""
    parts = torch.split(flat, [shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


METHODS: dict[str, type[Batched]] = {
    "gatv2": GATv2, "fagcn": FAGCN, "acm": ACM, "gin": GIN, "lmgc": LMGC, "mimogc": MIMO,
}  # fmt: skip
