"""Speed and memory, printed as ratios against plain and PyG's layers measured in the same run: `mimogc bench`."""

import os
from collections.abc import Callable
from typing import Any

import torch

from mimogc.experiments.bench import layer, nodes, universality, waiting, zinc
from mimogc.ops import backend


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Everything, said as it comes; a quiet machine is assumed, since another busy process spoils two threads."""
    allocator = os.environ.get("LD_PRELOAD") or "default"
    say(
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, {backend()} backend, {allocator} allocator"
    )
    document: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "allocator": allocator,
        "backend": backend(),
    }
    document["layer"] = layer.run(say)
    say("universality: training steps of one run per second, one run at a time → all together")
    speeds = universality.measure()
    for speed in speeds:
        say(f"  {speed.method:8s} {speed.naive:10,.0f} → {speed.batched:10,.0f}   {speed.ratio:5.1f} times")
    document["universality"] = {speed.method: speed.ratio for speed in speeds}
    document["universality"]["all"] = universality.overall(speeds)
    say(f"  whole table {document['universality']['all']:.1f} times")
    document["nodes"] = nodes.run(say)
    document["zinc12k"] = zinc.run(say)
    document["waiting"] = waiting.run(say)
    return document
