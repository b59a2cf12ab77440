"""What an epoch of ZINC12k costs: every method in every variant, beside the basic LMGC, taking turns."""

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mimogc.bench.ablation import WITHOUT
from mimogc.data import DataError
from mimogc.runs.options import UsageError
from mimogc.runs.run import Run
from mimogc.runs.study import Options, complete
from mimogc.studies.zinc import PAPER_METHODS, ZINC12K
from mimogc.studies.zinc_models import PAPER_VARIANTS, VARIANTS, build
from mimogc.training.graphs import BATCH_SIZE, FlatAdamW, train_epoch

STEPS, ROUNDS = 20, 5  # steps of one turn, turns of each cell after a first one to warm up
BASIC = ("lmgc", "basic")  # the cell that the others are measured in
EACH_ATOM = ("lmgc", "basic, each atom by itself")  # the same model, which does not compute like atoms once


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
    """(method, variant) → the time of a step times the steps of an epoch, the median over the turns.

    With the basic LMGC comes `EACH_ATOM`, the same model without computing like atoms once.
    """
    turns: dict[tuple[str, str], Callable[[], float]] = {}
    for run in runs:
        model, task = build(run)
        optimiser = FlatAdamW(model, 0.001)
        order = torch.randperm(task.train.size(0), generator=torch.Generator().manual_seed(0))[: steps * BATCH_SIZE]
        turns[run.method, run.variant] = functools.partial(
            train_epoch, model, optimiser, task, order, model.add_self_loops
        )
    if BASIC in turns:
        turns[EACH_ATOM] = functools.partial(_each_atom, turns[BASIC])
    times: dict[tuple[str, str], list[float]] = {cell: [] for cell in turns}
    for number in range(rounds + 1):
        for cell, turn in turns.items():
            start = time.perf_counter()
            turn()
            if number:
                times[cell].append((time.perf_counter() - start) / steps)
    in_epoch = -(-task.train.size(0) // BATCH_SIZE)
    return {cell: in_epoch * statistics.median(values) for cell, values in times.items()}


def within_twice(seconds: dict[tuple[str, str], float]) -> str:
    """How many cells of Table 2 take at most twice as long as the basic LMGC, and what that owes to like atoms."""
    of_table = [cell for cell in seconds if cell[0] in PAPER_METHODS and cell[1] in PAPER_VARIANTS]
    within = sum(seconds[cell] <= 2 * seconds[BASIC] for cell in of_table)
    return (
        f"{within} of the {len(of_table)} cells of Table 2 take at most twice that; the basic LMGC computes like atoms "
        f"once, and would take {seconds[EACH_ATOM] / seconds[BASIC]:.2f} times as long with each by itself"
    )


def _each_atom(turn: Callable[[], float]) -> float:
    with WITHOUT["classes of like atoms"]():
        return turn()


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
            say(within_twice(seconds))
            document[f"{number} {plural}"] = {f"{m} {v}": value for (m, v), value in seconds.items()}
    except DataError as error:
        say(f"  left out: {error}")
    return document
