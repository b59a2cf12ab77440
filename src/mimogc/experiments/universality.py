"""The universality study (Table 1): how closely one layer of each method can map random signals to random targets."""

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from mimogc.experiments.batched import METHODS, Problem, train
from mimogc.experiments.random_graph import connected_graph
from mimogc.experiments.run import Outcome, Record, Run, Scalar, hparams
from mimogc.experiments.selection import cell_of
from mimogc.experiments.study import Cell, Context, Options, Study, UsageError
from mimogc.nn import GINLayer, LMGConv, MIMOConv
from mimogc.spectral import fourier_basis, mimo_convolution
from mimogc.theory import universal_filter

CHANNELS = 16  # d = c
EDGE_PROBABILITY = 0.1
LEARNING_RATES = (0.03, 0.01, 0.003)
SEEDS = 3
PAPER_LEARNING_RATES = {"gatv2": 0.01, "fagcn": 0.01, "acm": 0.01, "gin": 0.01, "lmgc": 0.03}
STEPS = 40_000
QUICK_STEPS = 2_000
BY_COST = ("gatv2", "lmgc", "mimogc", "fagcn", "gin", "acm")


@dataclass(frozen=True, slots=True)
class Setting:
    """One column of the table."""

    nodes: int
    decay: float  # the learning rate is multiplied by it after every step


# The paper says n = 16, but its numbers are those of n = 64, the size in its released script, which decays too.
SETTINGS = {
    "n64": Setting(nodes=64, decay=1.0),
    "n64-decay": Setting(nodes=64, decay=0.9995),
    "n16": Setting(nodes=16, decay=1.0),
}


@functools.lru_cache(maxsize=32)
def problem(nodes: int, seed: int) -> Problem:
    """A connected Erdős–Rényi graph and X, Y ~ N(0, 1). It depends on the size and the seed and on nothing else."""
    random = np.random.default_rng([seed, nodes])
    graph = connected_graph(nodes, EDGE_PROBABILITY, random)
    x, y = (torch.from_numpy(random.standard_normal((nodes, CHANNELS))).float() for _ in range(2))
    return Problem(graph, x, y)


