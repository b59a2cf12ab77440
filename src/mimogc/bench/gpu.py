"""The table of `mimogc bench` for a GPU: time, peak memory, and how much of the card's bandwidth the sums use."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mimogc.bench.layer import HEADS, LAYERS, _step, layers_for
from mimogc.bench.workloads import WORKLOADS, Workload
from mimogc.graph import Graph
from mimogc.ops import backend, propagate_tanh, use_reference

REPEATS = 20
COPIED = 2**28  # bytes of the copy that tells the card's bandwidth
TOLERANCE = 1e-3  # of the largest number, in float32


def run(say: Callable[[str], None], device: str) -> dict[str, Any]:
    """Every workload, said as it comes; the results are held against the specification first."""
    where = checked(device)
    name, bandwidth = torch.cuda.get_device_name(where), bandwidth_of(where)
    say(f"{name}, torch {torch.__version__}, {backend(where)} backend, a copy moves {bandwidth / 1e9:.0f} GB/s")
    document: dict[str, Any] = {"device": name, "backend": backend(where), "bandwidth": bandwidth}
    for workload in WORKLOADS:
        document[workload] = measured(say, workload, where, bandwidth)
    return document


def checked(device: str) -> torch.device:
    """The device, if it is a GPU that torch can use."""
    try:
        where = torch.device(device)
    except RuntimeError:
        where = torch.device("meta")  # torch knows no such device
    if where.type != "cuda" or not torch.cuda.is_available():
        raise ValueError(
            f"--device: expected a GPU that torch can use (cuda, for AMD's too), got {device!r} "
            f"with torch {torch.__version__} and {torch.cuda.device_count()} GPUs"
        )
    return where


def measured(say: Callable[[str], None], workload: str, device: torch.device, bandwidth: float) -> dict[str, Any]:
    """Time, memory and bandwidth of one workload."""
    chosen = WORKLOADS[workload]
    verify(chosen, device)
    say(f"{workload}: {chosen.what}; forward + backward, verified against plain torch in float64")
    rows: dict[str, Any] = {}
    names = [*layers_for(workload), "plain torch"] if workload != "large" else layers_for(workload)
    for name in names:
        arguments = _prepared(chosen, "LMGConv" if name == "plain torch" else name, device)
        try:
            if name == "plain torch":
                with use_reference():
                    rows[name] = _measured(lambda given=arguments: _step(*given), device)  # type: ignore[misc]
            else:
                rows[name] = _measured(lambda given=arguments: _step(*given), device)  # type: ignore[misc]
        except torch.OutOfMemoryError:
            say(f"  {name:13s} needs more memory than there is")
            continue
        ratio = rows[name]["ms"] / rows["LMGConv"]["ms"]
        said = "" if name == "LMGConv" else f"   LMGConv is {ratio:.2f} times as fast"
        say(f"  {name:13s} {rows[name]['ms']:10.3f} ms   {rows[name]['mb']:8.0f} MB extra{said}")
    rows["sums"] = sums(chosen, device, bandwidth)
    say(f"  the sums alone use {100 * rows['sums']['share']:.0f} % of the bandwidth")
    return rows


def verify(workload: Workload, device: torch.device) -> None:
    """Raise an AssertionError unless output and gradients are those of the specification in float64."""
    layer, graph, x, g = _prepared(workload, "LMGConv", device)
    found = _gradients(layer, graph, x, g)
    with use_reference(in_parts=True):  # on the largest graph the whole would need 27 GB
        wanted = _gradients(layer.cpu().double(), graph.to("cpu"), x.cpu().double(), g.cpu().double())
    for name, truth in wanted.items():
        error = float((found[name].cpu().double() - truth).abs().max() / truth.abs().max())
        if not error <= TOLERANCE:
            raise AssertionError(f"{name}: the kernels differ from plain torch by {error:.2g} of the largest number")


def _gradients(layer: Any, graph: Graph, x: Tensor, g: Tensor) -> dict[str, Tensor]:
    x = x.detach().requires_grad_()
    out = layer(x, graph)
    names, inputs = zip(*[("x", x), *layer.named_parameters()], strict=True)
    gradients = torch.autograd.grad(out, inputs, g)
    return {"output": out.detach()} | {f"gradient of {each}": grad for each, grad in zip(names, gradients, strict=True)}


def _prepared(workload: Workload, name: str, device: torch.device) -> tuple[Any, Any, Tensor, Tensor]:
    torch.manual_seed(0)
    nodes, edges = workload.make()
    edge_index = edges.to(device)
    graph: Any = Graph.from_edge_index(edge_index, nodes) if name == "LMGConv" else edge_index
    x = torch.randn(nodes, workload.channels).to(device)
    return LAYERS[name](workload.channels).to(device), graph, x, torch.randn(x.shape).to(device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _measured(call: Callable[[], Any], device: torch.device) -> dict[str, float]:
    """The median time of a call in ms, and the memory it needs beyond what was there, in MB."""
    memory = 0.0
    call()  # compiles
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        memory = (torch.cuda.max_memory_allocated(device) - before) / 2**20
    times = []
    for _ in range(REPEATS):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        times.append(1e3 * (time.perf_counter() - start))
    return {"ms": statistics.median(times), "mb": memory}


def sums(workload: Workload, device: torch.device, bandwidth: float) -> dict[str, float]:
    """`propagate_tanh` alone, forward and backward: the bytes that its kernels move, per second, of the bandwidth."""
    _, graph, x, g = _prepared(workload, "LMGConv", device)
    s, t = (torch.randn(x.size(0), HEADS, device=device, requires_grad=True) for _ in range(2))
    h = torch.randn(x.size(0), HEADS, workload.channels, device=device, requires_grad=True)

    def call() -> None:
        torch.autograd.grad(propagate_tanh(s, t, h, graph), (s, t, h), g)

    found = _measured(call, device)
    moved = sums_bytes(graph.num_edges, graph.num_nodes, HEADS, workload.channels)
    return {"ms": found["ms"], "share": moved / (found["ms"] / 1e3) / bandwidth}


def sums_bytes(edges: int, nodes: int, heads: int, channels: int) -> float:
    """What the kernels of `propagate_tanh` read and write in both passes, as `benchmarks/gpu_bytes.py` counts it."""
    forward = edges * (heads * channels + heads + 1) + nodes * (channels + heads + 2)
    # The gradients of the scores are written, and read again for those of s.
    backward = edges * (channels + 4 * heads + 3) + nodes * (2 * heads * channels + 3 * heads + 5)
    return 4.0 * (forward + backward)


def bandwidth_of(device: torch.device) -> float:
    """Bytes per second of a large copy, read and written."""
    source = torch.zeros(COPIED, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * COPIED / (_measured(lambda: target.copy_(source), device)["ms"] / 1e3)
