"""What a layer accepts as its features and as its graph: checked, and turned into a Graph."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.edge_index import EdgeIndex
from torch_geometric.nn.dense.linear import is_uninitialized_parameter
from torch_geometric.typing import SparseTensor

from mimogc.graph import Graph, Size
from mimogc.nn.coefficients.base import Channels, Pair


def check_size(name: str, size: object, smallest: int = 1) -> None:
    """Refuse a number of channels or graphs that is no whole number, or too small."""
    if isinstance(size, bool) or not isinstance(size, int) or size < smallest:
        raise ValueError(f"{name}: expected a whole number of at least {smallest}, got {size!r}")


def check_features(x: Tensor, channels: int) -> None:
    """Refuse x unless it is ``[N, channels]`` of a floating type; -1 stands for any width."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x: expected a tensor or a pair of tensors, got {type(x).__name__}")
    if x.layout != torch.strided:
        raise TypeError(f"x: expected a dense tensor, got {x.layout}")
    if x.dim() != 2 or channels not in (-1, x.size(1)):
        raise ValueError(f"x: expected shape [N, {'F' if channels == -1 else channels}], got {list(x.shape)}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"x: expected a floating type, got {x.dtype}")


def both_sides(x: Tensor | Pair, in_channels: Channels) -> Pair:
    """The features of sources and targets, each checked: twice the same tensor unless x is a pair."""
    source, target = x if isinstance(x, tuple) else (x, x)
    of_source, of_target = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
    check_features(source, of_source)
    if target is not source:
        check_features(target, of_target)
    return source, target


def check_weight(name: str, weight: Tensor, rows: int) -> None:
    """Refuse a weight unless it is ``[rows, F]``, or not known yet."""
    if is_uninitialized_parameter(weight):
        return
    found = weight.shape
    if len(found) != 2 or found[0] != rows:
        raise ValueError(f"{name}: expected shape [{rows}, F], got {list(found)}")


def check_bias(bias: Tensor, channels: int, weight: Tensor) -> None:
    """Refuse a bias unless it is ``[channels]`` of the weight's type."""
    if bias.shape != (channels,):
        raise ValueError(f"bias: expected shape [{channels}], got {list(bias.shape)}")
    if bias.dtype != weight.dtype:
        raise TypeError(f"bias: expected {weight.dtype} like lin.weight, got {bias.dtype}")


def check_index(index: Tensor, table: Tensor) -> None:
    """Refuse what cannot say which row of the table each node has."""
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.dim() != 1:
        found = f"{index.dtype} {list(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"index: expected int64 of shape [N], got {found}")
    if index.device != table.device:
        raise ValueError(f"index: expected device {table.device} like the table, got {index.device}")


def check_edge_attr(edge_attr: Tensor | None, edge_dim: int | None, multiplied: bool) -> None:
    """Refuse attributes unless they are those of a layer with `edge_dim`; `multiplied` ones are of a floating type."""
    if edge_dim is None:
        if edge_attr is not None:
            raise ValueError(
                "edge_attr: expected none, because the layer was built without edge_dim, "
                f"got shape {list(edge_attr.shape)}"
            )
        return
    if edge_attr is None:
        raise ValueError(f"edge_attr: expected shape [E, {edge_dim}] because of edge_dim, got none")
    if edge_attr.dim() > 2 or edge_attr.shape[1:].numel() != edge_dim:
        raise ValueError(f"edge_attr: expected shape [E, {edge_dim}], got {list(edge_attr.shape)}")
    if multiplied and not edge_attr.dtype.is_floating_point:
        raise TypeError(f"edge_attr: expected a floating type, got {edge_attr.dtype}")


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether calling the module does more than its forward."""
    own = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return any(own) or bool(torch.nn.modules.module._has_any_global_hook())


def unpacked(
    edge_index: Any, edge_attr: Tensor | None = None, keep_ones: bool = False
) -> tuple[Any, Tensor | None]:
    """The edges, or the Graph, and the attributes of a tensor `[2, E]`, an `EdgeIndex`, a sparse matrix or a Graph.

    A sparse adjacency matrix is transposed (row = target). Its values are edge attributes, unless all of them are
    one and `keep_ones` is false.
    """
    if isinstance(edge_index, Graph):
        if edge_attr is not None:
            raise ValueError("edge_attr: give it to Graph.from_edge_index, not beside a ready Graph")
        return edge_index, edge_index.edge_attr
    if isinstance(edge_index, EdgeIndex):
        return edge_index.as_tensor(), edge_attr
    if isinstance(edge_index, SparseTensor):
        row, col, value = edge_index.coo()
    elif isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        row, col, value = _coordinates(edge_index)
    else:
        return edge_index, edge_attr
    if edge_attr is None and value is not None and (keep_ones or not bool((value == 1).all())):
        edge_attr = value
    return torch.stack([col, row]), edge_attr


def as_graph(edges: Any, size: Size, edge_attr: Tensor | None, self_loops: bool) -> Graph:
    """The Graph of what `unpacked` gives.

    `size` is the number of nodes, or of sources and targets. With `self_loops` every node gets exactly one.
    """
    if not isinstance(edges, Graph):
        return Graph.from_edge_index(edges, size, edge_attr, add_self_loops=self_loops)
    expected = size if isinstance(size, tuple) else (size, size)
    found = (edges.num_src, edges.num_dst)
    if found != expected:
        raise ValueError(
            f"edge_index: expected a Graph on {expected} sources and targets like x, got {found}"
        )
    return edges.with_self_loops() if self_loops else edges


def plain_graph(edge_index: Any, size: Size, self_loops: bool = False) -> Graph:
    """The Graph for a layer that knows no weights or attributes of edges and must not ignore them."""
    edges, edge_attr = unpacked(edge_index)
    if edge_attr is not None:
        raise ValueError(
            "edge_index: expected a graph without weights or attributes, "
            f"got edge_attr of shape {list(edge_attr.shape)}"
        )
    return as_graph(edges, size, None, self_loops)


def _coordinates(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    coo = adjacency if adjacency.layout == torch.sparse_coo else adjacency.to_sparse_coo()
    row, col = coo._indices()  # duplicates are edges of their own, so the matrix is not coalesced
    return row, col, coo._values()
