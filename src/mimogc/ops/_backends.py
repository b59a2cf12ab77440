"""Which implementation computes: chosen in this one place, by the tensors' device and type and by MIMOGC_BACKEND.

What an implementation must offer is `Backend`; the modules `_native` (C++), `_triton` and `_plain` do.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mimogc._library import library, wanted_backend
from mimogc.graph import Graph
from mimogc.ops import _native, _plain

_FLOATS = {torch.float32, torch.float64}  # of the C++ kernels
_HALVES = {torch.bfloat16, torch.float16}
_PLAIN_TENSORS = {Tensor, torch.nn.Parameter}  # a subclass may have no memory of its own
_instead: ContextVar[str] = ContextVar("instead", default="")  # of the kernels: "reference", or "parts" of it


class Backend(Protocol):
    """The operators on tensors that fit each other: no gradients and no checks of arguments.

    Those that take scores or pairs get contiguous tensors. The specification of each is in `reference`.
    """

    NAME: str

    def sum_heads(self, alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor: ...

    def transpose(self, alpha: Tensor, g: Tensor, graph: Graph, reduce: str) -> Tensor: ...

    def sample(self, g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor: ...

    def sum_grad(self, alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, reduce: str) -> tuple[Tensor, Tensor]: ...

    def tanh_sum(self, s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, graph: Graph) -> Tensor: ...

    def tanh_sum_grad(
        self, s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, g: Tensor, graph: Graph
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...

    def pair_scores(
        self, source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph, edge: _plain.Edge = None
    ) -> Tensor: ...

    def pair_scores_grad(
        self,
        source: Tensor,
        target: Tensor,
        att: Tensor,
        slope: float,
        g: Tensor,
        graph: Graph,
        edge: _plain.Edge = None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def softmax(self, score: Tensor, graph: Graph) -> Tensor: ...

    def softmax_grad(self, alpha: Tensor, g: Tensor, graph: Graph) -> Tensor: ...


def backend(device: torch.device | str | None = None) -> str:
    """Which implementation runs on tensors of a device, by default the CPU.

    ``"native"`` (compiled kernels), ``"triton"``, or ``"reference"`` (plain torch).
    """
    chosen = _of("cpu" if device is None else torch.device(device).type, torch.float32)
    return "reference" if chosen is None else chosen.NAME


def plain(*values: Tensor | None) -> bool:
    """Whether the numbers of these tensors lie where they say: no subclass, no negated view, no zeros without any."""
    return all(value is None or (type(value) in _PLAIN_TENSORS and _lies(value)) for value in values)


def _lies(value: Tensor) -> bool:
    return not (value.is_neg() or value._is_zerotensor())


def serving(value: Tensor, *others: Tensor | None) -> Backend | None:
    """The implementation for tensors of this device and type; None where only the specification will do.

    That is with MIMOGC_BACKEND=reference, for what torch.func, batched gradients and forward-mode derivatives make of a
    tensor, for subclasses, here or among the others, and while somebody records what torch does (``make_fx``, ``jit``).
    """
    if (
        not plain(value, *others)
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state() is not None
        or _instead.get() == "reference"
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    ):
        return None
    return _plain if _instead.get() else _of(value.device.type, value.dtype)


def serving_gradients(g: Tensor, *others: Tensor) -> Backend | None:
    """The same for gradients, of which autograd may hand over many as one tensor (``is_grads_batched``)."""
    if any(torch._C._functorch.is_legacy_batchedtensor(value) for value in (g, *others)):
        return None
    return serving(g, *others)


@contextmanager
def use_reference(in_parts: bool = False) -> Iterator[None]:
    """Within this block (and this thread) the operators run in plain torch, for comparison.

    With `in_parts` some edges at a time, so that there is nothing of E·K·C numbers.
    """
    token = _instead.set("parts" if in_parts else "reference")
    try:
        yield
    finally:
        _instead.reset(token)


@cache
def _of(device: str, dtype: torch.dtype) -> Backend | None:
    wanted = wanted_backend()
    if wanted == "reference":
        return None
    if wanted == "triton":
        _check_triton(device)
    if (device == "cuda" or wanted == "triton") and dtype in _FLOATS | _HALVES:
        kernels = _triton()
        if kernels is not None:
            return kernels
    if device == "cpu" and dtype in _FLOATS and library() is not None:
        return _native
    return _plain


def _triton() -> Backend | None:
    """The Triton kernels, None where Triton cannot be imported."""
    try:
        kernels: Any = importlib.import_module("mimogc.ops._triton")
    except ImportError:
        return None
    return cast(Backend, kernels)


def _check_triton(device: str) -> None:
    """Refuse MIMOGC_BACKEND=triton where Triton is missing, and on the CPU where its interpreter is."""
    if _triton() is None:
        raise ValueError("MIMOGC_BACKEND: expected Triton to be installed for 'triton', and it cannot be imported")
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            "MIMOGC_BACKEND: expected TRITON_INTERPRET=1 beside 'triton', which CPU tensors need "
            f"(Triton's interpreter), got {os.environ.get('TRITON_INTERPRET')!r}"
        )
