"""What a layer accepts as its graph, turned into a Graph."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.edge_index import EdgeIndex
from torch_geometric.typing import SparseTensor

from mimogc.graph import Graph, Size


def as_graph(edge_index: Any, size: Size, edge_attr: Tensor | None = None, self_loops: bool = False) -> Graph:
    """A Graph from a tensor `[2, E]`, a PyG `EdgeIndex`, a transposed sparse adjacency matrix, or a Graph.

    `size` is the number of nodes, or of sources and targets. With `self_loops` every node gets exactly one.
    """
    if isinstance(edge_index, Graph):
        expected = size if isinstance(size, tuple) else (size, size)
        found = (edge_index.num_src, edge_index.num_dst)
        if found != expected:
            raise ValueError(
                f"edge_index: expected a Graph on {expected} sources and targets like x, got {found}"
            )
        if edge_attr is not None:
            raise ValueError("edge_attr: give it to Graph.from_edge_index, not beside a ready Graph")
        return edge_index.with_self_loops() if self_loops else edge_index
    if isinstance(edge_index, SparseTensor):
        row, col, value = edge_index.coo()
        edge_index, edge_attr = _from_adjacency(row, col, value, edge_attr)
    elif isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        row, col, value = _coordinates(edge_index)
        edge_index, edge_attr = _from_adjacency(row, col, value, edge_attr)
    elif isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    return Graph.from_edge_index(edge_index, size, edge_attr, add_self_loops=self_loops)


def _coordinates(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    coo = adjacency if adjacency.layout == torch.sparse_coo else adjacency.to_sparse_coo()
    row, col = coo._indices()  # duplicates are edges of their own, so the matrix is not coalesced
    return row, col, coo._values()


def _from_adjacency(
    row: Tensor, col: Tensor, value: Tensor | None, edge_attr: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The edges of a transposed adjacency matrix (row = target); values other than one are edge attributes."""
    if edge_attr is None and value is not None and not bool((value == 1).all()):
        edge_attr = value
    return torch.stack([col, row]), edge_attr
