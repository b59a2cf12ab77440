"""The layers of the script released with the paper, batched: what stands behind its Table 1.

They are not the methods as the paper writes them, and serve the setting ``released`` alone. ``start`` gives the
parameters of one layer, drawn as that script draws them; what is computed with them is said by ``compute``.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module, ModuleDict, Parameter, ReLU, Sequential
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from mimogc.methods import of_the_paper
from mimogc.ops import edge_softmax, pair_scores, propagate, propagate_tanh
from mimogc.training.batched.base import Batched, Problem, side_by_side

HEADS = 4
SLOPE = 0.2  # of LeakyReLU
LIMIT = 1.0  # of the norm of a gradient


class Released(Batched):
    """A form that says what a layer computes and leaves the gradients to autograd. The absolute error is minimised."""

    absolute = True
    limit = LIMIT

    @staticmethod
    @abstractmethod
    def start(channels: int) -> Module:
        """The parameters of one layer before training."""

    def pack(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        self.names = list(parameters)
        return tuple(parameters.values())

    @abstractmethod
    def compute(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The outputs [B, n, C]; the weights have the names and shapes of the layer's, after B."""

    def forward(self) -> Tensor:
        with torch.enable_grad():
            self.parts = [weight.detach().requires_grad_() for weight in self.weights]
            self.out = self.compute(dict(zip(self.names, self.parts, strict=True)))
        return self.out.detach()

    def backward(self, grad: Tensor) -> None:
        for slope, found in zip(self.slopes, self.gradients(grad), strict=True):
            slope.copy_(found)


class GATv2(Released):
    """PyG's `GATv2Conv` with the options of the given layers: the mean over heads that are scored on both ends."""

    @staticmethod
    def start(channels: int) -> Module:
        layer: Module = GATv2Conv(channels, channels, heads=HEADS, concat=False, add_self_loops=False)
        return layer

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.heads: int = layers[0].heads
        self.graph = side_by_side(problems, layers[0].add_self_loops)
        # The kernel has one score vector for a graph, so that every run is scored by itself.
        self.graphs = [side_by_side([problem], layers[0].add_self_loops) for problem in problems]

    def compute(self, weights: Mapping[str, Tensor]) -> Tensor:
        source = affine(self.x, weights, "lin_l")
        target = affine(self.x, weights, "lin_r") if "lin_r.weight" in weights else source
        features = [part.view(self.runs, self.nodes, self.heads, self.channels).unbind() for part in (source, target)]
        runs = zip(*features, weights["att"].squeeze(1).unbind(), self.graphs, strict=True)
        score = torch.cat([pair_scores(h, g, att, graph, SLOPE) for h, g, att, graph in runs])
        h = source.view(-1, self.heads, self.channels)
        out = propagate(edge_softmax(score, self.graph), h, self.graph).view_as(self.y) / self.heads
        return out + weights["bias"].unsqueeze(1) if "bias" in weights else out


class FAGCN(Released):
    """Messages broadcast to E × E × C and averaged: (Σ_j α_ij) times the mean of the affine map over all edges."""

    rank_one = True  #: as released; else Σ_j α_ij (W x_j + b)
    loops = False

    @staticmethod
    def start(channels: int) -> Module:
        maps = PyGLinear(channels, channels, weight_initializer="glorot")
        return ModuleDict({"lin": maps, "score": Linear(2 * channels, 1)})  # of the target, of the source

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.norm = torch.stack([_dense(problem, self.loops)[1] for problem in problems])  # [B, n, n]
        ends = self.norm.ne(0).to(self.x.dtype).sum(1, keepdim=True)
        self.share = ends / ends.sum(2, keepdim=True)  # [B, 1, n]: of the edges, how many leave a node

    def compute(self, weights: Mapping[str, Tensor]) -> Tensor:
        h, score = affine(self.x, weights, "lin"), weights["score.weight"].view(self.runs, 2, -1)
        s, t = torch.bmm(self.x, score.mT).unsqueeze(-1).unbind(2)  # each [B, n, 1]
        if "score.bias" in weights:
            s = s + weights["score.bias"].unsqueeze(1)
        alpha = torch.tanh(s + t.mT) * self.norm
        return alpha.sum(2, keepdim=True) * torch.bmm(self.share, h) if self.rank_one else torch.bmm(alpha, h)


