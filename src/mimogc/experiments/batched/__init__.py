"""Many tiny layers trained as one: B runs side by side, each with its own weights, graph, signals and learning rate.

The gradients are written by hand, because at this size autograd costs more than the arithmetic; the tests compare
them with autograd through the library's layers. Shapes: B runs of n nodes, K graphs, F = d and C = c channels.
"""

from mimogc.experiments.batched.attention import FAGCN, LMGC
from mimogc.experiments.batched.base import Batched, Problem
from mimogc.experiments.batched.fixed import ACM, GIN, MIMO
from mimogc.experiments.batched.gatv2 import GATv2
from mimogc.experiments.batched.training import log_grid, train

METHODS: dict[str, type[Batched]] = {
    "gatv2": GATv2,
    "fagcn": FAGCN,
    "acm": ACM,
    "gin": GIN,
    "lmgc": LMGC,
    "mimogc": MIMO,
}

__all__ = ["METHODS", "Batched", "Problem", "log_grid", "train"]
