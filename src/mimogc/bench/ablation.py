"""What each special path buys: an epoch of ZINC12k, and a layer on a large graph, without it."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from mimogc.bench.workloads import WORKLOADS
from mimogc.data import DataError, load_molecules
from mimogc.graph import Graph
from mimogc.nn import LMGConv, LMGCStack
from mimogc.ops import _native_layers, _thresholds
from mimogc.studies.zinc_models import regressor, width
from mimogc.training.graphs import BATCH_SIZE, CLIP, FlatAdamW, MoleculeTask, train_epoch

LAYERS, HEADS, BUDGET, LR = 6, 4, 100_000, 0.001
STEPS, ROUNDS = 50, 6  # steps of one turn, turns of each after a first one to warm up


@contextmanager
def changed(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _activation_outside(*given: Any) -> Any:
    """`_native_layers.layer` with the activation in torch."""
    *inputs, gelu = given
    out, h, st, _ = _kernel(*inputs, False)
    if not gelu:
        return out, h, st, None
    distribution = torch.special.ndtr(out)
    density = torch.exp(-0.5 * out * out) / math.sqrt(2 * math.pi)
    return out * distribution, h, st, distribution + out * density


_kernel: Any = _native_layers.layer


class _UsualAdamW:
    """torch's own AdamW, fused, with clipping, in the place of `FlatAdamW`."""

    def __init__(self, model: torch.nn.Module, lr: float) -> None:
        self.weights = list(model.parameters())
        self.adam = torch.optim.AdamW(self.weights, lr=lr, weight_decay=0.0, fused=True)

    def forget(self) -> None:
        self.adam.zero_grad()

    def step(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.weights, CLIP)
        self.adam.step()


# What is left out → how.
WITHOUT: dict[str, Callable[[], Any]] = {
    "nothing": nullcontext,
    "the stack: layers one by one": nullcontext,
    "activation in the kernel": lambda: changed(_native_layers, "layer", _activation_outside),
    "classes of like atoms": lambda: changed(_thresholds, "ALIKE", -1.0),
    "weights as one vector: torch's fused AdamW": nullcontext,
}


def molecules(rounds: int = ROUNDS, steps: int = STEPS) -> dict[str, float]:
    """Seconds of a step without each path, the medians of turns."""
    data = load_molecules("zinc12k")
    task = MoleculeTask.of(data, None, data.sizes[0])
    order = torch.randperm(data.sizes[0], generator=torch.Generator().manual_seed(0))[: steps * BATCH_SIZE]
    turns: dict[str, tuple[Any, Any]] = {}
    for name in WITHOUT:
        torch.manual_seed(0)
        model = regressor(width("lmgc", LAYERS, HEADS, BUDGET, ()), "lmgc", LAYERS, HEADS, ())
        if "stack" in name and isinstance(model.layers, LMGCStack):
            model.layers = torch.nn.ModuleList(model.layers.convolutions())
        turns[name] = model, (_UsualAdamW if "AdamW" in name else FlatAdamW)(model, LR)
    times: dict[str, list[float]] = {name: [] for name in WITHOUT}
    for number in range(rounds + 1):
        for name, (model, optimiser) in turns.items():
            with WITHOUT[name]():
                start = time.perf_counter()
                train_epoch(model, optimiser, task, order, model.add_self_loops)
                if number:
                    times[name].append((time.perf_counter() - start) / steps)
    return {name: statistics.median(values) for name, values in times.items()}


def large(repeats: int = 3) -> dict[str, float]:
    """Seconds of a layer, forward and backward, on a large graph, in the narrow order and in the usual one."""
    workload = WORKLOADS["large"]
    nodes, edges = workload.make()
    graph, layer = Graph.from_edge_index(edges, nodes), LMGConv(workload.channels, workload.channels)
    x, times = torch.randn(nodes, workload.channels, requires_grad=True), {}
    for name, limit in (("nothing", _thresholds.CACHE_BYTES), ("the narrow order", 2**62)):
        with changed(_thresholds, "CACHE_BYTES", limit):
            samples = []
            for _ in range(repeats):
                start = time.perf_counter()
                torch.autograd.backward(layer(x, graph).sum())
                samples.append(time.perf_counter() - start)
        times[name] = min(samples)
    return times


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Both, as times relative to the time with every path."""
    found: dict[str, Any] = {}
    try:
        found["zinc12k"] = molecules()
    except DataError as error:
        say(f"  left out: {error}")
    found["large"] = large()
    for what, times in found.items():
        say(f"{what}: {1000 * times['nothing']:.1f} ms a step; without ... it takes so many times as long")
        for name, value in times.items():
            if name != "nothing":
                say(f"  {name:45s} {value / times['nothing']:5.2f}")
    return found
