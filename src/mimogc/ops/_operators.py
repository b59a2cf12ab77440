"""The operators on a graph, checked; each hands over to a backend, an operator for the compiler, or plain torch."""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _compiled, _compiled_edges, _functions, reference
from mimogc.ops._backends import serving
from mimogc.ops._checks import matched


def propagate(alpha: Tensor, h: Tensor, graph: Graph, reduce: str = "sum") -> Tensor:
    """K computational graphs at once: ``out_i = Σ_k Σ_j α_k(i,j) h_k(j)``.

    Args:
        alpha: ``[E, K]`` edge weights in the graph's edge order.
        h: ``[N, K, C]`` transformed features of the sources.
        graph: the graph.
        reduce: ``"sum"`` over the K graphs, or ``"none"`` to keep them apart.

    Returns:
        ``[N, C]``, or ``[N, K, C]`` with ``reduce="none"``.
    """
    if reduce not in ("sum", "none"):
        raise ValueError(f"reduce: expected 'sum' or 'none', got {reduce!r}")
    alpha, h = matched(graph, ("alpha", alpha, (graph.num_edges, "K")), ("h", h, (graph.num_src, "K", "C")))
    if torch.compiler.is_compiling():
        return _compiled.propagate(alpha, h, graph, reduce)
    backend = serving(h, alpha)
    if backend is None:
        return reference.propagate(alpha, h, graph, reduce)
    out: Tensor = _functions.Propagate.apply(alpha, h, graph, reduce, backend)
    return out


def propagate_tanh(s: Tensor, t: Tensor, h: Tensor, graph: Graph, edge: Tensor | None = None) -> Tensor:
    """The same sum with ``α_k(i,j) = tanh(s_k(i) + t_k(j) + edge_k(i,j))``, which is never stored in the forward pass.

    Args:
        s: ``[num_dst, K]`` score terms of the targets.
        t: ``[num_src, K]`` score terms of the sources.
        h: ``[num_src, K, C]`` transformed features of the sources.
        graph: the graph.
        edge: ``[E, K]`` score terms of the edges, in the graph's edge order.

    Returns:
        ``[N, C]``.
    """
    s, t, h, edge = matched(
        graph,
        ("s", s, (graph.num_dst, "K")),
        ("t", t, (graph.num_src, "K")),
        ("h", h, (graph.num_src, "K", "C")),
        ("edge", edge, (graph.num_edges, "K")),
    )
    if torch.compiler.is_compiling():
        return _compiled.propagate_tanh(s, t, h, edge, graph)
    backend = serving(h, s, t, edge)
    if backend is None:
        return reference.propagate_tanh(s, t, h, edge, graph)
    out: Tensor = _functions.PropagateTanh.apply(s, t, h, edge, graph, backend)
    return out


def pair_scores(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    graph: Graph,
    slope: float = 0.2,
    edge: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """Scores that do not separate into a term of each end: ``att_k · LeakyReLU(source_k(j) + target_k(i))``.

    With features of the edges, ``weight_k edge(i,j)`` is added within the LeakyReLU; it is never stored.

    Args:
        source: ``[num_src, K, C]`` features of the sources.
        target: ``[num_dst, K, C]`` features of the targets.
        att: ``[K, C]``.
        graph: the graph.
        slope: of the LeakyReLU.
        edge: ``[E, D]`` features of the edges, in the graph's edge order.
        weight: ``[K, C, D]``, which maps them; given if `edge` is.

    Returns:
        ``[E, K]`` in the graph's edge order.
    """
    if (edge is None) != (weight is None):
        missing, given = ("edge", "weight") if edge is None else ("weight", "edge")
        raise ValueError(f"{missing}: expected a tensor, because {given} is given, got None")
    source, target, att, edge, weight = matched(
        graph,
        ("source", source, (graph.num_src, "K", "C")),
        ("target", target, (graph.num_dst, "K", "C")),
        ("att", att, ("K", "C")),
        ("edge", edge, (graph.num_edges, "D")),
        ("weight", weight, ("K", "C", "D")),
    )
    if torch.compiler.is_compiling():
        return _compiled.pair_scores(source, target, att, edge, weight, slope, graph)
    backend = serving(source, target, att, edge, weight)
    if backend is None:
        return reference.pair_scores(source, target, att, slope, graph, edge, weight)
    out: Tensor = _functions.PairScores.apply(source, target, att, edge, weight, graph, slope, backend)
    return out


def edge_softmax(score: Tensor, graph: Graph) -> Tensor:
    """Scores as weights that add up to one over the edges into each node.

    Args:
        score: ``[E, K]`` in the graph's edge order.
        graph: the graph.

    Returns:
        ``[E, K]``.
    """
    (score,) = matched(graph, ("score", score, (graph.num_edges, "K")))
    if torch.compiler.is_compiling():
        return _compiled_edges.edge_softmax(score, graph)
    backend = serving(score)
    if backend is None:
        return reference.softmax(score, graph)
    out: Tensor = _functions.Softmax.apply(score, graph, backend)
    return out
