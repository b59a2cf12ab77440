"""Laws of a graph convolution, as functions that raise AssertionError: for our tests and for your own layers.

A layer here is anything called as ``layer(x, edge_index)``; laws about its linear form also need
``layer.operator(x, edge_index)``. Random numbers come from torch's generator, so a seed makes a check repeatable.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from mimogc.ops import use_reference

__all__ = ["assert_equal_layers", "assert_gradients", "assert_kernel_accuracy", "assert_operator", "assert_pairwise"]
__all__ += ["assert_edge_equivariant", "assert_node_equivariant"]

Layer = Callable[..., Any]


def assert_operator(layer: Any, x: Tensor, edge_index: Any, tolerance: float | None = None) -> None:
    """The layer equals the dense operator Σ_k Ã^(k) X W^(k) that `layer.operator` describes, plus bias, activated."""
    operator = layer.operator(x, edge_index)
    dense = _dense(operator.alpha, operator.graph)  # [K, N, N]
    expected = torch.einsum("kij,jf,kfc->ic", dense, x, operator.weight)
    _assert_close(layer(x, edge_index), _completed(layer, expected), tolerance, "the dense operator Σ_k Ã X W")


def assert_pairwise(layer: Any, x: Tensor, edge_index: Any, tolerance: float | None = None) -> None:
    """The layer equals Σ_j W_(i,j) x_j with one matrix W_(i,j) = Σ_k α_k(i,j) W^(k) per pair of nodes."""
    operator = layer.operator(x, edge_index)
    pair = torch.einsum("ek,kfc->efc", operator.alpha, operator.weight)  # W_(i,j) of every edge
    message = torch.einsum("efc,ef->ec", pair, x[operator.graph.src])
    expected = message.new_zeros(operator.graph.num_dst, message.size(1))
    expected = expected.index_add(0, operator.graph.dst, message)
    _assert_close(layer(x, edge_index), _completed(layer, expected), tolerance, "the node-pair form Σ_j W_(i,j) x_j")


def assert_node_equivariant(
    layer: Layer, x: Tensor, edge_index: Tensor, tolerance: float | None = None, edge_attr: Tensor | None = None
) -> None:
    """Renaming the nodes renames the output rows and changes nothing else."""
    order = torch.randperm(x.size(0), device=x.device)
    new_name = torch.empty_like(order)
    new_name[order] = torch.arange(x.size(0), device=x.device)
    given = () if edge_attr is None else (edge_attr,)
    expected = layer(x, edge_index, *given)[order]
    _assert_close(layer(x[order], new_name[edge_index], *given), expected, tolerance, "the output with renamed nodes")


def assert_edge_equivariant(
    layer: Layer, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, tolerance: float | None = None
) -> None:
    """The order of the edges does not matter."""
    order = torch.randperm(edge_index.size(1), device=edge_index.device)
    given = () if edge_attr is None else (edge_attr,)
    moved = () if edge_attr is None else (edge_attr[order],)
    expected = layer(x, edge_index, *given)
    _assert_close(layer(x, edge_index[:, order], *moved), expected, tolerance, "the output with reordered edges")


def assert_equal_layers(layer: Layer, other: Layer, x: Tensor, edge_index: Any, tolerance: float | None = None) -> None:
    """Two layers give the same values and the same gradient to x."""
    first, second = (x.detach().clone().requires_grad_() for _ in range(2))
    out, expected = layer(first, edge_index), other(second, edge_index)
    _assert_close(out, expected, tolerance, "the other layer")
    weight = torch.randn_like(expected)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    assert first.grad is not None
    assert second.grad is not None
    _assert_close(first.grad, second.grad, tolerance, "the other layer's gradient")


def assert_gradients(layer: Any, x: Tensor, edge_index: Any, second: bool = True) -> None:
    """First (and second) derivatives to x and to all parameters agree with finite differences; needs float64."""
    if x.dtype != torch.float64:
        raise TypeError(f"x: expected torch.float64 for finite differences, got {x.dtype}")
    given = dict(layer.named_parameters())
    inputs = tuple(value.detach().clone().requires_grad_() for value in (x, *given.values()))

    def call(x: Tensor, *parameters: Tensor) -> Any:
        return torch.func.functional_call(layer, dict(zip(given, parameters, strict=True)), (x, edge_index))

    try:
        gradcheck(call, inputs)
        if second:
            gradgradcheck(call, inputs)
    except RuntimeError as error:  # torch's own report, as the assertion it is
        raise AssertionError(str(error)) from None


def assert_kernel_accuracy(layer: Any, x: Tensor, edge_index: Any, factor: float = 2.0) -> None:
    """In float32 the kernels are at most `factor` times as far from float64 as plain torch in float32 is.

    Compared are the output and the gradients to x and to every parameter, each by its largest error.
    """
    single, double = copy.deepcopy(layer).float(), copy.deepcopy(layer).double()
    weight = torch.randn(single(x.float(), edge_index).shape, dtype=torch.float64)
    ours = _values(single, x.float(), edge_index, weight.float())
    with use_reference():
        plain = _values(single, x.float(), edge_index, weight.float())
        exact = _values(double, x.double(), edge_index, weight)
    for name, truth in exact.items():
        error, allowed = _error(ours[name], truth), factor * _error(plain[name], truth)
        # Where plain torch happens to round to the exact value, one unit in the last place is no fault.
        unit = torch.finfo(torch.float32).eps * float(truth.abs().max()) if truth.numel() else 0.0
        if not error <= max(allowed, factor * unit):
            raise AssertionError(
                f"{name}: the kernel's error {error:.3g} exceeds {factor} times plain torch's {allowed / factor:.3g}"
            )


def _values(layer: Any, x: Tensor, edge_index: Any, weight: Tensor) -> dict[str, Tensor]:
    """The output and all gradients of (weight · output)."""
    layer.zero_grad(set_to_none=True)
    x = x.detach().clone().requires_grad_()
    out = layer(x, edge_index)
    (out * weight).sum().backward()
    found = {"output": out.detach(), "gradient of x": x.grad}
    for name, parameter in layer.named_parameters():
        found[f"gradient of {name}"] = parameter.grad
    return {name: value for name, value in found.items() if value is not None}


def _error(value: Tensor, truth: Tensor) -> float:
    return float((value.double() - truth).abs().max()) if truth.numel() else 0.0


def _dense(alpha: Tensor, graph: Any) -> Tensor:
    dense = alpha.new_zeros(alpha.size(1), graph.num_dst, graph.num_src)
    for matrix, weights in zip(dense, alpha.t(), strict=True):
        matrix.index_put_((graph.dst, graph.src), weights.detach(), accumulate=True)
    return dense


def _completed(layer: Any, out: Tensor) -> Tensor:
    """With the layer's bias and activation, where it has them."""
    bias = getattr(layer, "bias", None)
    out = out if bias is None else out + bias
    return torch.nn.functional.gelu(out) if getattr(layer, "act", None) == "gelu" else out


def _assert_close(value: Tensor, expected: Tensor, tolerance: float | None, what: str) -> None:
    if value.shape != expected.shape:
        raise AssertionError(f"expected shape {list(expected.shape)} like {what}, got {list(value.shape)}")
    if not value.numel():
        return
    if tolerance is None:
        tolerance = 1e-4 if value.dtype == torch.float32 else 1e-9
    scale = max(1.0, float(expected.detach().abs().max()))
    difference = float((value - expected).detach().abs().max())
    if not difference <= tolerance * scale:
        raise AssertionError(f"differs from {what} by {difference:.3g} (allowed: {tolerance * scale:.3g})")