def initial_layer(method: str, nodes: int, seed: int) -> Module:
    """The library's layer with the weights that training starts from, the same for all learning rates."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if method == "gin":
            return GINLayer(CHANNELS, CHANNELS)
        if method == "mimogc":
            return MIMOConv(CHANNELS, CHANNELS, fourier_basis(problem(nodes, seed).graph), bias=False)
        # The study keeps to the paper's equation 12, which it calls lmgc. Self-loops where a method weighs neighbours;
        # ACM's A_sym and L_sym are those of the graph itself.
        coefficients = "eq12" if method == "lmgc" else method
        loops = method != "acm"
        return LMGConv(CHANNELS, CHANNELS, coefficients=coefficients, bias=False, add_self_loops=loops)


def closed_form_error(task: Problem) -> float:
    """The mean squared error of the MIMO-GC that Proposition 1 constructs, in float64."""
    basis = fourier_basis(task.graph)
    x, y = task.x.double(), task.y.double()
    theta = universal_filter(x, y, basis).theta
    return float((mimo_convolution(theta, x, basis) - y).square().mean())


def train_runs(runs: Sequence[Run], progress: Callable[[int, Tensor], None]) -> list[Outcome]:
    """The outcomes of runs of one method, size and number of steps."""
    start = time.perf_counter()
    settings = [SETTINGS[run.variant] for run in runs]
    tasks = [problem(setting.nodes, run.seed) for setting, run in zip(settings, runs, strict=True)]
    layers = [
        initial_layer(run.method, setting.nodes, run.seed)
        for setting, run in zip(settings, runs, strict=True)
    ]
    with torch.no_grad():
        model = METHODS[runs[0].method](layers, tasks)
        rates = [float(dict(run.hparams)["lr"]) for run in runs]
        best, grid, curve = train(
            model, rates, [setting.decay for setting in settings], _steps(runs[0]), progress
        )
    seconds = (time.perf_counter() - start) / len(runs)
    outcomes = []
    for run, task, lowest, losses in zip(runs, tasks, best.tolist(), curve.tolist(), strict=True):
        metrics = {"mse": lowest, "final_mse": losses[-1]}
        if run.method == "mimogc":
            metrics["closed_form_mse"] = closed_form_error(task)
        status: Literal["done", "diverged"] = "done" if math.isfinite(losses[-1]) else "diverged"
        outcomes.append(
            Outcome(metrics, {"step": [float(step) for step in grid], "mse": losses}, seconds, status)
        )
    return outcomes


class Universality(Study):
    """All seeds, learning rates and settings of a method are one batch, trained as one computation."""

    name = "universality"
    title = "Universality: one layer fits random targets (Table 1)"
    methods = ("gatv2", "fagcn", "acm", "gin", "lmgc", "mimogc")
    datasets = ("erdos_renyi",)
    variants = tuple(SETTINGS)
    extras: Mapping[str, Scalar] = {"steps": STEPS}

    def runs(self, options: Options) -> list[Run]:
        steps = int(dict(options.extras)["steps"])
        if steps < 1:
            raise UsageError(f"--steps must be at least 1; got {steps}")
        if options.quick:
            steps = min(steps, QUICK_STEPS)
        seeds = options.seeds or (1 if options.quick else SEEDS)
        return [
            Run(self.name, dataset, method, variant, hparams(lr=lr, steps=steps), 0, seed)
            for dataset in options.datasets
            for method in options.methods
            for variant in options.variants
            for lr in options.lrs or self.learning_rates(method, options)
            for seed in range(seeds)
        ]

    def learning_rates(self, method: str, options: Options) -> tuple[float, ...]:
        chosen = PAPER_LEARNING_RATES.get(method)
        return (chosen,) if options.paper_hparams and chosen else LEARNING_RATES

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        # The longest first, so that they do not end last.
        order = sorted(runs, key=lambda run: (run.variant, run.hparams, run.seed))
        together = sorted(order, key=lambda run: (BY_COST.index(run.method), _steps(run)))
        return [tuple(group) for _, group in groupby(together, key=lambda run: (run.method, _steps(run)))]

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        outcomes: dict[Run, Outcome] = {}
        sizes = sorted({SETTINGS[run.variant].nodes for run in batch}, reverse=True)
        for nodes in sizes:
            part = [run for run in batch if SETTINGS[run.variant].nodes == nodes]
            done = len(outcomes)

            def tell(step: int, best: Tensor, part: Sequence[Run] = part, done: int = done) -> None:
                fraction = (done + len(part) * step / _steps(part[0])) / len(batch)
                context.progress(fraction, {"mse": float(best.min())})

            outcomes |= zip(part, train_runs(part, tell), strict=True)
        return [outcomes[run] for run in batch]

    def select(self, records: Sequence[Record]) -> list[Record]:
        """For each cell the learning rate with the lowest mean; there is nothing to validate on, as in the paper.

        Of what is stored for a cell the longest training counts, and of that what has the most seeds.
        """
        chosen: list[Record] = []
        for _, cell in groupby(sorted(records, key=cell_of), key=cell_of):
            by_hparams = sorted(cell, key=lambda record: record.run.hparams)
            trials: list[list[Record]] = [
                list(group) for _, group in groupby(by_hparams, key=lambda record: record.run.hparams)
            ]
            best = min(trials, key=_rank)
            chosen += best
        return chosen

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        cells = []
        for key, group in groupby(self.select(records), key=cell_of):
            repeats = list(group)
            errors = np.array([record.outcome.metrics["mse"] for record in repeats])
            std = float(errors.std(ddof=1)) if len(errors) > 1 and np.isfinite(errors).all() else math.nan
            cells.append(Cell(*key, "mse", _mean(repeats), std, len(repeats), SEEDS, repeats[0].run.hparams))
        return sorted(
            cells, key=lambda cell: (self.variants.index(cell.variant), self.methods.index(cell.method))
        )


def _steps(run: Run) -> int:
    return int(dict(run.hparams)["steps"])


def _rank(trial: list[Record]) -> tuple[float, ...]:
    return -_steps(trial[0].run), -len(trial), _mean(trial)


def _mean(records: Sequence[Record]) -> float:
    mean = float(np.mean([record.outcome.metrics["mse"] for record in records]))
    return math.inf if math.isnan(mean) else mean


STUDY = Universality()
