"""PartitionedGraph: the part of a graph that one rank has, with which layers work as with a whole one."""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from mimogc._sorting import check_edge_index
from mimogc.distributed.group import Group, add_up, all_ranks, rank, size
from mimogc.distributed.halo import Halo, Traffic, halo_of
from mimogc.graph import Graph

_LARGEST = 2**31 - 1  # of the nodes and edges of one rank: numbers in a part are int32


@dataclass(frozen=True, eq=False, repr=False)
class PartitionedGraph(Graph):
    """One rank's part of a graph: its own nodes, a range of all of them, and the edges into these.

    Give it to layers and models in the place of a `Graph`, with the features of the own nodes. A layer then fetches
    the rows that it needs of other ranks' nodes, and gradients go back the same way; every rank has to call the same
    layers in the same order. As a graph it is bipartite: the first `num_dst` of its `num_src` sources are the own nodes
    and so its targets, the others (the halo) are nodes of other ranks.
    """

    halo: Halo | None = None
    bounds: Tensor | None = None  #: [ranks + 1] int64: rank p has the nodes bounds[p] to bounds[p + 1]
    halo_nodes: Tensor | None = None  #: [num_src - num_dst] int64: the halo's numbers in the whole graph, ascending

    @staticmethod
    def from_part(
        edges: Tensor, halo_nodes: Tensor, bounds: Tensor, edge_attr: Tensor | None = None, group: Group = None
    ) -> "PartitionedGraph":
        """The part of this rank from edges in its own numbers, as `local_edges` gives them; called by all ranks."""
        here, ranks = rank(group), size(group)
        check_bounds(bounds, ranks)
        check_halo(halo_nodes, bounds, here)
        own = int(bounds[here + 1] - bounds[here])
        check_size(here, own, halo_nodes.numel(), edges.size(1))
        halo = halo_of(halo_nodes, bounds, group)
        made = Graph.from_edge_index(edges, (own + halo_nodes.numel(), own), edge_attr)
        held = {each.name: getattr(made, each.name) for each in fields(made) if each.init}
        return PartitionedGraph(**held, halo=halo, bounds=bounds, halo_nodes=halo_nodes)

    @staticmethod
    def from_edge_index(  # type: ignore[override]
        edge_index: Tensor, bounds: Tensor, edge_attr: Tensor | None = None, group: Group = None
    ) -> "PartitionedGraph":
        """The part of this rank from the edges into its nodes; called by all ranks.

        Args:
            edge_index: ``[2, E]`` in numbers of the whole graph; the targets are nodes of this rank.
            bounds: ``[ranks + 1]`` int64: rank p has the nodes ``bounds[p]`` to ``bounds[p + 1]``.
            edge_attr: ``[E, ...]`` attributes of these edges.
            group: the ranks, where they are not all.
        """
        check_bounds(bounds, size(group))
        edges, halo_nodes = local_edges(edge_index, bounds, rank(group))
        return PartitionedGraph.from_part(edges, halo_nodes, bounds, edge_attr, group)

    @property
    def is_partitioned(self) -> bool:
        return True

    @property
    def num_nodes(self) -> int:
        raise ValueError(
            f"num_nodes: this is one part of a graph, with {self.num_dst} nodes of its own and {self.num_src} sources; "
            "use num_dst, num_src or total_nodes"
        )

    @property
    def total_nodes(self) -> int:
        """The number of nodes of all ranks."""
        return int(self._bounds[-1])

    @property
    def total_edges(self) -> int:
        """The number of edges of all ranks, which may be more than one rank can have. Every rank has to ask."""
        found: int = self._once("total_edges", lambda: sum(all_ranks(self.num_edges, self._halo.group)))
        return found

    @property
    def traffic(self) -> Traffic:
        """What this rank has sent and received so far."""
        return self._halo.traffic

    @property
    def is_undirected(self) -> bool:
        raise ValueError("graph: whether a partitioned graph is undirected no rank knows; ask before it is cut")

    @property
    def _halo(self) -> Halo:
        assert self.halo is not None
        return self.halo

    @property
    def _bounds(self) -> Tensor:
        assert self.bounds is not None
        return self.bounds

    def gathered(self, x: Tensor) -> Tensor:
        if x.size(0) != self.num_dst:
            raise ValueError(f"x: expected one row per node of this rank ({self.num_dst}), got {list(x.shape)}")
        return x if size(self._halo.group) == 1 else self._halo.fetch(x)

    def total(self, value: Tensor) -> Tensor:
        return add_up(value, self._halo.group)

    def predicted_bytes(self, channels: int, dtype: torch.dtype) -> tuple[int, int]:
        """What one exchange of `channels` numbers per row sends and receives; its gradient does the reverse."""
        width = channels * dtype.itemsize
        return self._halo.send.numel() * width, self._halo.rows * width

    def like(self, other: Graph) -> Graph:
        held: dict[str, Any] = {each.name: getattr(other, each.name) for each in fields(other) if each.init}
        return replace(self, **held)

    def to_undirected(self) -> Graph:
        raise ValueError("graph: a part cannot be made undirected; make the graph undirected before it is cut")

    def to(self, device: torch.device | str) -> "PartitionedGraph":
        moved: Any = super().to(device)
        here: PartitionedGraph = replace(moved, halo=self._halo.moved(device))
        return here


