"""How many parameters a model has, and the width with which it fits a budget of them."""

from collections.abc import Callable
from contextlib import suppress

import torch


def num_parameters(model: torch.nn.Module) -> int:
    """The number of learnable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def built_to_look_at(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A module that is only looked at: without memory for its weights, unless it needs their values to be built.

    The random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):
                return build()
        except ValueError:  # of what the module was asked to be
            raise
        except Exception:  # a layer of one's own may compute with its weights, or put them on a device itself
            return build()


def fit_width(build: Callable[[int], torch.nn.Module], budget: int = 100_000) -> int:
    """The largest width whose model ``build(width)`` has at most `budget` learnable parameters.

    Models are built without memory for their weights where they can be, and the random state is left as it was.
    ``build`` may refuse widths with a ValueError: those that are too small, or not a multiple of something.
    """

    def size(width: int) -> int:
        return num_parameters(built_to_look_at(lambda: build(width)))

    def fits(width: int) -> bool:
        try:
            return size(width) <= budget
        except ValueError:
            return True

    low, high = 0, 1
    while fits(high) and high <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if fits(high):
        size(high)  # no width can be built: let the model say why
    for width in range(low, 0, -1):  # a width that was refused may have led too far
        with suppress(ValueError):
            if size(width) <= budget:
                return width
    raise ValueError(f"budget: {budget} parameters are too few for a model of any width")
