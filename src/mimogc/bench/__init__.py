"""Speed and memory, printed as ratios against plain and PyG's layers measured in the same run: `mimogc bench`."""

import os
from collections.abc import Callable
from typing import Any

import torch

from mimogc.bench import ablation, gpu, large, layer, zinc
from mimogc.ops import backend

PARTS: dict[str, Callable[[Callable[[str], None]], Any]] = {
    "zinc": zinc.run,
    "large": large.run,
}  # that are run alone, when they are named


def run(say: Callable[[str], None], part: str = "", device: str = "cpu") -> dict[str, Any]:
    """The layers, or a part by name, said as it comes; a busy machine spoils it, above all with two threads."""
    if device != "cpu":
        return gpu.run(say, device)
    allocator = os.environ.get("LD_PRELOAD") or "default"
    say(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {backend()} backend, {allocator} allocator")
    document: dict[str, Any] = {"threads": torch.get_num_threads(), "allocator": allocator, "backend": backend()}
    if part:
        return document | {part: PARTS[part](say)}
    document["layer"] = layer.run(say)
    if backend() == "native":
        document["ablation"] = ablation.run(say)
    return document
