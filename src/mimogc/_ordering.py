"""Orders of a graph's nodes that keep neighbours near each other, and a graph in such an order."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Permutation(NamedTuple):
    """An order of nodes, and the way there and back."""

    order: Tensor  #: [N] int64: node order[n] of the given graph is node n of the reordered one
    place: Tensor  #: [N] int64: node n of the given graph is node place[n] of the reordered one

    @staticmethod
    def of(order: Tensor) -> "Permutation":
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=order.device)
        return Permutation(order, place)

    def apply(self, rows: Tensor) -> Tensor:
        """[N, ...]: features, labels or masks of the given graph for the reordered one."""
        return self._rows(rows).index_select(0, self.order)

    def back(self, rows: Tensor) -> Tensor:
        """[N, ...]: outputs on the reordered graph, in the order of the given one."""
        return self._rows(rows).index_select(0, self.place)

    def _rows(self, rows: Tensor) -> Tensor:
        if rows.dim() == 0 or rows.size(0) != self.order.numel():
            raise ValueError(f"rows: expected one per node ({self.order.numel()}), got {list(rows.shape)}")
        return rows


def adjacency(edge_index: Tensor, num_nodes: int) -> Any:
    """The graph without directions, duplicates and loops, as scipy has it."""
    import scipy.sparse

    src, dst = edge_index[:, edge_index[0] != edge_index[1]].numpy()
    ones = np.ones(2 * len(src), dtype=np.int8)
    ends = (np.concatenate([src, dst]), np.concatenate([dst, src]))
    matrix = scipy.sparse.csr_array((ones, ends), shape=(num_nodes, num_nodes))
    matrix.data[:] = 1  # duplicates were added up
    return matrix


def near(matrix: Any) -> Any:
    """[N]: neighbours next to each other: breadth first, nodes of low degree before others (reverse Cuthill–McKee)."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return np.array(reverse_cuthill_mckee(matrix, symmetric_mode=True), dtype=np.int64)


def reordered(graph: Any) -> tuple[Any, Permutation]:
    """A `Graph` with its nodes in the order `near`, and the permutation."""
    import scipy.sparse

    if graph.is_bipartite or graph.is_partitioned:
        raise ValueError(f"graph: expected one set of nodes to reorder, got {graph}")
    if graph.is_undirected:  # then its own arrays are such a matrix
        ones, nodes = np.ones(graph.num_edges, dtype=np.int8), graph.num_nodes
        arrays = ones, graph.sources.cpu().numpy(), graph.rowptr.cpu().numpy()
        matrix = scipy.sparse.csr_array(arrays, shape=(nodes, nodes))
    else:
        matrix = adjacency(graph.edge_index.cpu(), graph.num_nodes)
    permutation = Permutation.of(torch.from_numpy(near(matrix)).to(graph.device))
    made = type(graph).from_edge_index(permutation.place[graph.edge_index], graph.num_nodes, graph.edge_attr)
    came = made.position.long()  # the place of every edge in the order of the given graph
    extra = None if graph.extra is None else graph.extra[came]
    return replace(made, position=graph.position[came], looped=graph.looped, extra=extra), permutation
