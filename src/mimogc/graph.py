"""The graph a convolution runs on: immutable, sorted by destination, with its transpose."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from mimogc._sorting import sort_edges

Size = int | tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    r"""An immutable directed graph in compressed form, both by destination (CSR) and by source (CSC).

    Build one with :meth:`from_edge_index` and pass it to any layer instead of ``edge_index``: sorting, degrees,
    self-loops and normalisation are then paid once and shared by layers and epochs. Direction is PyG's: an edge
    goes from source ``j = edge_index[0]`` to target ``i = edge_index[1]`` and carries a message from j to i.
    Edges are sorted by (destination, source); duplicate edges are kept and add up.
    """

    # No name begins with another one: torch.export confuses such fields.
    rowptr: Tensor  #: [num_dst + 1] int32: the edges into node i are rowptr[i] .. rowptr[i + 1]
    sources: Tensor  #: [E] int32: the source of each edge
    position: Tensor  #: [E] int32: where each edge stood in the given edge_index, -1 for an added self-loop
    colptr: Tensor  #: [num_src + 1] int32: the same graph by source
    targets: Tensor  #: [E] int32: the destination of each edge, in the order by source
    slot: Tensor  #: [E] int32: where each edge of the order by source is in the order by destination
    num_src: int
    num_dst: int
    edge_attr: Tensor | None = None  #: [E, ...] in the graph's own edge order
    looped: bool = False  #: exactly one self-loop per node
    extra: Tensor | None = None  #: [E] bool: loops that stand for the identity and are no part of A
    _cache: dict[object, object] = field(default_factory=dict, init=False)

    @staticmethod
    def from_edge_index(
        edge_index: Tensor,
        num_nodes: Size | None = None,
        edge_attr: Tensor | None = None,
        add_self_loops: bool = False,
    ) -> "Graph":
        """Sort ``edge_index`` into a graph, in time linear in the number of edges.

        Args:
            edge_index: ``[2, E]`` integers, sources above targets; also a PyG `EdgeIndex`.
            num_nodes: the number of nodes, or ``(num_src, num_dst)`` of a bipartite graph; by default one more
                than the largest index.
            edge_attr: ``[E, ...]`` attributes, kept in the graph's own edge order.
            add_self_loops: replace the self-loops by exactly one per node, as PyG's layers do; attributes of an
                added loop are the mean over the edges into its node.
        """
        if type(edge_index) is not Tensor and hasattr(edge_index, "as_tensor"):
            edge_index = edge_index.as_tensor()  # PyG's EdgeIndex keeps its numbers in a tensor of its own
        _check_edge_index(edge_index)
        num_src, num_dst = _sizes(num_nodes, edge_index)
        src, dst = edge_index.long().contiguous()
        arrays = sort_edges(src, dst, num_src, num_dst, add_self_loops)
        if edge_attr is not None:
            _check_edge_attr(edge_attr, edge_index)
            edge_attr = _sorted_attributes(edge_attr, *arrays[:3], add_self_loops)
        return Graph(*arrays, num_src, num_dst, edge_attr, add_self_loops)

    @property
    def num_nodes(self) -> int:
        """The number of nodes; a bipartite graph has two, see `num_src` and `num_dst`."""
        if self.num_src != self.num_dst:
            raise ValueError(
                f"num_nodes: the graph is bipartite with {self.num_src} sources and {self.num_dst} targets; "
                "use num_src or num_dst"
            )
        return self.num_dst

    @property
    def num_edges(self) -> int:
        return self.sources.size(0)

    @property
    def is_bipartite(self) -> bool:
        return self.num_src != self.num_dst

    @property
    def device(self) -> torch.device:
        return self.rowptr.device

    # Not functools.cached_property: torch.compile cannot look into it.
    @property
    def src(self) -> Tensor:
        """[E] the source of each edge, in the graph's own order."""
        return self._once("src", self.sources.long)

    @property
    def dst(self) -> Tensor:
        """[E] the destination of each edge, ascending."""

        def compute() -> Tensor:
            nodes = torch.arange(self.num_dst, device=self.device)
            return torch.repeat_interleave(nodes, self.in_degree, output_size=self.num_edges)

        return self._once("dst", compute)

    @property
    def perm(self) -> Tensor:
        """[E] position of each edge in the given edge_index, -1 for an added self-loop."""
        return self._once("perm", self.position.long)

    @property
    def edge_index(self) -> Tensor:
        """[2, E] in the graph's own order."""
        return torch.stack([self.src, self.dst])

    @property
    def in_degree(self) -> Tensor:
        """[num_dst] number of edges into each node."""
        return self._once("in_degree", lambda: self.rowptr.diff().long())

    @property
    def out_degree(self) -> Tensor:
        """[num_src] number of edges out of each node."""
        return self._once("out_degree", lambda: self.colptr.diff().long())

    @property
    def is_undirected(self) -> bool:
        """Whether every edge has its reverse, with the same multiplicity."""
        # Both orders are sorted within a node, so a symmetric graph has equal arrays.
        return (
            not self.is_bipartite
            and torch.equal(self.rowptr, self.colptr)
            and torch.equal(self.sources, self.targets)
        )

    def normalization(self, dtype: torch.dtype) -> Tensor:
        """[E] 1/√(d_i d_j) with in-degrees d: the entries of A_sym, as PyG's `gcn_norm` computes them."""
        if self.is_bipartite:
            raise ValueError(
                "graph: symmetric normalisation needs one set of nodes, "
                f"got a bipartite graph of {self.num_src} sources and {self.num_dst} targets"
            )

        def compute() -> Tensor:
            degree = self.in_degree if self.extra is None else self.in_degree - 1
            scale = degree.to(dtype).rsqrt()
            scale = torch.where(torch.isinf(scale), torch.zeros_like(scale), scale)
            weight = scale[self.dst] * scale[self.src]
            return weight if self.extra is None else weight.masked_fill(self.extra, 0.0)

        return self._once(("normalization", dtype), compute)

    def ones(self, dtype: torch.dtype) -> Tensor:
        """[E, 1] ones: the coefficients of a plain sum over neighbours. Cached."""
        return self._once(
            ("ones", dtype), lambda: torch.ones(self.num_edges, 1, dtype=dtype, device=self.device)
        )

    def with_self_loops(self) -> "Graph":
        """The same graph with exactly one self-loop per node: existing ones are replaced. Cached."""
        if self.looped:
            return self
        return self._once("with_self_loops", lambda: self._with_loops(replace_existing=True))

    def with_identity(self) -> "Graph":
        """The same graph with an edge i → i for the term I·X at every node: its one loop, or an extra one. Cached."""
        if self.looped or self.extra is not None:
            return self
        return self._once("with_identity", lambda: self._with_loops(replace_existing=False))

    @property
    def identity(self) -> Tensor:
        """[E] bool: the edges that stand for the identity, see `with_identity`."""
        if self.extra is None and not self.looped:
            raise ValueError("graph: no edges for the identity; call with_identity() first")
        return self.src == self.dst if self.extra is None else self.extra

    def _with_loops(self, replace_existing: bool) -> "Graph":
        src, dst = self.src, self.dst
        if not replace_existing:
            loops = torch.arange(min(self.num_src, self.num_dst), device=self.device)
            src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
        rowptr, col, position, colptr, row, edge = sort_edges(
            src, dst, self.num_src, self.num_dst, replace_existing
        )
        local = position.long()  # in this graph's order, beyond it or -1 for an added loop
        added = (local < 0) | (local >= self.num_edges)
        position = torch.where(added, -1, position)
        attributes = self.edge_attr
        if attributes is not None:
            attributes = _sorted_attributes(attributes, rowptr, col, position, True)
        if self.num_edges:
            position = torch.where(added, -1, self.position[torch.where(added, 0, local)])
        arrays = (rowptr, col, position, colptr, row, edge)
        extra = None if replace_existing else added
        return Graph(*arrays, self.num_src, self.num_dst, attributes, replace_existing, extra)

    def to_undirected(self) -> "Graph":
        """The graph with every edge in both directions, once; attributes of merged edges are added, as in PyG."""
        from torch_geometric.utils import to_undirected

        if self.is_bipartite:
            raise ValueError("graph: a bipartite graph cannot be made undirected")
        if self.edge_attr is None:
            return Graph.from_edge_index(
                to_undirected(self.edge_index, num_nodes=self.num_nodes), self.num_nodes
            )
        edge_index, attributes = to_undirected(self.edge_index, self.edge_attr, self.num_nodes)
        return Graph.from_edge_index(edge_index, self.num_nodes, attributes)

    def to(self, device: torch.device | str) -> "Graph":
        """The graph on another device."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in held.items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def _once(self, key: object, compute: Callable[[], T]) -> T:
        if key not in self._cache:
            if torch.compiler.is_compiling():
                self._cache[key] = compute()
            elif torch._C._are_functorch_transforms_active():
                # Under torch.func a new tensor belongs to the transformation: what is kept must not.
                with torch._C._DisableFuncTorch():
                    self._cache[key] = compute()
            else:
                # Nor to torch.inference_mode, whose tensors no later training could use.
                with torch.inference_mode(False):
                    self._cache[key] = compute()
        return cast(T, self._cache[key])

    def __repr__(self) -> str:
        nodes = f"{self.num_src}→{self.num_dst}" if self.is_bipartite else str(self.num_dst)
        return f"{type(self).__name__}(num_nodes={nodes}, num_edges={self.num_edges})"


torch.export.register_dataclass(Graph)


def _check_edge_index(edge_index: Tensor) -> None:
    if not isinstance(edge_index, Tensor):
        raise TypeError(f"edge_index: expected a tensor of shape [2, E], got {type(edge_index).__name__}")
    if edge_index.dtype.is_floating_point or edge_index.dtype.is_complex or edge_index.dtype == torch.bool:
        raise TypeError(f"edge_index: expected integers, got {edge_index.dtype}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index: expected shape [2, E], got {list(edge_index.shape)}")


def _sizes(num_nodes: Size | None, edge_index: Tensor) -> tuple[int, int]:
    if num_nodes is None:
        found = int(edge_index.max()) + 1 if edge_index.numel() else 0
        num_nodes = max(found, 0)
    if isinstance(num_nodes, tuple):
        num_src, num_dst = num_nodes
    else:
        num_src = num_dst = num_nodes
    for size in (num_src, num_dst):
        if not isinstance(size, int | torch.SymInt) or size < 0:
            raise ValueError(f"num_nodes: expected a count or a pair of counts, got {num_nodes!r}")
    return num_src, num_dst


def _check_edge_attr(edge_attr: Tensor, edge_index: Tensor) -> None:
    if edge_attr.dim() == 0 or edge_attr.size(0) != edge_index.size(1):
        raise ValueError(
            f"edge_attr: expected one row per edge ({edge_index.size(1)}), got shape {list(edge_attr.shape)}"
        )
    if edge_attr.device != edge_index.device:
        raise ValueError(
            f"edge_attr: expected device {edge_index.device} like edge_index, got {edge_attr.device}"
        )


def _sorted_attributes(
    edge_attr: Tensor, rowptr: Tensor, col: Tensor, position: Tensor, loops: bool
) -> Tensor:
    """Attributes in the sorted order; an added loop gets the mean over the other edges into its node."""
    if not loops:
        return edge_attr[position.long()]
    ones = [1] * (edge_attr.dim() - 1)
    num_dst = rowptr.size(0) - 1
    padded = torch.cat([edge_attr, edge_attr.new_zeros(1, *edge_attr.shape[1:])])  # position -1 reads zero
    known = padded[position.long()]
    degree = rowptr.diff().long()
    dst = torch.repeat_interleave(torch.arange(num_dst, device=col.device), degree, output_size=col.size(0))
    other = (dst != col).to(edge_attr.dtype)
    total = edge_attr.new_zeros(num_dst, *edge_attr.shape[1:])
    total = total.index_add(0, dst, known * other.view(-1, *ones))
    count = other.new_zeros(num_dst).index_add(0, dst, other).clamp(min=1)
    mean = total / count.view(-1, *ones)
    return torch.where((position < 0).view(-1, *ones), mean[dst], known)
