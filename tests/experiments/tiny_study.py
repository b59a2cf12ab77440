"""A real, tiny study for the tests of the engine: least squares by gradient descent, a dozen short trainings."""

import os
import time
from collections.abc import Mapping, Sequence

import torch

from mimogc.experiments.run import Outcome, Record, Run, Scalar, hparams
from mimogc.experiments.study import Cell, Context, Options, Study


class LeastSquares(Study):
    name = "least-squares"
    title = "least squares, for tests"
    methods = ("sgd", "adam")
    datasets = ("gaussian",)
    variants = ("plain",)
    # pause: seconds per batch, so that a test can strike in the middle; trace: a file that gets a line per training
    extras: Mapping[str, Scalar] = {"steps": 200, "pause": 0.0, "trace": "", "fail": ""}

    def runs(self, options: Options) -> list[Run]:
        extras = dict(options.extras)
        return [
            Run(self.name, dataset, method, variant, hparams(lr=lr, **extras), 0, seed)
            for dataset in options.datasets
            for method in options.methods
            for variant in options.variants
            for lr in options.lrs or (0.1, 0.01)
            for seed in range(options.seeds or 3)
        ]

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        groups: dict[tuple[object, ...], list[Run]] = {}
        for run in runs:
            groups.setdefault((run.dataset, run.method, run.variant, run.hparams), []).append(run)
        return [tuple(group) for group in groups.values()]

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        return [self._train(run, i / len(batch), len(batch), context) for i, run in enumerate(batch)]

    def _train(self, run: Run, done: float, size: int, context: Context) -> Outcome:
        values = dict(run.hparams)
        if run.method == values["fail"]:
            raise RuntimeError("asked to fail")
        _trace(str(values["trace"]), f"start {run.id} {os.getpid()}")
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(run.seed)
        a = torch.randn(40, 12, generator=generator)
        y = torch.randn(40, 3, generator=generator)
        w = torch.zeros(12, 3, requires_grad=True)
        optimiser = (torch.optim.SGD if run.method == "sgd" else torch.optim.Adam)(
            [w], lr=float(values["lr"])
        )
        steps = int(values["steps"])
        losses: list[float] = []
        for step in range(steps):
            optimiser.zero_grad()
            loss = (a @ w - y).square().mean() + 1e-3 * torch.rand(())  # the global generator takes part too
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            context.progress(done + (step + 1) / steps / size, {"loss": losses[-1]})
            time.sleep(float(values["pause"]) / size / steps)
        _trace(str(values["trace"]), f"end {run.id} {os.getpid()}")
        diverged = not torch.isfinite(loss)
        return Outcome(
            {"loss": losses[-1]},
            {"loss": losses[::20]},
            time.perf_counter() - start,
            "diverged" if diverged else "done",
        )

    def select(self, records: Sequence[Record]) -> list[Record]:
        return list(records)

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        return []


def _trace(path: str, line: str) -> None:
    if path:
        with open(path, "a") as file:
            file.write(line + "\n")


STUDY = LeastSquares()
