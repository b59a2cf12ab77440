"""A graph of a hundred million edges on one machine: sorting, layers, training steps, memory, and the machine's limits.

Gathers and layers are the better of two, all else is timed once; peaks are those of the process (Linux). A machine that
is itself a guest may have given back memory that lay unused, and then the first touch of it takes seconds per gigabyte.
"""

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv, GINConv

from mimogc.bench.layer import HEADS, resident
from mimogc.graph import Graph
from mimogc.models import NodeClassifier
from mimogc.nn import GINLayer, LMGConv

NODES, EDGES = 2_449_029, 123_718_280  # of ogbn-products
FEATURES, CHANNELS, CLASSES, LAYERS = 100, 64, 47, 3
HUB = 39_000  # edges of the largest node
_CHUNK = 2**22
_GB = 1e9

Say = Callable[[str], None]


def random_graph(nodes: int, edges: int, hub: int, seed: int = 0) -> Tensor:
    """``[2, edges]`` int64: undirected pairs whose ends follow a power law, with about `hub` edges at the largest node.

    An end is node ``⌊nodes · uᵖ⌋`` for u uniform in [0, 1), with p so that the first node gets its share, and nodes are
    then shuffled. Duplicates and loops stay in.
    """
    if nodes < 1 or edges < 0 or hub < 0:
        raise ValueError(f"nodes, edges, hub: expected at least 1, 0 and 0, got {nodes}, {edges} and {hub}")
    generator = torch.Generator().manual_seed(seed)
    share = max(hub / max(edges, 1), 1 / nodes)  # of ends that are the first node: nodes^(-1/p)
    power = -torch.log(torch.tensor(float(nodes))) / torch.log(torch.tensor(share)) if share < 1 else torch.tensor(1.0)
    shuffled = torch.randperm(nodes, generator=generator)
    out = torch.empty(2, edges, dtype=torch.int64)
    half = edges // 2
    for first in range(0, half, _CHUNK):
        last = min(first + _CHUNK, half)
        u = torch.rand(2, last - first, generator=generator, dtype=torch.float64)
        out[:, first:last] = shuffled[(u.pow_(float(power)).mul_(nodes)).long().clamp_(max=nodes - 1)]
    out[0, half : 2 * half], out[1, half : 2 * half] = out[1, :half], out[0, :half]
    out[:, 2 * half :] = 0
    return out


class Measured(NamedTuple):
    seconds: float
    peak_gb: float | None  # of memory beyond what was there before


def measured(run: Callable[[], Any]) -> tuple[Any, Measured]:
    """What `run` gives, its time, and its peak of memory; what is there before it does not count.

    What was freed goes back to the system first: kept for reuse it would count as there, and the peak as too low.
    """
    gc.collect()
    with suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)
    refs = Path("/proc/self/clear_refs")
    before = resident("VmRSS") if refs.exists() else 0.0
    if refs.exists():
        refs.write_text("5")  # the peak starts again from here
    start = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - start
    peak = (resident("VmHWM") - before) * 2**20 / _GB if refs.exists() else None
    return found, Measured(seconds, peak)


def limits(x: Tensor, graph: Graph) -> dict[str, float]:
    """Seconds of one gather of x's rows per edge (embedding_bag's sums), and the bandwidths behind that."""
    offsets = graph.rowptr[:-1]
    gather = _better_of_two(lambda: F.embedding_bag(graph.sources, x, offsets, mode="sum")).seconds
    copy = torch.empty_like(x)
    stream = min(measured(lambda: copy.copy_(x))[1].seconds for _ in range(3))
    size = x.numel() * x.element_size()
    return {
        "gather_seconds": gather,
        "gather_gb_per_s": graph.num_edges * x.size(1) * x.element_size() / gather / _GB,
        "stream_gb_per_s": 2 * size / stream / _GB,
    }


def _better_of_two(run: Callable[[], Any]) -> Measured:
    """Gathers, and the layers that are compared with them; the peak is the higher one."""
    one, two = measured(run)[1], measured(run)[1]
    return Measured(min(one.seconds, two.seconds), max(one.peak_gb or 0.0, two.peak_gb or 0.0) or None)


def _gin_conv() -> torch.nn.Module:
    linear = torch.nn.Linear
    made: torch.nn.Module = GINConv(
        torch.nn.Sequential(linear(CHANNELS, CHANNELS), torch.nn.ReLU(), linear(CHANNELS, CHANNELS))
    )
    return made


OURS: dict[str, Callable[[], torch.nn.Module]] = {
    "LMGConv": lambda: LMGConv(CHANNELS, CHANNELS, heads=HEADS),
    "LMGConv gcn": lambda: LMGConv(CHANNELS, CHANNELS, coefficients="gcn"),
    "GINLayer": lambda: GINLayer(CHANNELS, CHANNELS),
}
# Layers of PyG, and how many floats per edge and channel the largest array of each has: it needs several of these.
_PEAK = 8  # times that array have to be free; 6 times were measured for GATv2Conv
PYG: dict[str, tuple[Callable[[], torch.nn.Module], int]] = {
    "GATv2Conv": (lambda: GATv2Conv(CHANNELS, CHANNELS, heads=HEADS, concat=False, add_self_loops=False), HEADS),
    "GINConv": (_gin_conv, 1),
}


