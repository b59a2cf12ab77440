"""What a layer accepts as its features and as its graph: checked, and turned into a Graph."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.edge_index import EdgeIndex
from torch_geometric.typing import SparseTensor

from mimogc.graph import Graph, Size
from mimogc.nn.coefficients.base import Channels, Pair, Scored

if TYPE_CHECKING:
    from mimogc.nn.conv import LMGConv


def check_features(x: Tensor, channels: int, sparse: bool = False, like: Tensor | None = None) -> None:
    """Refuse x unless it is ``[N, channels]`` of a floating type, that of `like`; -1 stands for any width."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x: expected a tensor or a pair of tensors, got {type(x).__name__}")
    if x.layout != torch.strided and not (sparse and x.layout in (torch.sparse_coo, torch.sparse_csr)):
        raise TypeError(f"x: expected a dense tensor, got {x.layout}")
    if x.dim() != 2 or (channels != -1 and x.size(1) != channels):
        raise ValueError(f"x: expected shape [N, {'F' if channels == -1 else channels}], got {list(x.shape)}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"x: expected a floating type, got {x.dtype}")
    if like is not None and x.dtype != like.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"x: expected {like.dtype} like the layer's weights, got {x.dtype}")


def sides_of(x: Any, in_channels: Channels, edge_index: Any, size: tuple[int, int] | None) -> Pair:
    """The features of sources and targets, each checked: twice the same tensor unless x is a pair.

    Targets without features have zeros; there are as many as `size` or the graph says, else as many as sources.
    """
    if isinstance(x, tuple) and len(x) != 2:
        raise ValueError(f"x: expected a tensor or a pair of tensors, got a tuple of {len(x)}")
    if size is not None and not (isinstance(size, tuple) and [type(count) for count in size] == [int, int]):
        raise ValueError(f"size: expected the numbers of sources and targets, got {size!r}")
    source, target = x if isinstance(x, tuple) else (x, x)
    of_source, of_target = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
    check_features(source, of_source, sparse=True)
    if target is None:
        if of_target == -1:
            raise ValueError(
                "x: expected features of the targets, because in_channels leaves their size open, got None"
            )
        known = edge_index.num_dst if isinstance(edge_index, Graph) else None
        if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
            known = edge_index.size(0)
        rows = size[1] if size is not None else source.size(0) if known is None else known
        target = torch.zeros(rows, of_target, dtype=source.dtype, device=source.device)
    elif target is not source:
        check_features(target, of_target, sparse=True)
    if size is not None and (source.size(0), target.size(0)) != tuple(size):
        raise ValueError(f"size: expected {(source.size(0), target.size(0))} like x, got {size}")
    return source, target


def check_index(index: Tensor, table: Tensor) -> None:
    """Refuse what cannot say which row of the table each node has."""
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.dim() != 1:
        found = f"{index.dtype} {list(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"index: expected int64 of shape [N], got {found}")
    if index.device != table.device:
        raise ValueError(f"index: expected device {table.device} like the table, got {index.device}")


def check_edge_attr(edge_attr: Tensor | None, edge_dim: int | None, multiplied: bool, x: Tensor) -> None:
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
    if multiplied and edge_attr.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"edge_attr: expected {x.dtype} like x, got {edge_attr.dtype}")


def no_jit(layer: torch.nn.Module) -> Any:
    """As ``__prepare_scriptable__`` of a layer: what torch.jit.script says of it."""
    raise RuntimeError("torch.jit is not supported; use torch.compile or torch.export")


def check_not_traced(layer: Any = None) -> None:
    if torch._C._get_tracing_state() is not None:
        no_jit(layer)


def check_flow(layer: "LMGConv") -> None:
    """Refuse a direction or an aggregation that PyG's layers have and the operator has not."""
    if layer.flow != "source_to_target" or layer.aggr not in ("sum", "add"):
        raise ValueError(
            "flow, aggr: expected 'source_to_target' and 'sum', which the operator is made of, "
            f"got {layer.flow!r} and {layer.aggr!r}"
        )


def unpacked(edge_index: Any, edge_attr: Tensor | None = None, keep_ones: bool = False) -> tuple[Any, Tensor | None]:
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
    if edge_attr is None and value is not None and (keep_ones or value.requires_grad or not bool((value == 1).all())):
        edge_attr = value
    return torch.stack([col, row]), edge_attr


def as_graph(edges: Any, size: Size, edge_attr: Tensor | None, self_loops: bool) -> Graph:
    """The Graph of what `unpacked` gives.

    `size` is the number of nodes, or of sources and targets. With `self_loops` every node gets exactly one.
    """
    if not isinstance(edges, Graph):
        return Graph.from_edge_index(edges, size, edge_attr, add_self_loops=self_loops)
    expected = size if isinstance(size, tuple) else (size, size)
    # Features given to a part of a graph are those of its own nodes, which are its targets.
    found = (edges.num_dst if edges.is_partitioned else edges.num_src, edges.num_dst)
    if found != expected:
        raise ValueError(f"edge_index: expected a Graph on {expected} sources and targets like x, got {found}")
    return edges.with_self_loops() if self_loops else edges


