"""What torch may be doing with tensors besides computing: compiling, torch.func, recording, shapes alone."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


def outside_transforms(given: Tensor) -> AbstractContextManager[Any]:
    """Where tensors made of `given` may be kept: not under torch.func, nor in a mode, to which they would belong."""
    if torch.compiler.is_compiling():
        return nullcontext()
    if torch._C._are_functorch_transforms_active():
        return cast(AbstractContextManager[Any], torch._C._DisableFuncTorch())
    if torch._C._len_torch_dispatch_stack():
        return _outside_modes(given)
    return torch.inference_mode(False)


@contextmanager
def _outside_modes(given: Tensor) -> Iterator[None]:
    """Where nobody records what torch does, or computes shapes alone; but not with what is recorded itself."""
    from torch.fx.experimental.proxy_tensor import get_innermost_proxy_mode, get_proxy_slot

    mode: Any = get_innermost_proxy_mode()
    if mode is not None and get_proxy_slot(given, mode.tracer, None) is not None:
        raise TypeError(
            "edge_index: make_fx cannot record how edges are sorted; use torch.export, or close over a Graph"
        )
    with _disable_current_modes(), torch.inference_mode(False):
        yield


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
