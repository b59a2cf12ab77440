"""The universality study (Table 1): how closely one layer of each method can map random signals to random targets."""

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from mimogc import methods
from mimogc.runs import selection
from mimogc.runs.options import Option
from mimogc.runs.run import Outcome, Record, Run, Scalar
from mimogc.runs.study import Context, Options, Study
from mimogc.studies.own_methods import selected_by_paper

if TYPE_CHECKING:  # what needs torch is imported by the functions that train
    from torch import Tensor
    from torch.nn import Module

    from mimogc.training.batched import Problem

CHANNELS = 16  # d = c
EDGE_PROBABILITY = 0.1
LEARNING_RATES = (0.03, 0.01, 0.003)
SEEDS = 3
SLOWEST_FIRST = ("gatv2", "lmgc", "mimogc", "fagcn", "gin", "acm")  # so that those that take longest do not end last


@dataclass(frozen=True, slots=True)
class Setting:
    """One column of the table."""

    nodes: int
    decay: float  # the learning rate is multiplied by it after every step
    released: bool = False  # the released script's layers, absolute error and clipped gradients


# The released script has n = 64 and decays; with its layers and its error the paper's n = 16 gives what it prints.
SETTINGS = {
    "n64": Setting(nodes=64, decay=1.0),
    "n64-decay": Setting(nodes=64, decay=0.9995),
    "n16": Setting(nodes=16, decay=1.0),
    "released": Setting(nodes=64, decay=0.9995, released=True),
    "released-n16": Setting(nodes=16, decay=0.9995, released=True),
}


@functools.lru_cache(maxsize=32)
def problem(nodes: int, seed: int) -> "Problem":
    """A connected Erdős–Rényi graph and X, Y ~ N(0, 1). It depends on the size and the seed and on nothing else."""
    import numpy as np
    import torch

    from mimogc.data.random_graph import connected_graph
    from mimogc.training.batched import Problem

    random = np.random.default_rng([seed, nodes])
    graph = connected_graph(nodes, EDGE_PROBABILITY, random)
    x, y = (torch.from_numpy(random.standard_normal((nodes, CHANNELS))).float() for _ in range(2))
    return Problem(graph, x, y)


def initial_layer(method: str, nodes: int, seed: int, released: bool = False) -> "Module":
    """The layer with the weights that training starts from, the same for all learning rates.

    It is the library's, or, if ``released``, the parameters of the released one; MIMO-GC is the same in both.
    """
    import torch

    from mimogc.training.batched import released as script

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        form = script.form(method) if released else None
        if form is not None:
            return form.start(CHANNELS)
        # Self-loops where a method weighs neighbours; filters on one eigenbasis, ACM's, are those of the graph itself.
        record = methods.of_the_paper()[method]
        loops = record.family != "one eigenbasis"
        return record.build(CHANNELS, bias=False, add_self_loops=loops, graph=problem(nodes, seed).graph)


def closed_form_error(task: "Problem") -> float:
    """The mean squared error of the MIMO-GC that Proposition 1 constructs, in float64."""
    from mimogc.spectral import fourier_basis, mimo_convolution
    from mimogc.theory import universal_filter

    basis = fourier_basis(task.graph)
    x, y = task.x.double(), task.y.double()
    theta = universal_filter(x, y, basis).theta
    return float((mimo_convolution(theta, x, basis) - y).square().mean())


