"""The operator Σ_k Ã^(k) h_k and its fused forms: checked arguments in front, kernels or plain torch behind."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mimogc._library import backend
from mimogc.graph import Graph
from mimogc.ops import compiled, functions, layers, native, reference
from mimogc.ops.native import Shape, use_reference
from mimogc.ops.reference import separable_alpha

__all__ = [
    "backend",
    "lmgc",
    "pair_scores",
    "propagate",
    "propagate_tanh",
    "separable_alpha",
    "use_reference",
]


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
    _check_rows("alpha", alpha, (graph.num_edges, "K"), graph)
    _check_rows("h", h, (graph.num_src, alpha.size(1), "C"), graph)
    alpha, h = _same_dtype(alpha=alpha, h=h)
    if torch.compiler.is_compiling():
        return compiled.propagate(alpha, h, graph, reduce)
    if native.available(h):
        shape = Shape.HEADS_TO_SUM if reduce == "sum" else Shape.HEADS_TO_HEADS
        out: Tensor = functions.Propagate.apply(alpha, h, graph, shape)
        return out
    return reference.propagate(alpha, h, graph, reduce)


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
    _check_rows("s", s, (graph.num_dst, "K"), graph)
    _check_rows("t", t, (graph.num_src, s.size(1)), graph)
    _check_rows("h", h, (graph.num_src, s.size(1), "C"), graph)
    s, t, h = _same_dtype(s=s, t=t, h=h)
    if edge is not None:
        _check_rows("edge", edge, (graph.num_edges, s.size(1)), graph)
        s, edge = _same_dtype(s=s, edge=edge)
    if torch.compiler.is_compiling():
        return compiled.propagate_tanh(s, t, h, edge, graph)
    if native.available(h):
        out: Tensor = functions.PropagateTanh.apply(s, t, h, edge, graph)
        return out
    return reference.propagate_tanh(s, t, h, edge, graph)


def pair_scores(source: Tensor, target: Tensor, att: Tensor, graph: Graph, slope: float = 0.2) -> Tensor:
    """Scores that do not separate into a term of each end: ``att_k · LeakyReLU(source_k(j) + target_k(i))``.

    Args:
        source: ``[num_src, K, C]`` features of the sources.
        target: ``[num_dst, K, C]`` features of the targets.
        att: ``[K, C]``.
        graph: the graph.
        slope: of the LeakyReLU.

    Returns:
        ``[E, K]`` in the graph's edge order.
    """
    _check_rows("source", source, (graph.num_src, "K", "C"), graph)
    _check_rows("target", target, (graph.num_dst, *source.shape[1:]), graph)
    _check_rows("att", att, tuple(source.shape[1:]), graph)
    source, target, att = _same_dtype(source=source, target=target, att=att)
    if torch.compiler.is_compiling() or not native.available(source):
        return reference.pair_scores(source, target, att, slope, graph)
    out: Tensor = functions.PairScores.apply(source, target, att, graph, slope)
    return out


def lmgc(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    graph: Graph,
    slope: float = 0.2,
    edge: Tensor | None = None,
    bias: Tensor | None = None,
    act: str | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """LMGC as one function of x: transform, scores, the sum over K graphs, bias, activation.

    ``α_k(i,j) = tanh(offset_k + s_k(i) + t_k(j) + edge_k(i,j))``; without offset it is the paper's eq. 12.

    Args:
        x: ``[N, F]`` features.
        weight: ``[K·C, F]``, the W^(k) stacked.
        att: ``[2K, K·C]``, the v_k of the targets above those of the sources.
        graph: the graph.
        slope: of the LeakyReLU.
        edge: ``[E, K]`` score terms of the edges, in the graph's edge order.
        bias: ``[C]``.
        act: ``"gelu"`` or None.
        offset: ``[K]``, added to the scores.

    Returns:
        ``[N, C]``.
    """
    check_act(act)
    _check_rows("x", x, (graph.num_nodes, "F"), graph)
    return lmgcs(
        x,
        [layers.Weights(weight, att, offset, edge, bias)],
        [layers.Settings(slope, act == "gelu")],
        graph,
        None,
    )


def lmgcs(
    x: Tensor,
    weights: Sequence[layers.Weights],
    settings: Sequence[layers.Settings],
    graph: Graph,
    rows: Tensor | None,
) -> Tensor:
    """Several layers one after another; with `rows` ``[N]`` int64, node i begins as row ``rows[i]`` of x.

    The caller has checked x, rows and graph. The weights, which anybody may replace, are checked here, for the kernels.
    """
    width = x.size(1)
    for own in weights:
        width = _check_weights(own, width, x, graph)
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type) or not native.available(x):
        out = x if rows is None else x.index_select(0, rows)
        for own, (slope, gelu) in zip(weights, settings, strict=True):
            out = _by_parts(out, own, slope, graph)
            out = torch.nn.functional.gelu(out) if gelu else out
        return out
    tensors = [tensor for own in weights for tensor in own]
    fused: Tensor = layers.Layers.apply(graph, tuple(settings), rows, x, *tensors)
    return fused


def _by_parts(x: Tensor, own: layers.Weights, slope: float, graph: Graph) -> Tensor:
    heads = own.att.size(0) // 2
    h = torch.nn.functional.linear(x, own.weight)
    s, t = (torch.nn.functional.leaky_relu(h, slope) @ own.att.t()).split(heads, dim=1)
    s = s if own.offset is None else s + own.offset
    out = propagate_tanh(s, t, h.unflatten(1, (heads, -1)), graph, own.edge)
    return out if own.bias is None else out + own.bias


def check_act(act: str | None) -> None:
    if act not in (None, "gelu"):
        raise ValueError(f"act: expected 'gelu' or None, got {act!r}")


def activated(out: Tensor, act: str | None) -> Tensor:
    """GELU of `out` where `act` asks for it."""
    return torch.nn.functional.gelu(out) if act == "gelu" else out


def _check_weights(own: layers.Weights, width: int, x: Tensor, graph: Graph) -> int:
    """Refuse weights that are not those of one layer for rows of `width` numbers like x; gives the width of its output.

    Equal shapes are the rule and are seen at a glance; what is wrong is looked for only where something is.
    """
    weight, att, offset, edge, bias = own
    rows, columns = weight.shape if weight.dim() == 2 else (0, 0)
    heads = att.size(0) // 2 if att.dim() == 2 else 0
    channels = rows // heads if heads else 0
    if heads < 1 or att.shape != (2 * heads, rows) or columns != width or rows != heads * channels:
        _check_rows("weight", weight, ("K·C", width), graph)
        _check_rows("att", att, ("2K", rows), graph)
        raise ValueError(f"att: expected shape [2K, K·C] with K·C = {rows}, got {list(att.shape)}")
    if offset is not None:
        _check_rows("offset", offset, (heads,), graph)
    if edge is not None:
        _check_rows("edge", edge, (graph.num_edges, heads), graph)
    if bias is not None:
        _check_rows("bias", bias, (channels,), graph)
    autocast = torch.is_autocast_enabled(x.device.type)
    for name, value in zip(own._fields, own, strict=True):
        if value is None:
            continue
        if value.dtype != x.dtype and not autocast:
            raise TypeError(f"{name}: expected {x.dtype} like x, got {value.dtype}")
        if value.device != x.device:
            raise ValueError(f"{name}: expected device {x.device} like x, got {value.device}")
    return channels


def _check_rows(name: str, value: Tensor, shape: tuple[int | str, ...], graph: Graph) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    found = value.shape
    fits = len(found) == len(shape)
    for have, want in zip(found, shape, strict=False):
        fits = fits and (have == want or isinstance(want, str))
    if not fits:
        wanted = ", ".join(str(size) for size in shape)
        raise ValueError(f"{name}: expected shape [{wanted}], got {list(found)}")
    if not value.dtype.is_floating_point:
        raise TypeError(f"{name}: expected a floating type, got {value.dtype}")
    if value.device != graph.device:
        raise ValueError(f"{name}: expected device {graph.device} like the graph, got {value.device}")


def _same_dtype(**tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in one type: under autocast float32, otherwise an error where they differ."""
    first_name, first = next(iter(tensors.items()))
    if torch.is_autocast_enabled(first.device.type):
        return tuple(
            tensor if tensor.dtype == torch.float64 else tensor.float() for tensor in tensors.values()
        )
    for name, tensor in tensors.items():
        if tensor.dtype != first.dtype:
            raise TypeError(f"{name}: expected {first.dtype} like {first_name}, got {tensor.dtype}")
    return tuple(tensors.values())
