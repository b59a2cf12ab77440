"""Where a training step of Table 2 goes: what it costs whatever the batch, and what every molecule adds.

    python benchmarks/steps.py                        # lmgc, gin and gatv2 with all three: a minute
    python benchmarks/steps.py gin:all acm:basic      # these models
    python benchmarks/steps.py gin:all --compile      # and what torch.compile makes of them
    python benchmarks/steps.py lmgc:rings --one-by-one   # and what it buys that the layers are one function
    python benchmarks/steps.py lmgc:all --kernels      # and what each kernel and the encoder take of a step

One thread. The fixed part, mostly Python and autograd, is what a line through the times of 16 and 64 molecules has at
none; the floor is the time of the products alone, three multiply-adds per parameter and atom, at the speed of torch.mm.
"""

import argparse
import collections
import statistics
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import torch

from mimogc import _library
from mimogc.bench.zinc import cells, threads
from mimogc.studies.zinc_models import build
from mimogc.training.graphs import BATCH_SIZE, FlatAdamW

FEW, MANY = BATCH_SIZE // 2, BATCH_SIZE * 2
STEPS, TURNS = 10, 7
USUAL = ("lmgc:all", "gin:all", "gatv2:all")


class Steps:
    """One model and its batches of three sizes."""

    def __init__(self, method: str, variant: str) -> None:
        found = cells([method], [variant])
        if not found:
            raise SystemExit(f"steps: {method} has no variant {variant}")
        self.model, task = build(found[0])
        self.optimiser = FlatAdamW(self.model, 0.001)
        loops, rows = self.model.add_self_loops, task.train
        self.batches = {
            size: list(task.molecules.batches(rows[: STEPS * size], size, loops, task.encoding))
            for size in (FEW, BATCH_SIZE, MANY)
        }
        self.atoms = statistics.mean(batch.atom.numel() for batch in self.batches[BATCH_SIZE])

    def seconds(self, size: int, model: torch.nn.Module | None = None) -> float:
        """Of a step: forward, backward and the optimiser; batches are made before."""
        model = self.model if model is None else model
        start = time.perf_counter()
        for batch in self.batches[size]:
            predicted = model(batch)
            error = predicted.detach() - batch.y
            self.optimiser.forget()
            torch.autograd.backward(predicted, error.sign() / batch.num_graphs)
            self.optimiser.step()
        return (time.perf_counter() - start) / len(self.batches[size])


def products_per_second() -> float:
    """Multiply-adds of torch.mm with as many rows as a batch has atoms and as many columns as layers have."""
    x, weight = torch.randn(740, 64), torch.randn(64, 256)
    times = []
    for _ in range(300):
        start = time.perf_counter()
        torch.mm(x, weight)
        times.append(time.perf_counter() - start)
    return x.numel() * 256 / statistics.median(times)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=USUAL, metavar="METHOD:VARIANT", help="default " + " ".join(USUAL))
    parser.add_argument("--compile", action="store_true", help="measure torch.compile(model, dynamic=True), too")
    parser.add_argument("--one-by-one", action="store_true", help="measure layers that are called one by one, too")
    parser.add_argument("--kernels", action="store_true", help="measure each kernel, torch's products and the encoder")
    given = parser.parse_args(arguments)
    for name in given.models:
        if name.count(":") != 1:
            parser.error(f"METHOD:VARIANT: expected a pair such as gin:all, got {name!r}")
    with threads(1):
        print("ms per step   all  fixed  each molecule  floor   atoms, parameters")
        for name in given.models:
            steps = Steps(*name.split(":"))
            turns = [[steps.seconds(size) for size in (FEW, BATCH_SIZE, MANY)] for _ in range(TURNS)][1:]
            few, usual, many = (1e3 * statistics.median(turn) for turn in zip(*turns, strict=True))
            each = (many - few) / (MANY - FEW)
            numbers = sum(value.numel() for value in steps.model.parameters())
            floor = 1e3 * 3 * numbers * steps.atoms / products_per_second()
            line = f"{name:12s}{usual:5.1f}{few - FEW * each:7.1f}{each:15.3f}{floor:7.1f}"
            print(f"{line}   {steps.atoms:.0f}, {numbers:,}", flush=True)
            if given.kernels:
                kernels(steps)
            if given.compile:
                beside(steps, "compiled", torch.compile(steps.model, dynamic=True))
            if given.one_by_one:
                beside(steps, "one by one", Hooked(steps.model))


class Timed:
    """The compiled library, whose functions add up the time that they take."""

    def __init__(self, kernels: Any) -> None:
        self.kernels = kernels
        self.seconds: collections.Counter[str] = collections.Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.kernels, name)
        if not callable(found):
            return found

        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = found(*arguments)
            self.seconds[name] += time.perf_counter() - start
            return result

        return timed


def kernels(steps: Steps) -> None:
    """Print what each kernel takes of a step, torch's matrix products in it, and the encoder of the model."""
    own = _library.library()
    if own is None:
        raise SystemExit("steps: --kernels needs the compiled kernels")
    timed = Timed(own.kernels)
    with patch.object(_library, "library", lambda: own._replace(kernels=timed)):
        for _ in range(TURNS):
            steps.seconds(BATCH_SIZE)
    count = TURNS * len(steps.batches[BATCH_SIZE])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        steps.seconds(BATCH_SIZE)
    of_torch = {event.key: event.self_cpu_time_total for event in found.key_averages()}  # in microseconds
    products = sum(of_torch.get(f"aten::{name}", 0.0) for name in ("mm", "addmm", "addmm_", "bmm"))
    parts = {name.removeprefix("mimogc_"): seconds / count for name, seconds in timed.seconds.most_common()}
    parts["torch's products"] = products / 1e6 / len(steps.batches[BATCH_SIZE])
    if steps.model.encoder is not None:
        parts["encoder"] = encoder(steps)
    print("  " + ", ".join(f"{name} {1e3 * seconds:.2f}" for name, seconds in parts.items()), flush=True)


def encoder(steps: Steps) -> float:
    """Seconds of a step that the embedding with its positional encoding takes, forward and backward."""
    times = []
    for batch in steps.batches[BATCH_SIZE] * TURNS:
        start = time.perf_counter()
        embedded = steps.model._embedded(batch)
        torch.autograd.backward(embedded, torch.ones_like(embedded))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Hooked(torch.nn.Module):
    """A model with a hook on one of its layers, which does nothing: they have to be called one by one."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        if not isinstance(model.layers, torch.nn.ModuleList):
            raise SystemExit("steps: --one-by-one is for models whose layers are modules, such as lmgc:all")

    def forward(self, batch: object) -> object:
        handle = self.model.layers[0].register_forward_hook(lambda *_: None)
        try:
            return self.model(batch)
        finally:
            handle.remove()


def beside(steps: Steps, name: str, other: torch.nn.Module) -> None:
    """Print the time of a step of another form of the model, and of the model itself, taking turns."""
    steps.seconds(BATCH_SIZE, other)
    pairs = [[steps.seconds(BATCH_SIZE, model) for model in (None, other)] for _ in range(TURNS)]
    eager, found = (1e3 * statistics.median(turn) for turn in zip(*pairs, strict=True))
    print(f"  {name} {found:.1f}, as it is {eager:.1f}, taking turns", flush=True)


if __name__ == "__main__":
    main()
