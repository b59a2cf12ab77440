"""Adam on many runs at once."""

import math
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from mimogc.training.batched.base import Batched, views

ADAM: Any = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False, "maximize": False}
CURVE_POINTS = 200
PROGRESS_SECONDS = 1.0


def train(
    model: Batched,
    learning_rates: Sequence[float],
    decays: Sequence[float],
    steps: int,
    progress: Callable[[int, Tensor], None] = lambda step, best: None,
) -> tuple[Tensor, list[int], Tensor]:
    """Adam on all runs of a batch, each with its own learning rate; ``progress`` is called about once a second.

    Returns:
        ``best [2, B]``, the minima over steps of the squared and of the absolute error, in which NaN does not count;
        the steps of the curves; and the curves ``[2, B, points]``, whose last point is the last step.
    """
    grid = log_grid(steps)
    recorded = set(grid)
    curve = []
    adam = Adam(model, learning_rates, decays)
    best = torch.full((2, model.runs), math.inf, dtype=model.x.dtype)
    told = time.monotonic()
    for step in range(1, steps + 1):
        errors = model.errors()
        torch.fmin(best, errors, out=best)
        if step in recorded:
            curve.append(errors)
        adam.step()
        if step % 64 == 0 and time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            progress(step, best)
    return best, grid, torch.stack(curve, 2)


class Adam:
    """torch's fused Adam, one call for neighbouring runs with the same learning rate and decay.

    `torch.optim.Adam(fused=True)` with a group per learning rate does the same and takes twice as long, all of it
    in Python.
    """

    def __init__(self, model: Batched, learning_rates: Sequence[float], decays: Sequence[float]) -> None:
        moments = [torch.zeros_like(model.parameters) for _ in range(2)]
        shapes = [weight.shape for weight in model.weights]
        tensors = [model.weights, model.slopes, *(views(moment, shapes) for moment in moments)]
        self.count, self.steps = torch.zeros(()), 0
        self.groups = []
        first = 0
        for (rate, decay), members in groupby(zip(learning_rates, decays, strict=True)):
            last = first + len(list(members))
            self.groups.append(([[tensor[first:last] for tensor in kind] for kind in tensors], rate, decay))
            first = last

    def step(self) -> None:
        self.count += 1
        for (weights, gradients, means, squares), rate, decay in self.groups:
            counts = [self.count] * len(weights)
            torch._fused_adam_(weights, gradients, means, squares, [], counts, lr=rate * decay**self.steps, **ADAM)
        self.steps += 1


def log_grid(steps: int, points: int = CURVE_POINTS) -> list[int]:
    """At most ``points`` steps from the first to the last, evenly spread on a logarithmic axis."""
    return sorted({round(steps ** (i / (points - 1))) for i in range(points)})
