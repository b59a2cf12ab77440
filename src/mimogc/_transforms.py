"""What torch may be doing with tensors besides computing: compiling, torch.func, recording, shapes alone."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


def outside_transforms(given: Tensor) -> AbstractContextManager[Any]:
    """Where tensors made of `given` may be kept: not under torch.func, nor in a mode, to which they would belong."""
    return nullcontext() if torch.compiler.is_compiling() else _outside(given)


@contextmanager
def _outside(given: Tensor) -> Iterator[None]:
    with ExitStack() as left:
        if torch._C._are_functorch_transforms_active():
            left.enter_context(torch._C._DisableFuncTorch())
        if torch._C._len_torch_dispatch_stack():
            _refuse_recorded(given)
            left.enter_context(_disable_current_modes())
        left.enter_context(torch.inference_mode(False))
        yield


def _refuse_recorded(given: Tensor) -> None:
    """Outside of the mode that records it, what becomes of a tensor would be one graph for all later calls."""
    from torch.fx.experimental.proxy_tensor import get_innermost_proxy_mode, get_proxy_slot

    mode: Any = get_innermost_proxy_mode()
    if mode is not None and get_proxy_slot(given, mode.tracer, None) is not None:
        raise TypeError(
            "edge_index: make_fx cannot record how edges are sorted; use torch.export, or close over a Graph"
        )


def within_transforms() -> bool:
    return bool(torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack())


def unwrapped(edge_index: Tensor) -> Tensor:
    """The edges themselves, where torch.func has wrapped them with everything else that it was given."""
    while torch._C._functorch.is_functorch_wrapped_tensor(edge_index):
        if torch._C._functorch.is_batchedtensor(edge_index):
            raise TypeError("edge_index: expected one graph, got a batch of them (torch.func.vmap)")
        edge_index = torch._C._functorch.get_unwrapped(edge_index)
    return edge_index


def is_transformed(value: Tensor) -> bool:
    """Whether it belongs to a compiler, or torch.func has wrapped it."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(value)
