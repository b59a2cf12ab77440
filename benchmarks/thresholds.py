"""Prints the measurements behind `mimogc.ops._thresholds`: a layer with each special way and without it, in turn.

python benchmarks/thresholds.py      # two minutes; one thread, float32, K = 4; above 1 speaks for the special way
"""

import statistics
import time
from collections.abc import Callable, Iterable

import torch

from mimogc import Graph
from mimogc.bench.ablation import changed
from mimogc.nn import LMGConv
from mimogc.ops import _thresholds

TURNS, SECONDS = 5, 0.15  # turns of each way, and how long one of them lasts at least


def seconds(step: Callable[[], None]) -> float:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        step()
        count += 1
    return (time.perf_counter() - start) / count


def ratio(
    name: str, usual: float, special: float, nodes: int, edges: int, channels: int, backward: bool, features: int = 0
) -> float:
    """The time of a layer with the threshold at `usual` over that with it at `special`."""
    torch.manual_seed(0)
    graph = Graph.from_edge_index(torch.randint(nodes, (2, nodes * edges)), nodes)
    layer = LMGConv(features or channels, channels, add_self_loops=False)
    x = torch.randn(nodes, features or channels, requires_grad=backward)

    def step() -> None:
        with torch.set_grad_enabled(backward):
            out = layer(x, graph)
        if backward:
            torch.autograd.backward(out, torch.ones_like(out))

    times: dict[float, list[float]] = {usual: [], special: []}
    for turn in range(TURNS + 1):
        for value, found in times.items():
            with changed(_thresholds, name, value):
                found.append(seconds(step))
        if not turn:  # warms up
            times = {value: [] for value in times}
    return statistics.median(times[usual]) / statistics.median(times[special])


def row(title: str, values: Iterable[tuple[str, float]]) -> None:
    print(title + ":", flush=True)
    print("  " + ", ".join(f"{label} {value:.2f}" for label, value in values), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    never = 2.0**62
    sizes = (2**12, 2**13, 2**14, 2**15, 2**16, 2**17)  # 32 channels: h has 512 bytes per node
    edges = (2, 3, 4, 6, 12)
    for title, backward in (("forward", False), ("forward and backward", True)):
        row(
            f"CACHE_BYTES, {title}, 32 channels, 8 edges per node, wide / narrow by the size of h",
            ((f"{n // 2048} MB", ratio("CACHE_BYTES", never, 0, n, 8, 32, backward)) for n in sizes),
        )
        with changed(_thresholds, "NARROW_EDGES", 0):
            row(
                f"NARROW_EDGES, {title}, h of 64 MB, wide / narrow by the edges per node",
                ((f"{e} edges", ratio("CACHE_BYTES", never, 0, 2**17, e, 32, backward)) for e in edges),
            )
    row(
        "Narrow order, forward and backward, h of 64 MB, 64 channels, 8 edges per node, wide / narrow by the features",
        ((f"{f} features", ratio("CACHE_BYTES", never, 0, 2**16, 8, 64, True, f)) for f in (32, 64, 128, 230)),
    )
    widths = (32, 48, 64, 96, 128, 160, 192, 256)
    row(
        "LARGEST_WEIGHT, forward and backward, 740 nodes, 3 edges per node, torch's product / its own by W's bytes",
        ((f"{c * c // 64} KB", ratio("LARGEST_WEIGHT", 0, never, 740, 3, c, True)) for c in widths),
    )
    row(
        "MANY_EDGES, forward and backward, 2000 nodes, 58 channels, gradient to h kept / made by the edges per node",
        ((f"{e} edges", ratio("MANY_EDGES", -1, never, 2000, e, 58, True)) for e in (3, 6, 12, 16, 24)),
    )


if __name__ == "__main__":
    main()
