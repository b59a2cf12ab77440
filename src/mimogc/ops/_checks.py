"""Arguments held against each other in one place, before a kernel reads them."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mimogc.graph import Graph

# Name, value (None where it is left out), and the sizes of its dimensions: numbers, or names that stand for one number.
Expected = tuple[str, Tensor | None, tuple[int | str, ...]]
_LEFT_OUT = ("edge", "weight", "bias", "offset", "norm_weight", "norm_bias")  # what an operator can do without


def matched(graph: Graph, *expected: Expected, **given: int) -> Any:
    """The tensors in one type, of the expected shapes, on the graph's device; an error names what is not.

    Under autocast all are made float32, otherwise types that differ are an error.
    """
    device, on_cpu, sizes = graph.device, graph.rowptr.is_cpu, dict(given)
    dtype: Any = None  # of all so far; False where they differ
    for name, value, shape in expected:
        if value is None and name in _LEFT_OUT:
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
        if value.layout is not torch.strided:
            raise TypeError(f"{name}: expected a dense tensor, got {value.layout}")
        found = value.shape
        fits = len(found) == len(shape)
        if fits:
            for have, want in zip(found, shape, strict=True):
                if have != (sizes.setdefault(want, have) if isinstance(want, str) else want):
                    fits = False
        if not fits:
            raise ValueError(f"{name}: expected shape {_before(name, expected, given)}, got {list(found)}")
        if not (on_cpu and value.is_cpu) and value.device != device:
            raise ValueError(f"{name}: expected device {device} like the graph, got {value.device}")
        dtype = value.dtype if dtype is None or dtype is value.dtype else False
    cast = autocast(device)
    if not dtype or not dtype.is_floating_point or cast:
        return _in_one_type(expected, cast)
    return [value for _, value, _ in expected]


def autocast(device: torch.device) -> bool:
    """Whether torch chooses the types of products itself."""
    return torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(device.type)


def _before(name: str, expected: Iterable[Expected], sizes: dict[str, int]) -> str:
    """The shape of one tensor, with the numbers that those before it give to its names."""
    for other, value, shape in expected:
        if other == name:
            break
        sizes = {**dict(zip(shape, () if value is None else value.shape, strict=False)), **sizes}  # type: ignore
    return "[" + ", ".join(str(sizes.get(size, size)) for size in shape) + "]"  # type: ignore[arg-type]


def _in_one_type(expected: Iterable[Expected], cast: bool) -> list[Tensor | None]:
    given = {name: value for name, value, _ in expected if value is not None}
    for name, value in given.items():
        if not value.dtype.is_floating_point:
            raise TypeError(f"{name}: expected a floating type, got {value.dtype}")
    first, dtype = next((name, value.dtype) for name, value in given.items())
    for name, value in given.items():
        if value.dtype != dtype and not cast:
            raise TypeError(f"{name}: expected {dtype} like {first}, got {value.dtype}")
    return [value if value is None or value.dtype == torch.float64 else value.float() for _, value, _ in expected]
