"""Adam on many runs at once."""

import math
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mimogc.experiments.batched.base import Batched, views

BETAS, EPS = (0.9, 0.999), 1e-8
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
        ``best [B]``, the minimum over steps, in which NaN does not count; the steps of the curve; and the curve
        ``[B, points]``, whose last point is the last step.
    """
    grid = log_grid(steps)
    recorded = set(grid)
    curve = []
    parameters, gradient = model.parameters, model.gradient
    mean, square, update = (torch.zeros_like(parameters) for _ in range(3))
    weights = [weight.view(model.runs, -1) for weight in model.weights]
    updates = views(update, [weight.shape for weight in weights])
    rates = torch.tensor(learning_rates, dtype=torch.float64).view(-1, 1)
    factors = torch.tensor(decays, dtype=torch.float64).view(-1, 1)
    best = torch.full((model.runs,), math.inf, dtype=parameters.dtype)
    told = time.monotonic()
    for step in range(1, steps + 1):
        loss = model.loss()
        torch.fmin(best, loss, out=best)
        if step in recorded:
            curve.append(loss)
        # Adam is element-wise, so a learning rate per run is exact.
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        correction = math.sqrt(1 - BETAS[1] ** step)
        torch.sqrt(square, out=update).add_(EPS * correction)
        torch.div(mean, update, out=update)
        scale = (rates * (-correction / (1 - BETAS[0] ** step))).to(parameters.dtype)
        for weight, part in zip(weights, updates, strict=True):
            weight.addcmul_(part, scale)
        rates *= factors
        if step % 64 == 0 and time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            progress(step, best)
    return best, grid, torch.stack(curve, 1)


def log_grid(steps: int, points: int = CURVE_POINTS) -> list[int]:
    """At most ``points`` steps from the first to the last, evenly spread on a logarithmic axis."""
    return sorted({round(steps ** (i / (points - 1))) for i in range(points)})