class ACM(Released):
    """The gated ACM with ReLU and three affine filters; the high-pass graph is 1 − A_sym on the edges, plus loops."""

    @staticmethod
    def start(channels: int) -> Module:
        layer = ModuleDict()
        for name in ("low", "high"):
            layer[name] = PyGLinear(channels, channels, weight_initializer="glorot", bias_initializer="zeros")
        layer["own"] = PyGLinear(channels, channels)
        layer.register_parameter("gate", Parameter(torch.empty(3, channels).uniform_(-1, 1)))
        layer.register_parameter("mix", Parameter(torch.empty(3, 3).uniform_(-(3**-0.5), 3**-0.5)))
        return layer

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        adjacency, low = (torch.stack(parts) for parts in zip(*[_dense(p, False) for p in problems], strict=True))
        high = adjacency - low + torch.eye(self.nodes, dtype=low.dtype)
        self.spread = {"low": torch.bmm(low, self.x), "high": torch.bmm(high, self.x), "own": self.x}

    def compute(self, weights: Mapping[str, Tensor]) -> Tensor:
        parts = torch.stack([affine(x, weights, name).relu() for name, x in self.spread.items()], 2)  # [B, n, 3, C]
        score = torch.sigmoid((parts * weights["gate"].unsqueeze(1)).sum(-1))
        share = torch.softmax(torch.bmm(score, weights["mix"]) / 3, dim=-1)
        return 3 * (share.unsqueeze(-1) * parts).sum(2)


class GIN(Released):
    """An MLP, x_i + Σ_j x_j, and another MLP, each of three layers; any number of layers is taken from the modules."""

    @staticmethod
    def start(channels: int, before: int = 3, after: int = 3) -> Module:
        return ModuleDict({"before": _mlp(channels, before), "after": _mlp(channels, after)})

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        eye = torch.eye(self.nodes, dtype=self.x.dtype)
        self.sums = torch.stack([_dense(problem, False)[0] for problem in problems]) + eye

    def compute(self, weights: Mapping[str, Tensor]) -> Tensor:
        return self._mlp(torch.bmm(self.sums, self._mlp(self.x, weights, "before")), weights, "after")

    def _mlp(self, x: Tensor, weights: Mapping[str, Tensor], part: str) -> Tensor:
        names = [name.removesuffix(".weight") for name in weights if name.startswith(part) and "weight" in name]
        for i, name in enumerate(names):
            x = affine(x.relu() if i else x, weights, name)
        return x


class LMGC(Released):
    """Equation 12 with affine maps, affine scores and the mean over the graphs."""

    @staticmethod
    def start(channels: int) -> Module:
        maps = PyGLinear(channels, HEADS * channels, weight_initializer="glorot")
        return ModuleDict({"lin": maps, "score": Linear(2 * HEADS * channels, HEADS)})  # of the target, of the source

    def setup(self, layers: Sequence[Any], problems: Sequence[Problem]) -> None:
        self.graph = side_by_side(problems, True)
        self.heads: int = layers[0]["score"].out_features

    def compute(self, weights: Mapping[str, Tensor]) -> Tensor:
        h = affine(self.x, weights, "lin")
        bent = F.leaky_relu(h, SLOPE)
        target, source = weights["score.weight"].chunk(2, dim=2)  # each [B, K, K·C]
        s, t = torch.bmm(bent, target.mT), torch.bmm(bent, source.mT)
        if "score.bias" in weights:
            s = s + weights["score.bias"].unsqueeze(1)
        parts = (s.flatten(0, 1), t.flatten(0, 1), h.view(-1, self.heads, self.channels))
        return propagate_tanh(*parts, self.graph).view_as(self.y) / self.heads


def form(method: str) -> type[Released] | None:
    """The class here of the method that the paper calls so: that of the same name as its batched form."""
    found: type[Released] | None = globals().get(of_the_paper()[method].batched.rpartition(":")[2])
    return found


def affine(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    """x Wᵀ + b for every run, where there is a b."""
    weight, bias = weights[f"{name}.weight"].mT, weights.get(f"{name}.bias")
    return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight)


def _mlp(channels: int, layers: int) -> Sequential:
    parts = [part for _ in range(layers) for part in (Linear(channels, channels), ReLU())]
    return Sequential(*parts[:-1])


def _dense(problem: Problem, loops: bool) -> tuple[Tensor, Tensor]:
    """The adjacency matrix and A_sym, rows by target."""
    graph = side_by_side([problem], loops)
    adjacency, normalized = problem.x.new_zeros(2, graph.num_nodes, graph.num_nodes)
    adjacency[graph.dst, graph.src] = 1.0
    normalized[graph.dst, graph.src] = graph.normalization(problem.x.dtype)
    return adjacency, normalized
