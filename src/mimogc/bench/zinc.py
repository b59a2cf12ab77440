"""What an epoch of ZINC12k costs: every method in every variant, beside the basic LMGC, taking turns."""

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mimogc.data import DataError
from mimogc.runs.options import UsageError
from mimogc.runs.run import Run
from mimogc.runs.study import Options, complete
from mimogc.studies.zinc import PAPER_METHODS, ZINC12K
from mimogc.studies.zinc_models import VARIANTS, build
from mimogc.training.graphs import BATCH_SIZE, FlatAdamW, train_epoch

STEPS, ROUNDS = 20, 5  # steps of one turn, turns of each cell after a first one to warm up
BASIC = ("lmgc", "basic")  # the cell that the others are measured in


def cells(methods: Sequence[str] = (*PAPER_METHODS, "eq12"), variants: Sequence[str] = tuple(VARIANTS)) -> list[Run]:
    """One run per method and variant that there is, at the paper's number of layers."""
    found: list[Run] = []
    for variant in variants:
        for method in methods:
            asked = Options(methods=(method,), variants=(variant,), seeds=1, paper_hparams=True)
            try:
                found += ZINC12K.runs(complete(ZINC12K, asked))
            except UsageError:  # a method without a score has no edge types
                continue
    return found


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds_per_epoch(runs: Sequence[Run], rounds: int = ROUNDS, steps: int = STEPS) -> dict[tuple[str, str], float]:
    """(method, variant) → the time of a step times the steps of an epoch, the median over the turns."""
    turns: dict[tuple[str, str], Callable[[], float]] = {}
    for run in runs:
        model, task = build(run)
        optimiser = FlatAdamW(model, 0.001)
        order = torch.randperm(task.train.size(0), generator=torch.Generator().manual_seed(0))[: steps * BATCH_SIZE]
        turns[run.method, run.variant] = functools.partial(
            train_epoch, model, optimiser, task, order, model.add_self_loops
        )
    times: dict[tuple[str, str], list[float]] = {cell: [] for cell in turns}
    for number in range(rounds + 1):
        for cell, turn in turns.items():
            start = time.perf_counter()
            turn()
            if number:
                times[cell].append((time.perf_counter() - start) / steps)
    in_epoch = -(-task.train.size(0) // BATCH_SIZE)
    return {cell: in_epoch * statistics.median(values) for cell, values in times.items()}


def run(say: Callable[[str], None], rounds: int = ROUNDS) -> dict[str, Any]:
    """The matrix with one thread and with two, each cell relative to the basic LMGC's epoch."""
    document: dict[str, Any] = {}
    try:
        runs = cells()
        for number in (1, 2):
            with threads(number):
                seconds = seconds_per_epoch(runs, rounds)
            basic = seconds[BASIC]
            plural = "thread" if number == 1 else "threads"
            say(
                f"zinc12k, {number} {plural}: an epoch of basic LMGC takes {basic:.2f} s; the others so many times that"
            )
            say(" ".join([f"{'':8s}", *(f"{variant:>9s}" for variant in VARIANTS)]))
            for method in dict.fromkeys(run.method for run in runs):
                row = (seconds.get((method, variant)) for variant in VARIANTS)
                say(" ".join([f"{method:8s}", *(f"{'–' if s is None else format(s / basic, '.2f'):>9s}" for s in row)]))
            document[f"{number} {plural}"] = {f"{m} {v}": value for (m, v), value in seconds.items()}
    except DataError as error:
        say(f"  left out: {error}")
    return document