def train_runs(runs: Sequence[Run], progress: "Callable[[int, Tensor], None]") -> list[Outcome]:
    """The outcomes of runs of one method, size and number of steps, all in settings as released or none."""
    import torch

    from mimogc.training.batched import batched_form, train
    from mimogc.training.batched.released import LIMIT

    start = time.perf_counter()
    method, settings = runs[0].method, [SETTINGS[run.variant] for run in runs]
    released = settings[0].released
    places = [(setting.nodes, run.seed) for setting, run in zip(settings, runs, strict=True)]
    tasks = [problem(*place) for place in places]
    with torch.no_grad():
        model = batched_form(method, released)([initial_layer(method, *place, released) for place in places], tasks)
        if released:
            model.absolute, model.limit = True, LIMIT
        rates = [float(dict(run.hparams)["lr"]) for run in runs]
        best, grid, curves = train(model, rates, [setting.decay for setting in settings], _steps(runs[0]), progress)
    seconds = (time.perf_counter() - start) / len(runs)
    outcomes = []
    for i, task in enumerate(tasks):
        (mse, mae), (squared, absolute) = best[:, i].tolist(), curves[:, i].tolist()
        metrics = {"mse": mse, "final_mse": squared[-1], "mae": mae}
        if method == "mimogc":
            metrics["closed_form_mse"] = closed_form_error(task)
        drawn = {"mse": squared} | ({"mae": absolute} if released else {})
        status: Literal["done", "diverged"] = "done" if math.isfinite(squared[-1]) else "diverged"
        outcomes.append(Outcome(metrics, {"step": [float(step) for step in grid], **drawn}, seconds, status))
    return outcomes


class Universality(Study):
    """All seeds, learning rates and settings of a method are one batch, trained as one computation. It keeps to the
    paper's names: its lmgc is equation 12, which is called eq12 in the other studies.
    """

    name = "universality"
    title = "Universality: one layer fits random targets (Table 1)"
    datasets = ("erdos_renyi",)
    variants = tuple(SETTINGS)
    usual: Mapping[str, tuple[str, ...]] = {
        "variants": tuple(name for name, setting in SETTINGS.items() if not setting.released)
    }
    lrs = LEARNING_RATES
    seeds = SEEDS
    metric = "mse"  # there is nothing to validate on, as in the paper
    paper_hparams = True
    options = (Option("steps", 40_000, "steps of Adam", least=1, extent=True, quick=2_000),)

    @property
    def methods(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(name for name, record in methods.of_the_paper().items() if record.batched)

    def settings(self, dataset: str, method: str, variant: str, options: Options) -> list[Mapping[str, Scalar]]:
        paper = selected_by_paper(self.name).get(method) if options.paper_hparams else None
        return [{"lr": lr} for lr in options.lrs or ((paper,) if paper else self.lrs)]

    def metric_of(self, variant: str) -> str:
        """What the table shows: the squared error, and the absolute one where it is minimised and read as released."""
        return "mae" if variant in SETTINGS and SETTINGS[variant].released else self.metric

    def select(self, records: Sequence[Record]) -> list[Record]:
        found = selection.cells(self, records)
        return [r for cell in found for r in selection.best(self, cell, self.metric_of(cell[0].run.variant))]

    def aggregate(self, records: Sequence[Record]) -> list[selection.Cell]:
        cells = selection.cells(self, self.select(records))
        return [selection.cell_of(self, cell, self.metric_of(cell[0].run.variant)) for cell in cells]

    def rough_seconds(self, run: Run) -> float:
        return 6e-5  # of a step; from docs/performance.md

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        order = sorted(runs, key=lambda run: (run.variant, run.hparams, run.seed))
        together = sorted(order, key=lambda run: (selection.place(SLOWEST_FIRST, run.method), _steps(run)))
        return [tuple(group) for _, group in groupby(together, key=lambda run: (run.method, _steps(run)))]

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        outcomes: dict[Run, Outcome] = {}
        kinds = {run: (SETTINGS[run.variant].nodes, SETTINGS[run.variant].released) for run in batch}
        for kind in sorted(set(kinds.values()), reverse=True):
            part = [run for run in batch if kinds[run] == kind]
            done = len(outcomes)

            def tell(step: int, best: "Tensor", part: Sequence[Run] = part, done: int = done) -> None:
                fraction = (done + len(part) * step / _steps(part[0])) / len(batch)
                context.progress(fraction, {"mse": float(best[0].min())})

            outcomes |= zip(part, train_runs(part, tell), strict=True)
        return [outcomes[run] for run in batch]


def _steps(run: Run) -> int:
    return int(dict(run.hparams)["steps"])


STUDY = Universality()
