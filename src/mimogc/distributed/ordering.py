"""How a graph is cut: an order of the nodes that keeps neighbours together, and ranges of it with like work."""

import importlib.util
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mimogc._ordering import Permutation, adjacency, near

#: "metis": pymetis, where installed; "near": our own; "given": ranges of the nodes as they are numbered
ORDERINGS = ("metis", "near", "given")
NODE_WORK = 4  # a node costs as much as so many edges
ROUNDS = 40  # in which nodes may move to their neighbours
SLACK = 0.03  # by which a part may then have more work than the mean


class Partition(NamedTuple):
    """The nodes in their new order, and where each part begins in it."""

    order: Tensor  #: [N] int64: node order[n] of the given graph is node n of the cut one
    bounds: Tensor  #: [parts + 1] int64

    def renumbered(self, edge_index: Tensor) -> Tensor:
        """The edges in the new numbers."""
        return Permutation.of(self.order).place[edge_index]


def partition(edge_index: Tensor, num_nodes: int, parts: int, order: str | None = None) -> Partition:
    """Cut a graph into parts of about the same work, with few edges between them.

    Args:
        edge_index: ``[2, E]``.
        num_nodes: the number of nodes.
        parts: how many.
        order: one of `ORDERINGS`; by default metis where pymetis is installed, else near.
    """
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise ValueError(f"parts: expected a whole number of at least 1, got {parts!r}")
    order = order or ("metis" if importlib.util.find_spec("pymetis") else "near")
    if order not in ORDERINGS:
        raise ValueError(f"order: expected one of {', '.join(ORDERINGS)}, got {order!r}")
    check_edges(edge_index, num_nodes)
    work = np.bincount(edge_index[1].numpy(), minlength=num_nodes) + NODE_WORK
    if order == "given" or parts == 1:
        nodes, assigned = np.arange(num_nodes), _ranges(work, parts)
    else:
        matrix = adjacency(edge_index, num_nodes)
        nodes, assigned = near(matrix), np.empty(num_nodes, dtype=np.int64)
        assigned[nodes] = _ranges(work[nodes], parts)
        assigned = _metis(matrix, parts, work) if order == "metis" else _moved(matrix, assigned, parts, work)
    nodes = nodes[np.argsort(assigned[nodes], kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(assigned, minlength=parts))])
    return Partition(torch.from_numpy(nodes), torch.from_numpy(bounds))


def check_edges(edge_index: Tensor, num_nodes: int) -> None:
    """Refuse edges that are not those of a graph with so many nodes."""
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int) or num_nodes < 1:
        raise ValueError(f"num_nodes: expected a whole number of at least 1, got {num_nodes!r}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"edge_index: expected [2, E] of int32 or int64, got {list(edge_index.shape)} of {edge_index.dtype}"
        )
    if edge_index.numel():
        low, high = map(int, edge_index.aminmax())
        if low < 0 or high >= num_nodes:
            raise IndexError(f"edge_index: expected nodes 0 to {num_nodes - 1}, got {low} to {high}")


def cut(edge_index: Tensor, bounds: Tensor) -> Tensor:
    """[parts, parts]: how many rows of part q part p needs, at [p, q]: what an exchange moves."""
    parts = bounds.numel() - 1
    src, dst = edge_index
    of, to = (torch.searchsorted(bounds, ends.contiguous(), right=True) - 1 for ends in (src, dst))
    crossing = of != to
    pairs = torch.unique(to[crossing] * int(bounds[-1]) + src[crossing])
    to, src = pairs // int(bounds[-1]), pairs % int(bounds[-1])
    of = torch.searchsorted(bounds, src, right=True) - 1
    return torch.bincount(to * parts + of, minlength=parts * parts).view(parts, parts)


def _ranges(work: Any, parts: int) -> Any:
    """[N]: consecutive nodes in one part, each with about the same work."""
    done = np.cumsum(work) - work / 2
    return np.minimum((done * parts / max(work.sum(), 1)).astype(np.int64), parts - 1)


def _metis(matrix: Any, parts: int, work: Any) -> Any:
    import pymetis

    _, found = pymetis.part_graph(parts, xadj=matrix.indptr, adjncy=matrix.indices, vweights=work.tolist())
    return np.asarray(found, dtype=np.int64)


def _moved(matrix: Any, assigned: Any, parts: int, work: Any) -> Any:
    """[N]: the parts after nodes have moved to where most of their neighbours are, as long as there is room.

    In every round half of the nodes, drawn at random, may move, those first that gain most.
    """
    generator = np.random.default_rng(0)
    nodes, room = np.arange(len(assigned)), (1 + SLACK) * work.sum() / parts
    for _ in range(ROUNDS):
        near = matrix @ np.eye(parts, dtype=np.float32)[assigned]  # [N, parts] neighbours in each part
        wanted = near.argmax(1)
        gain = near[nodes, wanted] - near[nodes, assigned]
        movers = np.flatnonzero((gain > 0) & (generator.random(len(nodes)) < 0.5))
        movers = movers[np.argsort(-gain[movers], kind="stable")]
        load = np.bincount(assigned, work, parts)
        if not len(movers):
            break
        for part in range(parts):
            to = movers[wanted[movers] == part]
            fitting = np.searchsorted(np.cumsum(work[to]), room - load[part], side="right")
            assigned[to[:fitting]] = part
    return assigned
