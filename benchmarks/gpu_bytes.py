"""The bytes that the Triton kernels move, counted from their loads and stores in the interpreter: a cost model.

Run it: ``python benchmarks/gpu_bytes.py``. It needs no GPU, and takes a minute.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mimogc.graph import Graph
from mimogc.ops import edge_softmax, pair_scores, propagate, propagate_tanh, use_reference

NODES, HEADS, CHANNELS = 32, 4, 64
FEATURES = 8  # of an edge
DEGREES = (5, 10)  # two graphs of the same nodes: the difference is what an edge costs


class Published(NamedTuple):
    """What the authors of fused kernels report, measured on GPUs: speed, not bytes."""

    name: str
    of: str
    most: float
    usual: float
    said: str  # of both numbers
    source: str


PUBLISHED = (
    Published("Turbo-GNN", "GATv2", 8.5, 2.0, "up to {} times as fast as others, {} in the median", "arXiv:2605.31500"),
    Published("DF-GNN", "attention", 7.0, 2.16, "up to {} times DGL's kernels, {} in training", "PMLR 269:19, 2025"),
)


class Counter:
    """Collects the addresses of what the interpreter loads and stores, by program."""

    def __init__(self) -> None:
        self.loads: list[Any] = []
        self.stores: list[Any] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        from triton.runtime.interpreter import interpreter_builder as builder

        load, store, program = builder.create_masked_load, builder.create_masked_store, 0

        def note(into: list[Any], pointers: Any, mask: Any) -> None:
            x, y, z = builder.grid_idx
            _, rows, columns = builder.grid_dim
            places = pointers.data[mask.data.astype(bool)].astype(np.uint64).ravel()
            size = pointers.get_element_ty().primitive_bitwidth // 8
            keys = np.full(places.size, (program << 32) + (x * rows + y) * columns + z, dtype=np.uint64)
            into.append(np.stack([keys, places, np.full(places.size, size, dtype=np.uint64)]))

        def loaded(pointers: Any, mask: Any, *rest: Any, **more: Any) -> Any:
            note(self.loads, pointers, mask)
            return load(pointers, mask, *rest, **more)

        def stored(pointers: Any, value: Any, mask: Any, *rest: Any, **more: Any) -> Any:
            note(self.stores, pointers, mask)
            return store(pointers, value, mask, *rest, **more)

        from mimogc.ops._triton import _launch

        launch = _launch.launch

        def numbered(*given: Any, **blocks: Any) -> None:
            nonlocal program
            program += 1
            launch(*given, **blocks)

        before = _launch.INTERPRETED
        # The blocks are those of a GPU.
        builder.create_masked_load, builder.create_masked_store = loaded, stored
        _launch.launch, _launch.INTERPRETED = numbered, False
        try:
            yield
        finally:
            builder.create_masked_load, builder.create_masked_store = load, store
            _launch.launch, _launch.INTERPRETED = launch, before

    def moved(self) -> np.ndarray[Any, Any]:
        """Bytes read from outside a program, each once (repeats within it are a cache's), and written by it;

        and the least, each byte of what is read and written once, had a cache room for everything.
        """
        read, written = (np.concatenate(each, axis=1) for each in (self.loads, self.stores))
        found = [_distinct(read), _distinct(written)]
        return np.array([*found, _distinct(np.concatenate([read, written], axis=1)[1:])], dtype=float)


def _distinct(keys: np.ndarray[Any, Any]) -> int:
    return int(np.unique(keys, axis=1)[-1].sum())


class _PlainBytes(TorchDispatchMode):
    """What plain torch moves if every operation reads its inputs and writes its output once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0.0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if not function.is_view:
            given = [args, kwargs, out]
            values = [value for value in torch.utils._pytree.tree_leaves(given) if isinstance(value, Tensor)]
            self.bytes += sum(value.numel() * value.element_size() for value in values)
        return out


SHAPES = {
    "alpha": ("E", HEADS),
    "h": ("N", HEADS, CHANNELS),
    "s": ("N", HEADS),
    "t": ("N", HEADS),
    "x": ("N", CHANNELS),
}
SHAPES |= {"target": SHAPES["h"], "att": (HEADS, CHANNELS), "score": ("E", HEADS)}
SHAPES |= {"features": ("E", FEATURES), "map": (HEADS, CHANNELS, FEATURES)}
Operator = tuple[tuple[str, ...], Callable[..., Tensor]]
OPERATORS: dict[str, Operator] = {
    "propagate": (("alpha", "h"), lambda graph, alpha, h: propagate(alpha, h, graph)),
    "propagate, none": (("alpha", "h"), lambda graph, alpha, h: propagate(alpha, h, graph, "none")),
    "propagate_tanh": (("s", "t", "h"), lambda graph, s, t, h: propagate_tanh(s, t, h, graph)),
    "pair_scores": (("h", "target", "att"), lambda graph, h, target, att: pair_scores(h, target, att, graph)),
    "pair_scores, features": (
        ("h", "target", "att", "features", "map"),  # their gradients are products by torch, and not counted
        lambda graph, h, target, att, *edge: pair_scores(h, target, att, graph, 0.2, *(each.detach() for each in edge)),
    ),
    "edge_softmax": (("score",), lambda graph, score: edge_softmax(score, graph)),
}
GATV2 = ("pair_scores", "edge_softmax", "propagate")  # the kernels of a layer


def _narrow(graph: Graph, s: Tensor, t: Tensor, x: Tensor) -> Tensor:
    from mimogc.ops import _triton

    return _triton.tanh_spread(s, t, None, x, graph)


def _case(operator: Operator, degree: int) -> tuple[Graph, list[Tensor]]:
    torch.manual_seed(0)
    nodes = torch.arange(NODES)
    steps = torch.arange(1, 1 + degree).view(-1, 1)  # to the next ones: no two edges of a node are alike
    sources = nodes.expand(degree, NODES)
    graph = Graph.from_edge_index(torch.stack([sources.flatten(), ((sources + steps) % NODES).flatten()]), NODES)
    _ = graph.src, graph.dst  # what a graph keeps is not counted
    sizes: dict[Any, Any] = {"E": degree * NODES, "N": NODES}
    shapes = ([sizes.get(size, size) for size in SHAPES[name]] for name in operator[0])
    return graph, [torch.randn(*shape, requires_grad=True) for shape in shapes]


def kernel_bytes(operator: Operator, degree: int, backward: bool) -> np.ndarray[Any, Any]:
    """Read, written and least bytes of the forward or of the backward pass."""
    graph, inputs = _case(operator, degree)
    counter = Counter()
    if not backward:
        with counter.counting(), torch.no_grad():
            operator[1](graph, *inputs)
    else:
        out = operator[1](graph, *inputs)
        with counter.counting():
            torch.autograd.grad(out, inputs, torch.randn_like(out), allow_unused=True)
    return counter.moved()


def plain_bytes(operator: Operator, degree: int, backward: bool) -> float:
    """The same of the specification in plain torch, as one number."""
    graph, inputs = _case(operator, degree)
    with use_reference():
        if not backward:
            with torch.no_grad(), _PlainBytes() as seen:
                operator[1](graph, *inputs)
        else:
            out = operator[1](graph, *inputs)
            with _PlainBytes() as seen:
                torch.autograd.grad(out, inputs, torch.randn_like(out), allow_unused=True)
    return float(seen.bytes)


def by_edge_and_node(count: Callable[[int], Any]) -> tuple[Any, Any]:
    """What an edge and what a node costs, from two graphs."""
    few, many = (count(degree) / NODES for degree in DEGREES)
    edge = (many - few) / (DEGREES[1] - DEGREES[0])
    return edge, few - edge * DEGREES[0]


def table() -> Iterator[str]:
    """Lines: what each kernel moves, forward and backward, beside plain torch."""
    yield f"bytes in float32, K = {HEADS}, C = {CHANNELS}: per edge + per node"
    yield f"{'':30s}{'read':>15s}{'written':>15s}{'least':>15s}{'plain torch':>17s}"
    for name, operator in OPERATORS.items():
        for backward in (False, True):
            said = name + (" backward" if backward else "")
            plain = by_edge_and_node(partial(plain_bytes, operator, backward=backward))
            yield _line(said, by_edge_and_node(partial(kernel_bytes, operator, backward=backward)), plain)
    narrow: Operator = ("s", "t", "x"), _narrow
    yield _line("propagate_tanh, narrow", by_edge_and_node(partial(kernel_bytes, narrow, backward=False)), None)
    yield from _fused()


def _fused() -> Iterator[str]:
    """Lines: GATv2's forward pass by our kernels, and by one that reads the row of a source once per edge."""
    ours = [by_edge_and_node(partial(kernel_bytes, OPERATORS[name], backward=False)) for name in GATV2]
    yield _line("gatv2, our kernels", (sum(edge for edge, _ in ours), sum(node for _, node in ours)), None)
    row, number = 4 * HEADS * CHANNELS, 4
    # Per edge the source's row and number; per node that of the target, where its edges begin, and the output.
    edge = np.array([row + number, 0, number], dtype=float)
    node = np.array([row + number, 4 * CHANNELS, 2 * row + number + 4 * CHANNELS], dtype=float)
    yield _line("gatv2, one fused kernel", (edge, node), None)
    yield "published fused kernels, as their authors report; ours have not run on a GPU:"
    for name, of, most, usual, said, source in PUBLISHED:
        yield f"  {name:10s} {of:10s} {said.format(most, usual)}; {source}"


def _line(name: str, moved: tuple[Any, Any], plain: tuple[Any, Any] | None) -> str:
    cells = "".join(f"{f'{edge:.0f} + {node:.0f}':>15s}" for edge, node in zip(*moved, strict=True))
    return f"{name:30s}{cells}" + ("" if plain is None else f"{f'{plain[0]:.0f} + {plain[1]:.0f}':>17s}")


def main() -> int:
    """Print the table, in a process that begins with the interpreter: Triton asks for it when it is imported."""
    interpreted = {"MIMOGC_BACKEND": "triton", "TRITON_INTERPRET": "1"}
    if interpreted.items() <= os.environ.items():
        for line in table():
            print(line, flush=True)
        return 0
    return subprocess.run([sys.executable, __file__], env=os.environ | interpreted).returncode


if __name__ == "__main__":
    sys.exit(main())
