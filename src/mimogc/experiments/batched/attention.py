"""The batched methods whose coefficients are computed from the features: FAGCN, LMGC and GATv2."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mimogc.experiments.batched.base import Batched, Problem, side_by_side
from mimogc.graph import Graph
from mimogc.ops import propagate, propagate_tanh

# With `out`, because a fresh temporary of this size costs more in page faults than in arithmetic.
leaky_relu = torch.ops.aten.leaky_relu.out
leaky_relu_backward = torch.ops.aten.leaky_relu_backward.grad_input


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
        self.h, self.bent, self.inner = self.buffers(3, self.nodes, self.heads * self.channels)

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return parameters["lin.weight"].t(), parameters["coefficients.att"]  # [F, K·C], [2K, K·C]

    def forward(self) -> Tensor:
        weight, score = self.weights
        torch.bmm(self.x, weight, out=self.h)  # [B, n, K·C]
        leaky_relu(self.h, self.slope, out=self.bent)
        terms = torch.bmm(score, self.bent.mT).view(self.runs, 2, self.heads, self.nodes)
        s, t = terms.permute(1, 0, 3, 2).reshape(2, -1, self.heads)
        with torch.enable_grad():
            h = self.h.detach().view(-1, self.heads, self.channels)
            self.parts = s.requires_grad_(), t.requires_grad_(), h.requires_grad_()
            self.out = propagate_tanh(*self.parts, self.graph)
        return self.out.detach().view_as(self.y)

    def backward(self, grad: Tensor) -> None:
        s, t, h = torch.autograd.grad(self.out, self.parts, grad.view_as(self.out))
        terms = torch.cat([s, t], dim=1).view(self.runs, self.nodes, -1)  # [B, n, 2K]
        torch.bmm(terms.mT, self.bent, out=self.slopes[1])
        torch.bmm(terms, self.weights[1], out=self.inner)
        leaky_relu_backward(self.inner, self.h, self.slope, False, grad_input=self.inner)
        torch.bmm(self.x.mT, self.inner.add_(h.view_as(self.inner)), out=self.slopes[0])


class GATv2(Batched):
    """Softmax attention with one matrix for both ends, v_kᵀ LeakyReLU(W^(k) x_i + W^(k) x_j).

    The graph is undirected and the score symmetric in i and j: it is computed once for a pair of neighbours. Each run
    has room for M pairs, each node for D edges (its slots); what nobody uses repeats one of the same run or node.
    """

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.heads: int = layers[0].heads
        self.slope: float = layers[0].coefficients.negative_slope
        self.graph = graph = side_by_side(problems, layers[0].add_self_loops)
        nodes, edges, heads = (
            torch.arange(graph.num_nodes),
            torch.arange(graph.num_edges),
            torch.arange(self.heads),
        )
        rising = edges[graph.src <= graph.dst]
        falling = torch.argsort(graph.src * len(nodes) + graph.dst)[rising]  # the same pairs, turned around
        run = graph.dst[rising] // self.nodes
        place = torch.arange(len(run)) - torch.searchsorted(run, run)
        self.pairs = int(place.max()) + 1
        ends = (torch.arange(self.runs) * self.nodes).view(1, -1, 1).repeat(2, 1, self.pairs)
        ends[:, run, place] = graph.edge_index[:, rising]
        self.ends = ends.view(2, -1)  # [2, B·M]

        depth = int(graph.in_degree.max()) + 1  # the last slot of each node is empty
        start = graph.in_degree.cumsum(0) - graph.in_degree
        rank = edges - start[graph.dst]
        edge = start.repeat(depth, 1)
        edge[rank, graph.dst] = edges
        score = torch.empty_like(edges)
        score[rising] = score[falling] = run * self.heads * self.pairs + place
        slot = rank * graph.num_nodes + graph.dst
        twins = ((depth - 1) * graph.num_nodes + ends[:, :, :1]).repeat(1, 1, self.pairs)
        twins[0, run, place] = slot[rising]
        twins[1, run, place] = torch.where(rising == falling, twins[1, run, place], slot[falling])
        # Places in flattened tensors, all in one gather: scores are [B, K, M], slots [D, B·n, K], alpha [E, K].
        self.slot_score = (score[edge].unsqueeze(-1) + heads * self.pairs).flatten()
        self.slot_edge = (edge.unsqueeze(-1) * self.heads + heads).flatten()
        self.edge_slot = (slot.unsqueeze(-1) * self.heads + heads).flatten()
        self.score_slot = (twins.unsqueeze(2) * self.heads + heads.view(-1, 1)).view(2, -1)  # [2, B·K·M]
        used = torch.arange(depth).view(-1, 1) < graph.in_degree[nodes]
        self.used = used.repeat_interleave(self.heads, 1).to(self.x.dtype)  # [D, B·n·K]

        pair = run * self.pairs + place
        ending = torch.stack([pair.repeat(2), self.ends[:, pair].flatten()])
        self.incidence = Graph.from_edge_index(ending, (self.runs * self.pairs, graph.num_nodes))
        self.ones = self.x.new_ones(self.incidence.num_edges, 1)
        self.blocks = torch.eye(self.heads, dtype=self.x.dtype).repeat_interleave(
            self.channels, 1
        )  # [K, K·C]
        self.sum, self.bent, self.inner = self.buffers(3, self.pairs, self.heads * self.channels)
        self.slots, self.alpha = self.used.new_empty(2, *self.used.shape)

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return parameters["lin.weight"].t(), parameters["coefficients.att"].view(1, -1)  # [F, K·C], [1, K·C]

    def forward(self) -> Tensor:
        weight, score = self.weights
        h = torch.bmm(self.x, weight).view(-1, self.heads * self.channels)
        torch.index_select(h, 0, self.ends[0], out=self.sum.view(-1, h.size(1)))
        torch.index_select(h, 0, self.ends[1], out=self.inner.view(-1, h.size(1)))
        leaky_relu(self.sum.add_(self.inner), self.slope, out=self.bent)
        self.score = score * self.blocks  # [B, K, K·C]
        scores = torch.bmm(self.score, self.bent.mT)  # [B, K, M]
        torch.index_select(scores.view(-1), 0, self.slot_score, out=self.alpha.view(-1))
        self.alpha.sub_(self.alpha.amax(0)).exp_().mul_(self.used)
        self.alpha.div_(self.alpha.sum(0))
        with torch.enable_grad():
            alpha = self.alpha.view(-1).index_select(0, self.edge_slot).view(-1, self.heads)
            self.parts = alpha.requires_grad_(), h.view(-1, self.heads, self.channels).requires_grad_()
            self.out = propagate(*self.parts, self.graph)
        return self.out.detach().view_as(self.y)

    def backward(self, grad: Tensor) -> None:
        alpha, h = torch.autograd.grad(self.out, self.parts, grad.view_as(self.out))
        torch.index_select(alpha.view(-1), 0, self.slot_edge, out=self.slots.view(-1))
        mean = self.slots.mul_(self.alpha).sum(0)
        slots = self.slots.sub_(self.alpha.mul_(mean)).view(-1)  # the derivative of a softmax
        scores = slots.index_select(0, self.score_slot[0]).add_(slots.index_select(0, self.score_slot[1]))
        scores = scores.view(self.runs, self.heads, self.pairs)
        torch.sum(torch.bmm(scores, self.bent).mul_(self.blocks), 1, keepdim=True, out=self.slopes[1])
        torch.bmm(scores.mT, self.score, out=self.inner)
        leaky_relu_backward(self.inner, self.sum, self.slope, False, grad_input=self.inner)
        h = propagate(self.ones, self.inner.view(-1, 1, h[0].numel()), self.incidence).add_(h.flatten(1))
        torch.bmm(self.x.mT, h.view(self.runs, self.nodes, -1), out=self.slopes[0])
