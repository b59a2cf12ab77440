"""Whether runs at the same time take longer each: a training step of ZINC12k alone, and beside as many others as cores.

    python benchmarks/together.py                     # the basic LMGC: half a minute
    python benchmarks/together.py gin:all lmgc:all    # these models

Every process has one thread, as `mimogc reproduce --jobs` gives it. Where cores are threads of one another, or others
compute on the same machine, steps beside each other take longer; a ratio below the number of processes still pays.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SECONDS = 6.0  # that each measurement lasts


def milliseconds(name: str, start: Any) -> float:
    """The median time of a training step from when all processes are ready."""
    sys.path.insert(0, str(Path(__file__).parent))
    import torch
    from steps import BATCH_SIZE, Steps

    torch.set_num_threads(1)
    steps = Steps(*name.split(":"))
    steps.seconds(BATCH_SIZE)
    start.wait()
    end, times = time.perf_counter() + SECONDS, []
    while time.perf_counter() < end:
        times.append(steps.seconds(BATCH_SIZE))
    return 1e3 * statistics.median(times)


def _told(name: str, start: Any, found: Any) -> None:
    found.put(milliseconds(name, start))


def beside_each_other(name: str, processes: int) -> list[float]:
    """The times of so many processes that compute at once."""
    context = multiprocessing.get_context("spawn")
    start, found = context.Barrier(processes), context.Queue()
    workers = [context.Process(target=_told, args=(name, start, found)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    times: list[float] = []
    while len(times) < processes:
        if not found.empty():
            times.append(found.get())
        elif any(worker.exitcode for worker in workers):
            for worker in workers:
                worker.terminate()
            raise SystemExit(f"together: a process that trains {name} failed, see above")
        else:
            time.sleep(0.1)
    for worker in workers:
        worker.join()
    return times


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", default=["lmgc:basic"], metavar="METHOD:VARIANT", help="default lmgc:basic"
    )
    given = parser.parse_args(arguments)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in given.models:
        if name.count(":") != 1:
            parser.error(f"METHOD:VARIANT: expected a pair such as gin:all, got {name!r}")
        (alone,) = beside_each_other(name, 1)
        together = beside_each_other(name, cores)
        each = " and ".join(f"{value:.1f}" for value in together)
        print(
            f"{name}: {alone:.1f} ms per step alone, {each} ms with {cores} at once, ratio {max(together) / alone:.2f}"
        )


if __name__ == "__main__":
    main()
