"""The graph a convolution runs on: immutable, sorted by destination, with its transpose."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from mimogc._ordering import Permutation, reordered
from mimogc._sorting import Size as Size
from mimogc._sorting import add_loops, check_edge_attr, check_edge_index, last_loops, sorted_attributes, sorted_edges
from mimogc._structs import known_sorted, struct
from mimogc._transforms import is_transformed, outside_transforms, unwrapped, within_transforms

T = TypeVar("T")
KEPT_EDGES = 2**22  # up to which what is derived of every edge is kept: 32 MB each


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
        edge_index: Tensor, num_nodes: Size | None = None, edge_attr: Tensor | None = None, add_self_loops: bool = False
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
        check_edge_index(edge_index)
        if not torch.compiler.is_compiling() and within_transforms():
            edge_index = unwrapped(edge_index)
            with outside_transforms(edge_index):
                arrays, num_src, num_dst = sorted_edges(edge_index, num_nodes, add_self_loops)
        else:
            arrays, num_src, num_dst = sorted_edges(edge_index, num_nodes, add_self_loops)
        if edge_attr is not None:
            check_edge_attr(edge_attr, edge_index)
            edge_attr = sorted_attributes(edge_attr, *arrays[:3], add_self_loops)
        return known_sorted(Graph(*arrays, num_src, num_dst, edge_attr, add_self_loops))

    @property
    def num_nodes(self) -> int:
        """The number of nodes; a bipartite graph has two, see `num_src` and `num_dst`."""
        if self.num_src != self.num_dst:
            sizes = f"{self.num_src} sources and {self.num_dst} targets"
            raise ValueError(f"num_nodes: the graph is bipartite with {sizes}; use num_src or num_dst")
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

    @property
    def is_partitioned(self) -> bool:
        """Whether this is one part of a graph: then target i is source i, and further sources belong to other parts."""
        return False

    def gathered(self, x: Tensor) -> Tensor:
        """[num_src, ...]: the rows of the sources from those of the targets; a part of a graph fetches some of them."""
        return x

    def total(self, value: Tensor) -> Tensor:
        """The sum of a value over all parts of the graph; here there is one."""
        return value

    # Not functools.cached_property: torch.compile cannot look into it.
    @property
    def src(self) -> Tensor:
        """[E] the source of each edge, in the graph's own order."""
        return self._kept("src", self.sources.long)

    @property
    def dst(self) -> Tensor:
        """[E] the destination of each edge, ascending."""

        def compute() -> Tensor:
            nodes = torch.arange(self.num_dst, device=self.device)
            return torch.repeat_interleave(nodes, self.in_degree, output_size=self.num_edges)

        return self._kept("dst", compute)

    @property
    def perm(self) -> Tensor:
        """[E] position of each edge in the given edge_index, -1 for an added self-loop."""
        return self._kept("perm", self.position.long)

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
        alike = not self.is_bipartite and torch.equal(self.rowptr, self.colptr)
        return alike and torch.equal(self.sources, self.targets)  # both orders are sorted within a node

    def degree_scale(self, dtype: torch.dtype) -> Tensor:
        """[num_dst] 1/√d of in-degrees d, 0 for nodes without edges: the factor of A_sym at both ends of an edge."""

        def compute() -> Tensor:
            wide = torch.promote_types(dtype, torch.float32)  # float16 has no number for a degree above 65,504
            scale = (self.in_degree - int(self.extra is not None)).to(wide).rsqrt()
            return torch.where(torch.isinf(scale), torch.zeros_like(scale), scale).to(dtype)

        return self._once(("degree_scale", dtype), compute)

    def normalization(self, dtype: torch.dtype) -> Tensor:
        """[E] 1/√(d_i d_j) with in-degrees d: the entries of A_sym, as PyG's `gcn_norm` computes them."""
        if self.is_bipartite and not self.is_partitioned:
            raise ValueError(
                "graph: symmetric normalisation needs one set of nodes, "
                f"got a bipartite graph of {self.num_src} sources and {self.num_dst} targets"
            )

        def compute() -> Tensor:
            scale = self.degree_scale(torch.promote_types(dtype, torch.float32))
            weight = torch.repeat_interleave(scale, self.in_degree, output_size=self.num_edges)
            weight = weight * self.gathered(scale).index_select(0, self.sources)
            weight = weight.to(dtype)
            return weight if self.extra is None else weight.masked_fill(self.extra, 0.0)

        return self._once(("normalization", dtype), compute)

    def ones(self, dtype: torch.dtype) -> Tensor:
        """[E, 1] ones: the coefficients of a plain sum over neighbours."""
        return self._kept(("ones", dtype), lambda: torch.ones(self.num_edges, 1, dtype=dtype, device=self.device))

    def with_self_loops(self) -> "Graph":
        """The same graph with exactly one self-loop per node: existing ones are replaced. Cached."""
        return self if self.looped else self._remembered("with_self_loops", lambda: self._with_loops(True))

    def with_identity(self) -> "Graph":
        """The same graph with an edge i → i for the term I·X at every node: its one loop, or an extra one. Cached."""
        has = self.looped or self.extra is not None
        return self if has else self._remembered("with_identity", lambda: self._with_loops(False))

    def weighted(self, weight: Tensor, loops: bool) -> "Graph":
        """The same graph with weights ``[E]`` as its attributes, kept if it has them already.

        With `loops` every node has one: the last of its own, else one of weight 1, as in PyG's `GCNConv`.
        """
        own = weight is self.edge_attr
        if not loops:
            return self if own else self.with_attributes(weight)

        def structure() -> tuple[Graph, Tensor]:
            place = torch.arange(self.num_edges, dtype=torch.int32, device=self.device)
            bare = replace(self, edge_attr=None, position=place).with_self_loops()
            last, known = last_loops(self.src, self.dst, self.num_dst), torch.cat([self.perm, self.perm.new_zeros(1)])
            found = torch.where(bare.position < 0, last[bare.dst], bare.position)
            given = torch.where(bare.position < 0, self.num_edges + bare.dst, known[bare.perm])
            return replace(bare, position=given.int()), found  # the loops stand behind all given edges

        def compute() -> Graph:
            bare, found = self._once("weighted loops", structure)
            return bare.with_attributes(torch.cat([weight, weight.new_ones(1)])[found])

        return self._remembered("weighted graph", compute) if own else compute()

    def with_attributes(self, edge_attr: Tensor | None) -> "Graph":
        """The same edges with other attributes, in the graph's own order; what is derived of the edges is shared."""
        other = replace(self, edge_attr=edge_attr)
        other._cache["edges"] = self._cache.get("edges", self)
        return other

    def _remembered(self, name: str, compute: Callable[[], "Graph"]) -> "Graph":
        """A graph whose attributes come from these, kept while they stay the same."""
        values = self.edge_attr
        if values is not None and (values.requires_grad or is_transformed(values) or values.is_inference()):
            return compute()  # not kept: what belongs to one backward pass or program, or may change unseen
        version = None if values is None else values._version
        return self._once((name, version), compute, self)

    @property
    def identity(self) -> Tensor:
        """[E] bool: the edges that stand for the identity, see `with_identity`."""
        if self.extra is None and not self.looped:
            raise ValueError("graph: no edges for the identity; call with_identity() first")
        return self.src == self.dst if self.extra is None else self.extra

    def _with_loops(self, replace_existing: bool) -> "Graph":
        if self.edge_attr is None:
            return self._looped(self.position, replace_existing)

        def structure() -> tuple[Graph, Tensor]:  # with the places of the edges in this graph's own order
            looped = self._looped(torch.arange(self.num_edges, dtype=torch.int32, device=self.device), replace_existing)
            given = torch.cat([self.position, self.position.new_full((1,), -1)])[looped.perm]
            return replace(looped, position=given), looped.position

        looped, place = self._once(("loops", replace_existing), structure)
        return looped.with_attributes(sorted_attributes(self.edge_attr, looped.rowptr, looped.sources, place, True))

    def _looped(self, position: Tensor, replace_existing: bool) -> "Graph":
        arrays = self.rowptr, self.sources, position, self.colptr, self.targets, self.slot
        arrays = add_loops(arrays, self.num_src, self.num_dst, lambda: self._struct, replace_existing)
        extra = None if replace_existing else arrays[2] < 0
        made = Graph(*arrays, self.num_src, self.num_dst, None, replace_existing, extra)
        return self.like(known_sorted(made))

    def like(self, other: "Graph") -> "Graph":
        """A graph with other edges between the same nodes, as a graph of the same kind as this one."""
        return other

    def to_undirected(self) -> "Graph":
        """The graph with every edge in both directions, once; attributes of merged edges are added, as in PyG."""
        from torch_geometric.utils import to_undirected

        if self.is_bipartite:
            raise ValueError("graph: a bipartite graph cannot be made undirected")
        edge_index, attributes = to_undirected(self.edge_index, self.edge_attr, self.num_nodes)
        return Graph.from_edge_index(edge_index, self.num_nodes, attributes)

    def reordered(self) -> "tuple[Graph, Permutation]":
        """The graph with neighbours near each other, and a permutation that takes rows there (`apply`) and `back`."""
        return reordered(self)

    def to(self, device: torch.device | str) -> "Graph":
        """The graph on another device."""
        moved: Any = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def _kept(self, key: object, compute: Callable[[], T]) -> T:
        """The same for what is as large as the edges: beyond a size it is computed whenever it is asked for."""
        kept = torch.compiler.is_compiling() or self.num_edges <= KEPT_EDGES  # a compiler may not know this number
        return self._once(key, compute) if kept else compute()

    def _once(self, key: object, compute: Callable[[], T], by: "Graph | None" = None) -> T:
        cache = cast(Graph, by or self._cache.get("edges", self))._cache  # of the graph whose edges these are
        if key not in cache:
            with outside_transforms(self.rowptr):
                cache[key] = compute()
        return cast(T, cache[key])

    @property
    def _struct(self) -> Any:
        """This graph as the kernels' MimogcGraph."""
        return struct(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}

    def __repr__(self) -> str:
        nodes = f"{self.num_src}→{self.num_dst}" if self.is_bipartite else str(self.num_dst)
        return f"{type(self).__name__}(num_nodes={nodes}, num_edges={self.num_edges})"


torch.export.register_dataclass(Graph)