def with_weights(
    weighted: bool, edge_dim: int | None, edge_attr: Tensor | None, edge_weight: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Attributes and weights of the edges; where only weights make sense, attributes are meant as these."""
    for name, value in (("edge_attr", edge_attr), ("edge_weight", edge_weight)):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    if edge_weight is not None and (not weighted or edge_dim is not None):
        why = (
            "the layer has edge_dim; weights can be a column of edge_attr"
            if edge_dim is not None
            else "its coefficients are not made of the adjacency matrix; scores take edge_attr, with edge_dim=1"
        )
        raise ValueError(f"edge_weight: expected None, because {why}; got shape {list(edge_weight.shape)}")
    if not weighted or edge_dim is not None:
        return edge_attr, edge_weight
    if edge_attr is not None and edge_weight is not None:
        raise ValueError("edge_weight: given twice, also in the place of edge_attr")
    return None, edge_attr if edge_weight is None else edge_weight


def layer_graph(
    layer: "LMGConv", x: Pair, edge_index: Any, edge_attr: Tensor | None, edge_weight: Tensor | None
) -> Graph:
    """The graph that a layer's coefficients are computed on, with the self-loops that it asks for.

    Weights are its attributes where coefficients are made of the adjacency matrix and not of edge features.
    """
    if isinstance(edge_index, Tensor | Graph) and edge_index.device != x[0].device:
        raise ValueError(f"edge_index: expected device {x[0].device} like x, got {edge_index.device}")
    coefficients, size = layer.coefficients, (x[0].size(0), x[1].size(0))
    edges, attributes = unpacked(edge_index, edge_attr, keep_ones=layer.edge_dim is not None)
    _check_adjacency(edge_index, size)
    if coefficients.weighted and layer.edge_dim is None:
        attributes, edge_weight = None, attributes if edge_weight is None else edge_weight
    if edge_weight is not None:
        graph = _weighted(edges, size, edge_weight, layer.add_self_loops)
    else:
        multiplied = isinstance(coefficients, Scored) and coefficients.lin_edge is not None
        check_edge_attr(attributes, layer.edge_dim, multiplied, x[0])
        graph = as_graph(edges, size, attributes, layer.add_self_loops)
        if attributes is not None and layer.fill_value != "mean" and layer.add_self_loops:
            added = (graph.position < 0).view(-1, *[1] * (attributes.dim() - 1))
            filled = torch.where(added, layer.fill_value, graph.edge_attr)  # type: ignore[arg-type]
            graph = graph.with_attributes(filled)
    return graph.with_identity() if coefficients.loops == "identity" else graph


def fetches_h(layer: "LMGConv") -> bool:
    """Whether a part of a graph fetches rows of h, which are shorter than those of x and all that is looked at."""
    weight = getattr(layer.lin, "weight", None)
    narrows = weight is not None and weight.size(0) < weight.size(1)
    return narrows and layer.coefficients.reads == "h" and layer.lin_dst is None


def fetched(layer: "LMGConv", x: Pair, graph: Graph) -> Pair:
    """The same features, with the rows of other ranks' nodes behind those of the sources where x is what is fetched."""
    return (graph.gathered(x[0]), x[1]) if graph.is_partitioned and not fetches_h(layer) else x


def _weighted(edges: Any, size: tuple[int, int], weight: Tensor, self_loops: bool) -> Graph:
    """The graph with weights as its attributes; a node without a loop gets one of weight 1, as in `GCNConv`."""
    if not isinstance(weight, Tensor) or not weight.dtype.is_floating_point:
        found = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise TypeError(f"edge_weight: expected a tensor of a floating type, got {found}")
    if isinstance(edges, Graph):
        _check_weight(weight, edges.num_edges)
        return as_graph(edges, size, None, False).weighted(weight, self_loops)
    if isinstance(edges, Tensor) and edges.dim() == 2:
        _check_weight(weight, edges.size(1))
    graph = Graph.from_edge_index(edges, size, weight)
    return graph.weighted(graph.edge_attr, self_loops)  # type: ignore[arg-type]


def _check_weight(weight: Tensor, edges: int) -> None:
    if weight.shape != (edges,):
        raise ValueError(f"edge_weight: expected shape [{edges}], got {list(weight.shape)}")


def plain_graph(edge_index: Any, size: Size, self_loops: bool = False) -> Graph:
    """The Graph for a layer that knows no weights or attributes of edges and must not ignore them."""
    check_not_traced()
    edges, edge_attr = unpacked(edge_index)
    _check_adjacency(edge_index, size if isinstance(size, tuple) else (size, size))
    if edge_attr is not None:
        raise ValueError(
            "edge_index: expected a graph without weights or attributes, "
            f"got edge_attr of shape {list(edge_attr.shape)}"
        )
    return as_graph(edges, size, None, self_loops)


def _check_adjacency(edge_index: Any, size: tuple[int, int]) -> None:
    """Refuse a sparse matrix of another size; one row per target."""
    sparse = isinstance(edge_index, SparseTensor)
    if sparse or (isinstance(edge_index, Tensor) and edge_index.layout != torch.strided):
        found = list(edge_index.sizes() if sparse else edge_index.shape)[:2]
        if found != [size[1], size[0]]:
            raise ValueError(f"edge_index: expected a matrix of {size[1]} targets × {size[0]} sources, got {found}")


def _coordinates(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    coo = adjacency if adjacency.layout == torch.sparse_coo else adjacency.to_sparse_coo()
    if coo.requires_grad and not coo.is_coalesced():
        raise ValueError("edge_index: expected a coalesced matrix where its values have gradients, got one that is not")
    row, col = coo._indices()  # duplicates are edges of their own, so the matrix is not coalesced
    return row, col, coo.values() if coo.is_coalesced() else coo._values()
