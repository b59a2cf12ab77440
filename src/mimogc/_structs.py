"""A graph's arrays as the kernels see them: checked once, and kept while they stay where and what they are."""

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from mimogc._library import library, run

if TYPE_CHECKING:
    from mimogc.graph import Graph

# rowptr → the state of all five arrays when they were known to be those of one sorted graph, and these arrays, weakly:
# others may come to lie where they did.
_KNOWN: Any = WeakTensorKeyDictionary()


def _struct_of(arrays: tuple[Tensor, ...], counts: tuple[int, int, int]) -> Any:
    """The kernels' MimogcGraph of rowptr, sources, colptr, targets and slot, if they fit the counts."""
    num_src, num_dst, edges = counts
    lengths = (num_dst + 1, edges, num_src + 1, edges, edges)
    found = [(array.dtype, tuple(array.shape), array.is_contiguous()) for array in arrays]
    if found != [(torch.int32, (length,), True) for length in lengths]:
        raise ValueError(f"graph: expected arrays of int32 for {counts} sources, targets and edges, got {found}")
    places = [array.data_ptr() for array in arrays]
    return library().ffi.new("MimogcGraph*", (*counts, *places, 0))  # type: ignore[union-attr]


def _check_sorted(made: Any) -> None:
    """Refuse arrays that are not those of one sorted graph: a kernel would read beyond them."""
    wrong = run("mimogc_check", made, torch.get_num_threads())
    if wrong:
        name = ("rowptr", "sources", "colptr", "targets", "slot")[-1 - wrong]
        raise ValueError(f"graph: expected arrays as Graph.from_edge_index sorts them, got others in {name}")


def _state(graph: "Graph") -> list[tuple[int, int, int]]:
    """What changes when an array moves, is resized or written to."""
    arrays = _arrays(graph)
    return [(each.data_ptr(), each.numel(), 0 if each.is_inference() else each._version) for each in arrays]


def _arrays(graph: "Graph") -> tuple[Tensor, ...]:
    return graph.rowptr, graph.sources, graph.colptr, graph.targets, graph.slot


def known_sorted(graph: "Graph") -> "Graph":
    """The same graph, whose arrays need not be checked: they come from a sort, or from what was checked."""
    if not torch.compiler.is_compiling() and type(graph.rowptr) is Tensor and graph.rowptr.is_cpu:
        _KNOWN[graph.rowptr] = _state(graph), [weakref.ref(array) for array in _arrays(graph)]
    return graph


def _is_known(graph: "Graph", state: list[tuple[int, int, int]]) -> bool:
    before, arrays = _KNOWN.get(graph.rowptr, (None, ()))
    return before == state and all(kept() is array for kept, array in zip(arrays, _arrays(graph), strict=True))


def struct(graph: "Graph") -> Any:
    """The kernels' MimogcGraph."""
    state = _state(graph)
    before: Any = graph._cache.get("struct")
    if before is None or before[0] != state:
        made = _struct_of(_arrays(graph), (graph.num_src, graph.num_dst, graph.num_edges))
        if not _is_known(graph, state):  # they may be anybody's
            _check_sorted(made)
            known_sorted(graph)
        before = graph._cache["struct"] = state, made
    return before[1]
