"""One layer, forward and backward, against PyG's layers and the naive one: time in one process, memory in one each."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GATv2Conv, GINConv

from mimogc.bench.naive import NaiveLMGC
from mimogc.bench.workloads import WORKLOADS, Workload
from mimogc.graph import Graph
from mimogc.nn import LMGConv

HEADS = 4


def _gin(channels: int) -> torch.nn.Module:
    linear = torch.nn.Linear
    mlp = torch.nn.Sequential(linear(channels, channels), torch.nn.ReLU(), linear(channels, channels))
    layer: torch.nn.Module = GINConv(mlp)
    return layer


def _lmgc(channels: int) -> LMGConv:
    return LMGConv(channels, channels, heads=HEADS, add_self_loops=False)


# The first gets a Graph, sorted before the clock starts; the others get the edge_index.
LAYERS: dict[str, Callable[[int], Any]] = {
    "LMGConv": _lmgc,
    "on edge_index": _lmgc,
    "naive LMGC": lambda c: NaiveLMGC(c, c, heads=HEADS),
    "GATv2Conv": lambda c: GATv2Conv(c, c, heads=HEADS, concat=False, add_self_loops=False),
    "GINConv": _gin,
}
# Edge-sized temporaries of these would need some 20 GB on the large graph.
TOO_LARGE = {"large": ("naive LMGC", "GATv2Conv")}


def layers_for(workload: str) -> list[str]:
    return [name for name in LAYERS if name not in TOO_LARGE.get(workload, ())]


def _prepare(workload: Workload, name: str) -> tuple[Any, Any, Tensor, Tensor]:
    """The layer, its form of the graph, features and an output gradient."""
    torch.manual_seed(0)
    nodes, edge_index = workload.make()
    graph = Graph.from_edge_index(edge_index, nodes) if name == "LMGConv" else edge_index
    x = torch.randn(nodes, workload.channels)
    return LAYERS[name](workload.channels), graph, x, torch.randn_like(x)


def _step(layer: Any, graph: Any, x: Tensor, g: Tensor) -> None:
    layer(x.detach().requires_grad_(), graph).backward(g)
    layer.zero_grad(set_to_none=True)


def milliseconds(workload: str) -> dict[str, float]:
    """Median time of a forward and backward pass of each layer, the layers taking turns."""
    chosen = WORKLOADS[workload]
    prepared = {name: _prepare(chosen, name) for name in layers_for(workload)}
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for repeat in range(chosen.repeats + 1):
        for name, arguments in prepared.items():
            start = time.perf_counter()
            for _ in range(chosen.calls):
                _step(*arguments)
            if repeat:  # the first round warms up
                times[name].append(1e3 * (time.perf_counter() - start) / chosen.calls)
    return {name: statistics.median(values) for name, values in times.items()}


def resident(key: str) -> float:
    """A memory figure of this process in MB, from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def extra_megabytes(workload: str, name: str) -> float | None:
    """Peak memory of one pass beyond what was there before it, measured in a process of its own (Linux)."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, "-m", "mimogc.bench.layer", workload, name, str(torch.get_num_threads())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: float = json.loads(done.stdout)
    return found


def _measure_memory(workload: str, name: str, threads: int) -> float:
    torch.set_num_threads(threads)
    arguments = _prepare(WORKLOADS[workload], name)
    small = _prepare(WORKLOADS["zinc32"], name)
    _step(*small)  # what libraries allocate at their first call is not the layer's
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = resident("VmRSS")
    _step(*arguments)
    return resident("VmHWM") - before


def run(say: Callable[[str], None], workloads: Sequence[str] = tuple(WORKLOADS)) -> dict[str, Any]:
    """Time and memory of every workload, said as it comes."""
    document: dict[str, Any] = {}
    for workload in workloads:
        say(f"{workload}: {WORKLOADS[workload].what}; forward + backward, {torch.get_num_threads()} threads")
        times = milliseconds(workload)
        ours = times["LMGConv"]
        rows = {}
        for name, value in times.items():
            memory = extra_megabytes(workload, name)
            rows[name] = {"ms": value, "ratio": value / ours, "extra_mb": memory}
            said = "?" if memory is None else f"{memory:,.0f}"
            ratio = "" if name == "LMGConv" else f"   LMGConv is {value / ours:.2f} times as fast"
            say(f"  {name:11s} {value:10.3f} ms   {said:>6s} MB extra{ratio}")
        document[workload] = rows
    return document


if __name__ == "__main__":
    print(json.dumps(_measure_memory(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
