"""The batched GATv2: softmax attention, scored once for each pair of neighbours."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import propagate
from mimogc.training.batched.attention import leaky_relu, leaky_relu_backward
from mimogc.training.batched.base import Batched, Problem, side_by_side


class GATv2(Batched):
    """Softmax attention with one matrix for both ends, v_kᵀ LeakyReLU(W^(k) x_i + W^(k) x_j).

    The graph is undirected and the score symmetric in i and j: it is computed once for a pair of neighbours. Each run
    has room for M pairs, each node for D edges (its slots); what nobody uses repeats one of the same run or node.
    """

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.heads: int = layers[0].heads
        self.slope: float = layers[0].coefficients.negative_slope
        self.graph = graph = side_by_side(problems, layers[0].add_self_loops)
        rising = torch.nonzero(graph.src <= graph.dst).flatten()  # an edge of each pair
        falling = torch.argsort(graph.src * graph.num_nodes + graph.dst)[rising]  # and the other; a loop has one
        run, place = self._lay_out_pairs(rising)
        slot = self._lay_out_slots()

        # Where things are in flattened tensors: scores are [B, K, M], slots [D, B·n, K], coefficients [E, K].
        score = torch.empty(graph.num_edges, dtype=torch.long)
        score[rising] = score[falling] = run * self.heads * self.pairs + place
        empty = (len(self.edge) - 1) * graph.num_nodes + torch.arange(self.runs) * self.nodes
        twins = empty.view(1, -1, 1).repeat(2, 1, self.pairs)  # [2, B, M]: the slots of both edges of a pair
        twins[0, run, place] = slot[rising]
        twins[1, run, place] = torch.where(rising == falling, empty[run], slot[falling])
        heads = torch.arange(self.heads)
        self.slot_score = (score[self.edge].unsqueeze(-1) + heads * self.pairs).flatten()
        self.slot_edge = (self.edge.unsqueeze(-1) * self.heads + heads).flatten()
        self.edge_slot = (slot.unsqueeze(-1) * self.heads + heads).flatten()
        self.score_slot = (twins.unsqueeze(2) * self.heads + heads.view(-1, 1)).view(2, -1)

        self.blocks = torch.eye(self.heads, dtype=self.x.dtype).repeat_interleave(self.channels, 1)  # [K, K·C]
        self.bent, self.inner = self.buffers(2, self.pairs, self.heads * self.channels)
        self.slots, self.alpha = self.used.new_empty(2, *self.used.shape)

    def _lay_out_pairs(self, rising: Tensor) -> tuple[Tensor, Tensor]:
        """Number the pairs within their runs; returns the run and the number of each."""
        run = self.graph.dst[rising] // self.nodes
        place = torch.arange(len(run)) - torch.searchsorted(run, run)
        self.pairs = int(place.max()) + 1
        ends = (torch.arange(self.runs) * self.nodes).view(1, -1, 1).repeat(2, 1, self.pairs)
        ends[:, run, place] = self.graph.edge_index[:, rising]
        self.ends = ends.view(2, -1)  # [2, B·M]
        pair = run * self.pairs + place
        at_ends = torch.stack([pair.repeat(2), self.ends[:, pair].flatten()])
        self.incidence = Graph.from_edge_index(at_ends, (self.runs * self.pairs, self.graph.num_nodes))
        self.ones = self.x.new_ones(self.incidence.num_edges, 1)
        return run, place

    def _lay_out_slots(self) -> Tensor:
        """Give every edge a slot of its target, leaving each node's last one empty; returns them [E]."""
        degree = self.graph.in_degree
        depth = int(degree.max()) + 1
        start = degree.cumsum(0) - degree
        edges = torch.arange(self.graph.num_edges)
        rank = edges - start[self.graph.dst]
        self.edge = start.repeat(depth, 1)  # [D, B·n]: the edge of each slot
        self.edge[rank, self.graph.dst] = edges
        used = torch.arange(depth).view(-1, 1) < degree
        self.used = used.repeat_interleave(self.heads, 1).to(self.x.dtype)  # [D, B·n·K]
        return rank * self.graph.num_nodes + self.graph.dst

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return parameters["lin.weight"].t(), parameters["coefficients.att"].view(1, -1)  # [F, K·C], [1, K·C]

    def forward(self) -> Tensor:
        weight, score = self.weights
        h = torch.bmm(self.x, weight).view(-1, self.heads * self.channels)
        torch.index_select(h, 0, self.ends[0], out=self.bent.view(-1, h.size(1)))
        torch.index_select(h, 0, self.ends[1], out=self.inner.view(-1, h.size(1)))
        leaky_relu(self.bent.add_(self.inner), self.slope, out=self.bent)  # of W x_i + W x_j
        self.score = score * self.blocks  # [B, K, K·C]
        scores = torch.bmm(self.score, self.bent.mT)  # [B, K, M]
        torch.index_select(scores.view(-1), 0, self.slot_score, out=self.alpha.view(-1))
        self.alpha.sub_(self.alpha.amax(0)).exp_().mul_(self.used)
        self.alpha.div_(self.alpha.sum(0))
        alpha = self.alpha.view(-1).index_select(0, self.edge_slot).view(-1, self.heads)
        return self.propagated(propagate, alpha, h.view(-1, self.heads, self.channels))

    def backward(self, grad: Tensor) -> None:
        alpha, h = self.gradients(grad)
        torch.index_select(alpha.view(-1), 0, self.slot_edge, out=self.slots.view(-1))
        mean = self.slots.mul_(self.alpha).sum(0)
        slots = self.slots.sub_(self.alpha.mul_(mean)).view(-1)  # the derivative of a softmax
        scores = slots.index_select(0, self.score_slot[0]).add_(slots.index_select(0, self.score_slot[1]))
        scores = scores.view(self.runs, self.heads, self.pairs)
        torch.sum(torch.bmm(scores, self.bent).mul_(self.blocks), 1, keepdim=True, out=self.slopes[1])
        torch.bmm(scores.mT, self.score, out=self.inner)
        leaky_relu_backward(self.inner, self.bent, self.slope, True, grad_input=self.inner)
        h = propagate(self.ones, self.inner.view(-1, 1, h[0].numel()), self.incidence).add_(h.flatten(1))
        torch.bmm(self.x.mT, h.view(self.runs, self.nodes, -1), out=self.slopes[0])
