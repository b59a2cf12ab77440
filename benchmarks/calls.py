"""What a call of a kernel costs before anything is computed: through cffi, as the library does it, and through ctypes.

python benchmarks/calls.py      # seconds; the graph has no nodes, so that only the call is left
"""

import ctypes
import statistics
import time
from collections.abc import Callable

import torch

from mimogc import Graph
from mimogc._library import library, run
from mimogc.ops._native import for_one_call, pointer, sizes

TURNS, CALLS = 15, 2000
HEADS, CHANNELS = 4, 32


class Weights(ctypes.Structure):
    """MimogcWeights, as ctypes has to be told."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("weight", "att", "offset", "edge", "bias")]


def ways() -> dict[str, dict[str, Callable[[], object]]]:
    """For each kind of call the same function called in both ways, on the same tensors."""
    found = library()
    if found is None:
        raise SystemExit("calls: there are no compiled kernels here")
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    x, out, alpha = torch.empty(0, CHANNELS), torch.empty(0, CHANNELS), torch.empty(0, HEADS)
    weight = torch.randn(HEADS * CHANNELS, CHANNELS), torch.randn(2 * HEADS, HEADS * CHANNELS)
    own = (*weight, None, None, torch.randn(CHANNELS))
    h, st = torch.empty(0, HEADS, CHANNELS), torch.empty(0, 2 * HEADS)
    kept = graph._struct  # which both ways have
    of = sizes(x, HEADS, CHANNELS, features=CHANNELS)
    old = ctypes.CDLL(str(found.path))
    addresses = [int(found.ffi.cast("intptr_t", each)) for each in (kept, of)]
    any_pointer = ctypes.c_void_p
    old.mimogc_sum.argtypes = [any_pointer, any_pointer, ctypes.c_int32, any_pointer, any_pointer, any_pointer]
    old.mimogc_layer.argtypes = [any_pointer, any_pointer, ctypes.POINTER(Weights), *[any_pointer] * 5]
    for kernel in (old.mimogc_sum, old.mimogc_layer):
        kernel.restype = ctypes.c_int64

    def places() -> tuple[int, ...]:
        return x.data_ptr(), h.data_ptr(), st.data_ptr(), out.data_ptr(), 0

    return {
        "six arguments, none of them made for the call": {
            "cffi": lambda: run("mimogc_sum", kept, of, 0, alpha.data_ptr(), h.data_ptr(), out.data_ptr()),
            "ctypes": lambda: old.mimogc_sum(*addresses, 0, alpha.data_ptr(), h.data_ptr(), out.data_ptr()),
        },
        "eight arguments, one a struct of five addresses": {
            "cffi": lambda: run("mimogc_layer", kept, of, for_one_call(*map(pointer, own)), *places()),
            "ctypes": lambda: old.mimogc_layer(*addresses, Weights(*map(pointer, own)), *places()),
        },
    }


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    torch.set_num_threads(1)
    for title, both in ways().items():
        times: dict[str, list[float]] = {name: [] for name in both}
        for _ in range(TURNS):
            for name, call in both.items():
                times[name].append(seconds(call))
        cffi, by_ctypes = (statistics.median(times[name]) for name in ("cffi", "ctypes"))
        facts = f"cffi {1e6 * cffi:.2f} µs, ctypes {1e6 * by_ctypes:.2f} µs, ratio {cffi / by_ctypes:.2f}"
        print(f"{title}: {facts}", flush=True)


if __name__ == "__main__":
    main()
