"""Whether the arguments and parameters of a layer are what they should be; each refusal names the one that is not."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.nn._layout import out_channels

if TYPE_CHECKING:
    from mimogc.nn.conv import LMGConv


# What to do in place of an argument that layers of PyG have and this one has not.
_OF_PYG = {
    "concat": "leave it out for the sum over the graphs, or give combine='mean' (as concat=False) or combine='concat'",
    "share_weights": "leave it out, every graph has one matrix for both ends; coefficients=GATv2(..., "
    "share_weights=False) has two",
    "aggr": "leave it out, messages are added; combine='sum', 'mean' or 'concat' says what becomes of the K graphs",
    "flow": "leave it out, edges go from edge_index[0] to edge_index[1]; give edge_index.flip(0) for the other way",
    "node_dim": "leave it out, nodes are the first dimension",
    "normalize": "leave it out, coefficients='gcn' are those of the normalised adjacency matrix",
    "cached": "leave it out, a mimogc.Graph in place of edge_index keeps what is computed from it",
}


def refuse_others(layer: "LMGConv", others: Mapping[str, object]) -> None:
    """Refuse arguments that the layer does not have, with a way on for those of PyG's layers."""
    for name, value in others.items():
        if name in _OF_PYG:
            raise TypeError(
                f"{name}: expected no such argument of {type(layer).__name__}, got {value!r}: {_OF_PYG[name]}"
            )
        raise TypeError(f"{type(layer).__name__}.__init__() got an unexpected keyword argument {name!r}")


def checked_alpha(layer: "LMGConv", alpha: Any, h: Tensor) -> Tensor:
    """What coefficients have returned, refused where it cannot be summed over; explainers' messages may promote it."""
    where = f"from {type(layer.coefficients).__name__}.forward"
    if not isinstance(alpha, Tensor):
        raise TypeError(f"alpha: expected a tensor [E, K] {where}, got {type(alpha).__name__}")
    if layer._by_messages():
        return alpha
    if layer.coefficients.layout == "free" and (alpha.dim() != 2 or alpha.size(1) != h.size(1)):
        raise ValueError(f"alpha: expected shape [E, {h.size(1)}] {where}, got {list(alpha.shape)}")
    if alpha.dtype != h.dtype and not torch.is_autocast_enabled(h.device.type):
        raise TypeError(f"alpha: expected {h.dtype} like h {where}, got {alpha.dtype}")
    return alpha


def check_size(name: str, size: object, smallest: int = 1) -> None:
    """Refuse a number of channels or graphs that is no whole number, or too small."""
    if isinstance(size, bool) or not isinstance(size, int) or size < smallest:
        raise ValueError(f"{name}: expected a whole number of at least {smallest}, got {size!r}")


def check_fill(value: object) -> None:
    """Refuse what cannot be the features of an added loop."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number and value != "mean":
        raise ValueError(f"fill_value: expected a number or 'mean', got {value!r}")


def check_numbers(dropout: object, negative_slope: object) -> None:
    """Refuse what is no probability, and no slope."""
    if not isinstance(dropout, int | float) or not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout: expected a probability in [0, 1), got {dropout!r}")
    if not isinstance(negative_slope, int | float) or not math.isfinite(negative_slope):
        raise ValueError(f"negative_slope: expected a finite number, got {negative_slope!r}")


def check_parameters(layer: "LMGConv") -> None:
    """Refuse a weight or bias that someone has put in the place of a layer's own and that does not fit."""
    coefficients, weight = layer.coefficients, getattr(layer.lin, "weight", None)
    rows, channels = coefficients.map_shape(layer.out_channels)
    total = out_channels(coefficients.layout, layer.combine, layer.heads, layer.out_channels)
    for name, size in (("lin", rows * channels), ("lin_dst", rows * channels), ("res", total)):
        lin = getattr(layer, name)
        if not hasattr(lin, "weight") or is_uninitialized_parameter(lin.weight):
            continue  # there is none, or someone's own module is in its place
        if lin.weight.dim() != 2 or lin.weight.size(0) != size:
            raise ValueError(f"{name}.weight: expected shape [{size}, F], got {list(lin.weight.shape)}")
    coefficients.check()
    if layer.bias is not None and layer.bias.shape != (total,):
        raise ValueError(f"bias: expected shape [{total}], got {list(layer.bias.shape)}")
    if layer.bias is not None and weight is not None and layer.bias.dtype != weight.dtype:
        raise TypeError(f"bias: expected {weight.dtype} like lin.weight, got {layer.bias.dtype}")
    if not torch.compiler.is_compiling():
        _check_numbers_are_there(layer)


def _check_numbers_are_there(layer: "LMGConv") -> None:
    """Refuse a parameter that is still on the device meta: torch would multiply by whatever is in memory."""
    for module in layer.modules():
        for value in module._parameters.values():
            if value is not None and value.is_meta:
                name = next(name for name, other in layer.named_parameters() if other is value)
                raise ValueError(f"{name}: expected numbers, got a tensor on the device meta, which has none")


def check_alike(layer: "LMGConv") -> None:
    """Refuse a parameter that is not of the type, device and layout of lin.weight, to say why a call has failed."""
    weight = getattr(layer.lin, "weight", None)
    for name, value in layer.named_parameters():
        if weight is None or is_uninitialized_parameter(value):
            continue
        found, expected = ((one.dtype, one.device, one.layout) for one in (value, weight))
        if found != expected:
            wanted, got = (f"{dtype} on {device} ({form})" for dtype, device, form in (expected, found))
            raise TypeError(f"{name}: expected {wanted} like lin.weight, got {got}")


def check_features_fit(layer: "LMGConv", x: Tensor) -> None:
    """Refuse features that do not fit lin.weight."""
    weight: Any = getattr(layer.lin, "weight", layer)
    if weight is layer:  # someone's own module is in the place of `lin`, and has none
        return
    if weight is None:
        raise ValueError("lin.weight: expected a matrix, got None")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"x: expected {weight.dtype} like the layer's weights, got {x.dtype}")
    if weight.dim() != 2 or x.size(1) != weight.size(1):
        if layer.in_channels == -1:
            raise ValueError(f"x: expected shape [N, {weight.size(-1)}], got {list(x.shape)}")
        raise ValueError(f"lin.weight: expected shape [K·C, {x.size(1)}], got {list(weight.shape)}")
    if x.device != weight.device:
        raise ValueError(f"x: expected device {weight.device} like the layer's weights, got {x.device}")
