"""Many tiny layers trained as one: B runs side by side, each with its own weights, graph, signals and learning rate.

The gradients are written by hand, because at this size autograd costs more than the arithmetic; the tests compare
them with autograd through the library's layers. Shapes: B runs of n nodes, K graphs, F = d and C = c channels.
"""

from mimogc._loading import load_object
from mimogc.methods import of_the_paper
from mimogc.training.batched.base import Batched, Problem
from mimogc.training.batched.training import log_grid, train

__all__ = ["Batched", "Problem", "batched_form", "log_grid", "train"]


def batched_form(method: str, released: bool = False) -> type[Batched]:
    """The class of the method that the paper calls so; as in the released script, where that has another one."""
    if released:
        from mimogc.training.batched.released import form

        if (found := form(method)) is not None:
            return found
    usual: type[Batched] = load_object("batched", of_the_paper()[method].batched)
    return usual
