"""A real, tiny study for the tests of the engine: least squares by gradient descent, a dozen short trainings.

It obeys three variables of the environment, which are no part of a run's identity: ``TINY_SECONDS`` is the time a
run takes at least, so that a test can strike in the middle; ``TINY_TRACE`` a file that gets a line when a run
starts and ends; ``TINY_FAIL`` a method that raises.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from mimogc.runs.options import Option
from mimogc.runs.run import Outcome, Record, Run, Scalar, hparams
from mimogc.runs.study import Context, Options, Study


class LeastSquares(Study):
    """Two methods, two learning rates and three seeds; the seeds of a setting are a batch."""

    name = "least-squares"
    title = "Least squares"
    methods = ("sgd", "adam")
    datasets = ("gaussian",)
    variants = ("plain",)
    lrs = (0.1, 0.01)
    seeds = 3
    metric = "loss"
    options = (
        Option("steps", 100, "steps of descent", least=1, extent=True, quick=10),
        Option("momentum", 0.0, "of the descent", least=0, most=1),
        Option("centred", False, "whether data is centred"),
    )

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        groups: dict[tuple[object, ...], list[Run]] = {}
        for run in runs:
            groups.setdefault((run.dataset, run.method, run.variant, run.hparams), []).append(run)
        return [tuple(group) for group in groups.values()]

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        outcomes = []
        for i, run in enumerate(batch):
            _trace(f"start {run.id}")
            outcomes.append(train(run))
            context.progress((i + 1) / len(batch), outcomes[-1].metrics)
            time.sleep(float(os.environ.get("TINY_SECONDS", "0")))
            _trace(f"end {run.id}")
        return outcomes


class Refined(LeastSquares):
    """The same, then the best learning rate of each method again with ten times the steps."""

    name = "refined"

    def follow_up(self, options: Options, records: Sequence[Record]) -> list[Run]:
        first = [record for record in records if dict(record.run.hparams)["steps"] == 100]
        runs = []
        for method in options.methods:
            mine = [record for record in first if record.run.method == method]
            best = min(mine, key=lambda record: record.outcome.metrics["loss"]).run
            values = {**dict(best.hparams), "steps": 1000}
            runs.append(Run(self.name, "gaussian", method, "plain", hparams(**values), 0, best.seed))
        return runs


class Mixed(LeastSquares):
    """Two datasets with metrics of opposite directions; one of them is for one method alone, and half as long."""

    name = "mixed"
    datasets = ("gaussian", "labels")
    higher = ("accuracy",)

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        return dataset == "gaussian" or method == "sgd"

    def metrics(self, dataset: str) -> tuple[str, ...]:
        return ("loss",) if dataset == "gaussian" else ("accuracy",)

    def full(self, option: Option, dataset: str, variant: str) -> Scalar:
        return 50 if (option.name, dataset) == ("steps", "labels") else option.default


class Shared(LeastSquares):
    """The same as one computation of several processes: every rank counts."""

    name = "shared"

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        count = torch.ones(())
        torch.distributed.all_reduce(count)
        outcomes = super().execute(batch, context)
        return [replace(o, metrics={**o.metrics, "ranks": count.item()}) for o in outcomes]


def train(run: Run) -> Outcome:
    if run.method == os.environ.get("TINY_FAIL"):
        raise RuntimeError("asked to fail\nwith more to say")
    start = time.perf_counter()
    values = dict(run.hparams)
    generator = torch.Generator().manual_seed(run.seed)
    a = torch.randn(40, 12, generator=generator)
    y = torch.randn(40, 3, generator=generator)
    w = torch.zeros(12, 3, requires_grad=True)
    rule = torch.optim.SGD if run.method == "sgd" else torch.optim.Adam
    optimiser = rule([w], lr=float(values["lr"]))
    losses: list[float] = []
    for _ in range(int(values["steps"])):
        optimiser.zero_grad()
        loss = (a @ w - y).square().mean() * (1 + 1e-3 * torch.rand(()))  # the global generator takes part too
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    finite = torch.isfinite(loss).item()
    curves = {"loss": losses[::20]}
    return Outcome({"loss": losses[-1]}, curves, time.perf_counter() - start, "done" if finite else "diverged")


def _trace(line: str) -> None:
    path = os.environ.get("TINY_TRACE")
    if path:
        with open(path, "a") as file:
            file.write(f"{line} {os.getpid()}\n")


STUDY = LeastSquares()
REFINED = Refined()
MIXED = Mixed()
SHARED = Shared()