def local_edges(edge_index: Tensor, bounds: Tensor, part: int) -> tuple[Tensor, Tensor]:
    """The edges into the nodes of one part, in its own numbers ([2, E] int32), and the nodes of others among them.

    Own nodes come first, then those of other parts, ascending.
    """
    check_edge_index(edge_index)
    first, last = int(bounds[part]), int(bounds[part + 1])
    src, dst = edge_index.long()
    if dst.numel() and not (first <= int(dst.min()) and int(dst.max()) < last):
        found = f"{int(dst.min())} to {int(dst.max())}"
        raise IndexError(f"edge_index: expected targets {first} to {last - 1}, the nodes of part {part}, got {found}")
    if src.numel() and not (int(src.min()) >= 0 and int(src.max()) < int(bounds[-1])):
        found = f"{int(src.min())} to {int(src.max())}"
        raise IndexError(f"edge_index: expected sources 0 to {int(bounds[-1]) - 1}, got {found}")
    inside = (src >= first) & (src < last)
    others = torch.unique(src[~inside])
    check_size(part, last - first, others.numel(), src.numel())
    local = torch.where(inside, src - first, torch.searchsorted(others, src) + (last - first))
    return torch.stack([local, dst - first]).int(), others


def check_bounds(bounds: Tensor, ranks: int) -> None:
    """Refuse what is not a range of nodes for each rank, from node 0 on."""
    fits = bounds.dtype == torch.int64 and bounds.shape == (ranks + 1,)
    if not fits or int(bounds[0]) != 0 or bool((bounds.diff() < 0).any()):
        raise ValueError(
            f"bounds: expected {ranks + 1} ascending int64 for {ranks} ranks, from 0 on, got {bounds.tolist()}"
        )


def check_halo(halo_nodes: Tensor, bounds: Tensor, part: int) -> None:
    """Refuse a halo that is not ascending nodes of other ranks: what came would be taken for other rows."""
    first, last = bounds[part], bounds[part + 1]
    fits = halo_nodes.dtype == torch.int64 and halo_nodes.dim() == 1 and bool((halo_nodes.diff() > 0).all())
    if fits and halo_nodes.numel():
        inside = ((halo_nodes >= first) & (halo_nodes < last)).any()
        fits = int(halo_nodes[0]) >= 0 and int(halo_nodes[-1]) < int(bounds[-1]) and not bool(inside)
    if not fits:
        raise ValueError(
            f"halo_nodes: expected ascending int64 of 0 to {int(bounds[-1]) - 1} without {int(first)} to "
            f"{int(last) - 1}, the nodes of part {part}, got {list(halo_nodes.shape)} of {halo_nodes.dtype}"
        )


def check_size(part: int, own: int, halo: int, edges: int) -> None:
    """Refuse a part that int32 cannot number; all parts together may be larger."""
    if max(own + halo + 1, edges + own) > _LARGEST:
        raise ValueError(
            f"part {part}: expected at most {_LARGEST} nodes with those of others, and as many edges with loops, got "
            f"{own} own nodes, {halo} of others and {edges} edges; cut the graph into more parts"
        )
