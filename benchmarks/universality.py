"""Training steps per second of the universality study, all runs together against one at a time.

python benchmarks/universality.py
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter, ReLU, Sequential
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv, GINConv, MessagePassing
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import add_self_loops, degree

from mimogc.bench.naive import NaiveLMGC
from mimogc.spectral import fourier_basis
from mimogc.studies.universality import CHANNELS, LEARNING_RATES, SEEDS, SETTINGS, STUDY, initial_layer, problem
from mimogc.training.batched import Batched, Problem, batched_form, train


@dataclass(frozen=True, slots=True)
class Speed:
    """Training steps of one run per second, both ways; the best of alternating measurements."""

    method: str
    naive: float
    batched: float

    @property
    def ratio(self) -> float:
        return self.batched / self.naive


def overall(speeds: Sequence[Speed]) -> float:
    """The ratio for the whole table, in which every method has as many steps."""
    return sum(1 / speed.naive for speed in speeds) / sum(1 / speed.batched for speed in speeds)


def measure(methods: Sequence[str] = STUDY.methods, steps: int = 100, repeats: int = 5) -> list[Speed]:
    """Time each method both ways, alternating, with the number of threads that the study uses."""
    threads = torch.get_num_threads()
    torch.set_num_threads(STUDY.threads)
    try:
        return [_measure(method, steps, repeats) for method in methods]
    finally:
        torch.set_num_threads(threads)


def _measure(method: str, steps: int, repeats: int) -> Speed:
    groups = [_group(method, nodes) for nodes in sorted({setting.nodes for setting in SETTINGS.values()})]
    runs = sum(model.runs for model, _ in groups)
    naive, batched = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        with torch.no_grad():
            for model, decays in groups:
                train(model, [LEARNING_RATES[0]] * model.runs, decays, steps)
        batched.append(runs * steps / (time.perf_counter() - start))
        # One run of each size, in the proportion in which the study has them.
        seconds = sum(model.runs * train_alone(method, problem(model.nodes, 0), steps) for model, _ in groups)
        naive.append(runs * steps / seconds)
    return Speed(method, max(naive), max(batched))


def _group(method: str, nodes: int) -> tuple[Batched, list[float]]:
    """All runs of a method with graphs of this size."""
    settings = [setting for setting in SETTINGS.values() if setting.nodes == nodes]
    decays = [setting.decay for setting in settings for _ in LEARNING_RATES for _ in range(SEEDS)]
    seeds = [seed for _ in settings for _ in LEARNING_RATES for seed in range(SEEDS)]
    layers = [initial_layer(method, nodes, seed) for seed in seeds]
    return batched_form(method)(layers, [problem(nodes, seed) for seed in seeds]), decays


def train_alone(method: str, task: Problem, steps: int) -> float:
    """The seconds of the usual loop: one module, autograd, torch's Adam, the minimum as a Python number."""
    edge_index = task.graph.edge_index
    layer = plain_layer(method, task)
    optimizer = torch.optim.Adam(layer.parameters(), lr=LEARNING_RATES[0])
    best = float("inf")
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(layer(task.x, edge_index), task.y)
        loss.backward()
        optimizer.step()
        best = min(best, loss.item())
    return time.perf_counter() - start


def plain_layer(method: str, task: Problem) -> Any:
    """The method as one writes it with PyG, without this library."""
    if method == "gatv2":
        return GATv2Conv(CHANNELS, CHANNELS, heads=4, concat=False, share_weights=True, bias=False)
    if method == "gin":
        return GINConv(Sequential(Linear(CHANNELS, CHANNELS), ReLU(), Linear(CHANNELS, CHANNELS)))
    if method == "mimogc":
        return PlainMIMO(fourier_basis(task.graph).vectors.float())
    return {"fagcn": PlainFAGCN, "acm": PlainACM, "lmgc": PlainLMGC}[method]()


class PlainFAGCN(MessagePassing):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin = Linear(CHANNELS, CHANNELS, bias=False)
        self.score = Linear(2 * CHANNELS, 1, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        scale = degree(edge_index[1], x.size(0)).rsqrt()
        norm = scale[edge_index[0]] * scale[edge_index[1]]
        return self.propagate(edge_index, x=x, h=self.lin(x), norm=norm)

    def message(self, x_i: Tensor, x_j: Tensor, h_j: Tensor, norm: Tensor) -> Tensor:
        alpha = torch.tanh(self.score(torch.cat([x_i, x_j], dim=-1)))
        return alpha * norm.unsqueeze(-1) * h_j


class PlainACM(MessagePassing):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.low = Linear(CHANNELS, CHANNELS, bias=False)
        self.high = Linear(CHANNELS, CHANNELS, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        scale = degree(edge_index[1], x.size(0)).rsqrt()
        norm = scale[edge_index[0]] * scale[edge_index[1]]
        low, high = self.low(x), self.high(x)
        return self.propagate(edge_index, x=low, norm=norm) + high - self.propagate(edge_index, x=high, norm=norm)

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.unsqueeze(-1) * x_j


class PlainLMGC(NaiveLMGC):
    def __init__(self) -> None:
        super().__init__(CHANNELS, CHANNELS, bias=False, offset=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        return super().forward(x, edge_index)


class PlainMIMO(Module):
    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors
        self.weight = Parameter(torch.empty(len(vectors), CHANNELS, CHANNELS))
        glorot(self.weight)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.vectors @ torch.einsum("kcf,kf->kc", self.weight, self.vectors.t() @ x)


if __name__ == "__main__":
    print("universality: training steps of one run per second, one run at a time → all together")
    speeds = measure()
    for speed in speeds:
        print(f"  {speed.method:8s} {speed.naive:10,.0f} → {speed.batched:10,.0f}   {speed.ratio:5.1f} times")
    print(f"  whole table {overall(speeds):.1f} times")
