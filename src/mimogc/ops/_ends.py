"""What nodes have, at the ends of their edges, and back: gathers and sums that are each other's gradients.

Plain torch may add up the gradient of a gather with atomics on a GPU; these walk the edges in the order of their
sources or of their targets, so that it is the same bit by bit every time.
"""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _compiled_edges, _functions
from mimogc.ops._checks import matched


def at_sources(x: Tensor, graph: Graph) -> Tensor:
    """``[E, K]``: the row of x ``[num_src, K]`` at the source of each edge, in the graph's edge order."""
    (x,) = matched(graph, ("x", x, (graph.num_src, "K")))
    return _at_ends(x, graph, True)


def at_targets(x: Tensor, graph: Graph) -> Tensor:
    """``[E, K]``: the row of x ``[num_dst, K]`` at the target of each edge, in the graph's edge order."""
    (x,) = matched(graph, ("x", x, (graph.num_dst, "K")))
    return _at_ends(x, graph, False)


def sum_at_targets(values: Tensor, graph: Graph) -> Tensor:
    """``[num_dst, K]``: the sums of values ``[E, K]`` over the edges into each node."""
    (values,) = matched(graph, ("values", values, (graph.num_edges, "K")))
    if torch.compiler.is_compiling():
        return _compiled_edges.sum_at_ends(values, graph, False)
    return _functions.sum_at_ends(values, graph, False)


def separable_alpha(s: Tensor, t: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    """``[E, K]``: ``α_k(i,j) = tanh(s_k(i) + t_k(j) + edge_k(i,j))``."""
    score = at_targets(s, graph) + at_sources(t, graph)
    return torch.tanh(score if edge is None else score + edge)


def _at_ends(x: Tensor, graph: Graph, sources: bool) -> Tensor:
    if torch.compiler.is_compiling():
        return _compiled_edges.at_ends(x, graph, sources)
    return _functions.at_ends(x, graph, sources)
