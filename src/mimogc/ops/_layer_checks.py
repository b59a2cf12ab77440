"""Whether x and the weights of several layers fit each other, at a glance and with words."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops._backends import plain
from mimogc.ops._checks import Expected, matched
from mimogc.ops._native_layers import Weights


def fit(x: Tensor, weights: Sequence[Weights], graph: Graph, rows: Tensor | None) -> bool:
    """Whether x and all weights are what the kernels take, at a glance; `check` says what is not."""
    shape, dtype, dense = x.shape, x.dtype, x.layout
    if (
        dense is not torch.strided
        or len(shape) != 2
        or not graph.rowptr.is_cpu
        or (rows is None and shape[0] != sources_of(graph))
    ):
        return False
    features = shape[1]
    try:
        for weight, att, offset, edge, bias in weights:
            if weight is None or not plain(weight, att, offset, edge, bias):
                return False
            twice, width = att.shape
            heads = twice // 2
            channels = width // heads
            wanted = (
                (weight, (width, features)),
                (att, (2 * heads, heads * channels)),
                (offset, (heads,)),
                (bias, (channels,)),
                (edge, (graph.num_edges, heads)),
            )
            for value, size in wanted:
                if value is not None and (
                    value.shape != size or value.dtype is not dtype or value.layout is not dense or not value.is_cpu
                ):
                    return False
            features = channels
    except (AttributeError, ValueError, ZeroDivisionError):
        return False
    return True


def check_between(weights: Sequence[Weights], gain: float | None, maximum: bool) -> None:
    """Refuse layers whose outputs cannot be added to their inputs, or compared with each other."""
    if gain is None and not maximum:
        return
    sizes = [list(getattr(own.weight, "shape", ())) for own in weights]
    heads = [own.att.size(0) // 2 if isinstance(own.att, Tensor) and own.att.dim() == 2 else 0 for own in weights]
    if any(len(size) != 2 or not of for size, of in zip(sizes, heads, strict=True)):
        return  # which `check` says in its own words
    widths = [size[0] / of for size, of in zip(sizes, heads, strict=True)]
    if gain is not None and widths != [size[1] for size in sizes]:
        raise ValueError(f"gain: expected layers with as many channels as features, got weights of {sizes}")
    if maximum and len(set(widths)) > 1:
        raise ValueError(f"maximum: expected layers with as many channels as each other, got weights of {sizes}")


def check_rows(rows: Tensor | None, x: Tensor, graph: Graph) -> None:
    """Refuse what cannot say which row of x each node begins as."""
    if rows is None:
        return
    if not isinstance(rows, Tensor):
        raise TypeError(f"rows: expected a tensor, got {type(rows).__name__}")
    if rows.dtype != torch.int64 or rows.shape != (graph.num_nodes,) or rows.device != x.device:
        wanted = f"int64 [{graph.num_nodes}] on {x.device}"
        raise ValueError(f"rows: expected {wanted}, got {rows.dtype} {list(rows.shape)} on {rows.device}")


def sources_of(graph: Graph) -> int:
    """The rows of x: the nodes, or those of a part of a graph with those of its halo behind them."""
    return graph.num_src if graph.is_partitioned else graph.num_nodes


def check(x: Tensor, weights: Sequence[Weights], graph: Graph, rows: Tensor | None) -> None:
    """Refuse weights that are not those of layers one after another, beginning with x."""
    shape: tuple[int | str, ...] = (sources_of(graph) if rows is None else "rows", "F")
    sizes: dict[str, int] = {}
    for weight, att, offset, edge, bias in weights:
        if weight is None:
            raise TypeError("weight: expected a tensor, got NoneType")
        twice, width = att.shape if isinstance(att, Tensor) and att.dim() == 2 else (0, 0)
        heads = twice // 2
        known = heads > 0 and twice == 2 * heads and width % heads == 0
        expected: list[Expected] = [("x", x, shape), ("weight", weight, ("K·C", "F")), ("att", att, ("2K", "K·C"))]
        if known:
            sizes |= {"K": heads, "C": width // heads}
            expected += ("offset", offset, ("K",)), ("edge", edge, (graph.num_edges, "K")), ("bias", bias, ("C",))
        matched(graph, *expected, **sizes)
        if not known:
            raise ValueError(f"att: expected shape [2K, K·C] with K·C = {width}, got {list(att.shape)}")
        shape, sizes = ("rows", "given"), {"F": width // heads}
