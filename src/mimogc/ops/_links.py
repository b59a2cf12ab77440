"""Which rows each of several layers reads and writes: the whole graph, or the classes of nodes that are still alike."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mimogc._library import library, run
from mimogc.graph import Graph
from mimogc.ops import _thresholds
from mimogc.ops._native import pointer


class Links(NamedTuple):
    """For each of several layers the graph from the rows that it takes to those that it gives."""

    classes: list[Any]  # MimogcGraph, of the first layers
    whole: int  # how many layers come after these, on the graph itself
    held: object  # keeps the arrays of the classes

    def of(self, graph: Graph) -> list[Any]:
        """All of them, now: the graph's own arrays may have moved since, as to shared memory."""
        return self.classes + [graph._struct] * self.whole


def links_of_layers(graph: Graph, layers: int, rows: Tensor | None, num_rows: int, alike: bool) -> Links:
    """The links of so many layers.

    With `rows` [N] int64, node i begins as row rows[i] of `num_rows`. Nodes that are alike and have neighbours that are
    alike stay so in a layer: with `alike` the first layers compute each such class once. The last gives every node.
    """
    if rows is None or not layers:
        return Links([], layers, None)
    nodes, rows = graph.num_dst, rows.contiguous()
    most, written = (int(_thresholds.ALIKE * nodes), layers) if alike else (-1, 1)
    size = written * (2 * nodes + 2 + 3 * graph.num_edges + max(nodes, num_rows))
    room = torch.empty(size, dtype=torch.int32, device="cpu")
    found = library().ffi.new("MimogcGraph[]", written)  # type: ignore[union-attr]
    count = run("mimogc_classes", graph._struct, num_rows, pointer(rows), layers, most, found, room.data_ptr())
    if count < 0:
        raise IndexError(f"index: expected rows 0 to {num_rows - 1}, got {int(rows[-1 - count])}")
    return Links([found + number for number in range(count)], layers - count, (found, room))