def one_layer(layer: torch.nn.Module, x: Tensor, graph: Any, gather: float) -> dict[str, float | None]:
    """Forward without gradients, and forward with backward, in seconds and in gathers."""
    with torch.no_grad():
        forward = _better_of_two(lambda: layer(x, graph))

    def both() -> None:
        out = layer(x.detach().requires_grad_(), graph)
        out.backward(torch.ones_like(out))

    all_of_it = _better_of_two(both)
    return {
        "forward": forward.seconds,
        "forward_gathers": forward.seconds / gather,
        "both": all_of_it.seconds,
        "both_gathers": all_of_it.seconds / gather,
        "peak_gb": all_of_it.peak_gb,
    }


def reordered_layer(say: Say, x: Tensor, graph: Graph, gather: float) -> dict[str, Any]:
    """The same layer on the graph in an order that keeps neighbours near; whether that pays depends on the graph."""
    (ordered, permutation), took = measured(graph.reordered)
    torch.manual_seed(0)
    row = one_layer(OURS["LMGConv"](), permutation.apply(x), ordered, gather)
    say(_layer_line("reordered", row) + f"   (LMGConv after graph.reordered(), which took {took.seconds:.1f} s)")
    return row | {"reordering": took.seconds}


def training_step(method: str, x: Tensor, y: Tensor, graph: Graph, recompute: bool = False) -> Measured:
    """One step of Adam of a model of three layers; `recompute` makes each layer's inside again in the backward pass."""
    torch.manual_seed(0)
    model = NodeClassifier(x.size(1), CHANNELS, CLASSES, method, LAYERS, HEADS, recompute=recompute)
    optimiser = torch.optim.Adam(model.parameters())

    def step() -> None:
        F.cross_entropy(model(x, graph), y).backward()
        optimiser.step()

    return measured(step)[1]


def run(say: Say, nodes: int = NODES, edges: int = EDGES, hub: int = HUB) -> dict[str, Any]:
    """The whole table, said as it comes."""
    say(f"{nodes:,} nodes, {edges:,} edges, hubs of {hub:,}; {torch.get_num_threads()} threads, float32")
    edge_index, made = measured(lambda: random_graph(nodes, edges, hub))
    say(f"  made in                     {made.seconds:7.1f} s")
    graph, sorting = measured(lambda: Graph.from_edge_index(edge_index, nodes, add_self_loops=True))
    final = 4 * (4 * graph.num_edges + 2 * nodes + 2) / _GB
    document: dict[str, Any] = {"nodes": nodes, "edges": edges, "graph_gb": final}
    document["sorting"] = sorting._asdict() | {"ratio": None if sorting.peak_gb is None else sorting.peak_gb / final}
    peak = f"peak {_gb(sorting.peak_gb)} for a graph of {_gb(final)}"
    say(f"  sorted with self-loops in   {sorting.seconds:7.1f} s, {peak}")
    torch.manual_seed(0)
    x = torch.randn(nodes, CHANNELS)
    document["limits"] = found = limits(x, graph)
    gather = found["gather_seconds"]
    bandwidths = f"{found['gather_gb_per_s']:.1f} GB/s; streaming {found['stream_gb_per_s']:.1f} GB/s"
    say(f"  one gather (embedding_bag)  {gather:7.2f} s, {bandwidths}")
    say(f"one layer, {CHANNELS} channels; in seconds and in gathers")
    document["layers"] = {}
    for name, make in OURS.items():
        torch.manual_seed(0)
        document["layers"][name] = row = one_layer(make(), x, graph, gather)
        say(_layer_line(name, row))
    document["reordered"] = reordered_layer(say, x, graph, gather)
    for name, (make, arrays) in PYG.items():
        need, room = 4 * arrays * edges * CHANNELS / _GB, _available()
        if room is not None and _PEAK * need > room:
            document["layers"][name] = {"needs_gb": need}
            say(f"  {name:12s} needs more than {need:.0f} GB, {room:.0f} are there")
            continue
        document["layers"][name] = row = one_layer(make(), x, edge_index, gather)
        say(_layer_line(name, row))
    edge_index = x = torch.empty(0)  # their memory is needed
    say(f"one step of a model of {LAYERS} layers, {FEATURES} features, {CHANNELS} channels, {CLASSES} classes")
    x, y = torch.randn(nodes, FEATURES), torch.randint(0, CLASSES, (nodes,))
    held = resident("VmRSS") * 2**20 / _GB
    document["steps"] = {}
    for method, again in (("lmgc", False), ("lmgc", True), ("gcn", False), ("gin", False)):
        step = training_step(method, x, y, graph, again)
        label = f"{method}, recomputed" if again else method
        total = None if step.peak_gb is None else step.peak_gb + held
        document["steps"][label] = step._asdict() | {"process_gb": total}
        say(f"  {label:17s} {step.seconds:7.1f} s, peak {_gb(step.peak_gb)}, of the process {_gb(total)}")
    return document


def _layer_line(name: str, row: dict[str, float | None]) -> str:
    forward, gathers, both, both_gathers, peak = row.values()
    return (
        f"  {name:12s} forward {forward:6.2f} s = {gathers:4.1f}   with backward {both:6.2f} s = {both_gathers:4.1f}   "
        f"peak {_gb(peak)}"
    )


def _gb(size: float | None) -> str:
    return "?" if size is None else f"{size:.2f} GB"


def _available() -> float | None:
    """The memory that is free, in GB."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    line = next(line for line in path.read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024 / _GB
