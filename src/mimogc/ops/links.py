"""Which rows each of several layers reads and writes: the whole graph, or the classes of nodes that are still alike."""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mimogc._library import library
from mimogc.graph import Graph

# Classes are refined once more if there are at most so many per node: else there is little to gain.
_ALIKE = 2 / 3


class Links(NamedTuple):
    """The graph from the rows that a layer takes to those that it gives, as addresses of the arrays of mimogc.h."""

    num_src: int
    num_dst: int
    num_edges: int
    rowptr: int
    sources: int
    colptr: int
    targets: int
    slot: int
    parent: int | None  # [num_dst] the row that each target is one of; None: the row of the same number
    held: object  # keeps the arrays

    @staticmethod
    def of(graph: Graph) -> "Links":
        """Every node takes and gives a row."""
        return Links(
            graph.num_src, graph.num_dst, graph.num_edges, graph.rowptr.data_ptr(), graph.sources.data_ptr(),
            graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(), None, graph,
        )  # fmt: skip


def links_of_layers(
    graph: Graph, layers: int, rows: Tensor | None, num_rows: int, alike: bool
) -> list[Links]:
    """The links of each of so many layers.

    With `rows` [N] int64, node i begins as row rows[i] of `num_rows`. Nodes that are alike and have neighbours that are
    alike stay so in a layer: with `alike` the first layers compute each such class once. The last gives every node.
    """
    whole = Links.of(graph)
    if rows is None or not layers:
        return [whole] * layers
    nodes, edges, rows = graph.num_dst, graph.num_edges, rows.contiguous()
    most = int(_ALIKE * nodes) if alike else -1
    sizes = (ctypes.c_int64 * (2 * layers))()
    most_graphs = layers if alike else 1
    room = rows.new_empty(most_graphs * (2 * nodes + 2 + 3 * edges + max(nodes, num_rows)), dtype=torch.int32)
    count = _function()(
        nodes, whole.rowptr, whole.sources, num_rows, rows.data_ptr(), layers, most, sizes, room.data_ptr()
    )
    if count < 0:
        raise IndexError(f"index: expected rows 0 to {num_rows - 1}, got {int(rows[-1 - count])}")
    found, place = [], room.data_ptr()
    for number in range(count):
        num_dst, num_edges = sizes[2 * number], sizes[2 * number + 1]
        rowptr = place + 4 * num_dst
        colptr = rowptr + 4 * (num_dst + 1)
        sources = colptr + 4 * (num_rows + 1)
        targets = sources + 4 * num_edges
        slot = targets + 4 * num_edges
        found.append(Links(num_rows, num_dst, num_edges, rowptr, sources, colptr, targets, slot, place, room))
        place, num_rows = slot + 4 * num_edges, num_dst
    return found + [whole] * (layers - count)


@cache
def _function() -> Any:
    loaded: Any = library()
    found = loaded.mimogc_classes
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    found.argtypes = [integer, pointer, pointer, integer, pointer, integer, integer, pointer, pointer]
    found.restype = integer
    return found
