"""How layers start: one pass over an input after which every layer of LMGC gives outputs of unit scale."""

import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.parametrize import is_parametrized
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.graph import Graph
from mimogc.nn.coefficients import LMGC, Coefficients
from mimogc.nn.coefficients.lmgc import CLOSE
from mimogc.nn.stack import LMGCStack

Layer = Any  # an `LMGConv`, or a module around one with its `linear`, `calibrate_scores`, `rescale` and `coefficients`


def calibrate(
    model: torch.nn.Module, *inputs: Any, only: type[Coefficients] = LMGC, scale: float = 1.0, **named: Any
) -> dict[str, float]:
    """Scale the layers of a model, one after another, until the output of each has unit scale on these inputs.

    One pass of ``model(*inputs)``, without dropout, gradients and autocast. The score vectors of a layer are scaled
    until its scores are small beside its offsets, whatever the features' scale. Then its W^(k) are multiplied by one
    number and the score vectors divided by it, so that the coefficients stay as they are and the output has a root mean
    square of one, before bias, activation and whatever the model does with it (a residual connection, a learnt factor).
    To be called once, before training, with an input that is typical: the whole graph, or a batch.

    It draws no random numbers (layers whose sizes are not known yet start first), and a second call changes nothing.
    A layer that is called more than once is scaled at its first call. Frozen layers are scaled too, and so is a last
    layer that gives logits. Parameters stay the same objects, so an optimiser may exist already. Where
    torch.distributed runs, every process calls it, rank 0 computes on its inputs, and all get its result; with a
    partitioned graph all compute together.

    Args:
        model: any module that contains `LMGConv` layers; also one wrapped by DistributedDataParallel.
        inputs: what the model is called with, and `named` by name (but for `only` and `scale`, which are taken here).
        only: the layers with these coefficients are scaled: `LMGC` (also its forms `Eq12`, `NormalizedLMGC`), or
            `Coefficients` for all.
        scale: the root mean square that outputs get. Less than one is for residual branches that should start quiet.

    Returns:
        The factor of every layer, by its name in the model; nothing on the ranks other than 0.

    Raises:
        ValueError: the model has no such layer, or the output of one is zero or not finite; it is then as before.
    """
    if isinstance(model, DistributedDataParallel):
        model = model.module
    if not (isinstance(only, type) and issubclass(only, Coefficients)):
        raise TypeError(f"only: expected a class of coefficients, such as LMGC or Coefficients, got {only!r}")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a module, got {type(model).__name__}")
    if isinstance(scale, bool) or not (isinstance(scale, (int, float)) and 0 < scale < math.inf):
        raise ValueError(f"scale: expected a positive number, got {scale!r}")
    layers = _layers(model, only)
    if not layers:
        raise ValueError(
            f"model: expected one with LMGConv layers of {only.__name__} coefficients, got {type(model).__name__} "
            "(only=Coefficients scales layers of any)"
        )
    _refuse_tied(model, layers)
    parts = [value for value in (*inputs, *named.values()) if isinstance(value, Graph) and value.is_partitioned]
    if parts or not (distributed.is_available() and distributed.is_initialized()):
        return _calibrated(model, layers, scale, inputs, named)
    for name, layer in layers.items():
        if any(is_uninitialized_parameter(parameter) for parameter in layer.parameters()):
            raise ValueError(f"model: call it once before: the sizes of layer {name!r} are not known yet")
    factors: dict[str, float] = {}
    error: list[str | None] = [None]
    if distributed.get_rank() == 0:
        try:
            factors = _calibrated(model, layers, scale, inputs, named)
        except BaseException as problem:  # the other ranks wait: they have to hear of it
            distributed.broadcast_object_list([f"{type(problem).__name__}: {problem}"], src=0)
            raise
    distributed.broadcast_object_list(error, src=0)
    if error[0] is not None:
        raise ValueError(f"calibrate failed on rank 0: {error[0]}")
    for layer in layers.values():
        for parameter in layer.parameters():
            distributed.broadcast(parameter.data, 0)
    return factors


def _refuse_tied(model: torch.nn.Module, layers: dict[str, Layer | LMGCStack]) -> None:
    """A weight brings one layer to scale, which nothing else may share, and is computed from no others."""
    owner: dict[int, str] = {}
    for name, layer in layers.items():
        if any(is_parametrized(module) for module in layer.modules()):
            raise ValueError(f"model: layer {name!r} has a parametrization; calibrate before it is registered")
        for parameter in layer.parameters():
            other = owner.setdefault(id(parameter), name)
            if other != name:
                raise ValueError(f"model: layers {other!r} and {name!r} share a parameter and cannot both be scaled")
    ours = {id(layer) for layer in layers.values()}

    def look(module: torch.nn.Module, name: str) -> None:
        if id(module) in ours:  # called once or twice, a layer is one
            return
        for parameter in module._parameters.values():
            if id(parameter) in owner:
                layer_name, other = owner[id(parameter)], name or type(model).__name__
                raise ValueError(
                    f"model: layer {layer_name!r} shares a parameter with {other!r}, which would be scaled with it; "
                    "tie them after calibrating"
                )
        for child, inner in module._modules.items():
            if inner is not None:
                look(inner, f"{name}.{child}" if name else child)

    look(model, "")


def _layers(model: torch.nn.Module, only: type[Coefficients]) -> dict[str, Layer | LMGCStack]:
    """The layers by name; an LMGConv inside another one belongs to that."""
    found: dict[str, Layer | LMGCStack] = {}
    inside: set[torch.nn.Module] = set()
    for name, module in model.named_modules():  # a module comes before those inside it
        if isinstance(module, LMGCStack) and issubclass(module.kind, only):
            found[name] = module
        if hasattr(module, "calibrate_scores") and module not in inside:
            inside.update(module.modules())
            layer: Layer = module
            if isinstance(layer.coefficients, only):
                found[name] = layer
    return found


def _calibrated(
    model: torch.nn.Module,
    layers: dict[str, Layer | LMGCStack],
    wanted: float,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
) -> dict[str, float]:
    factors: dict[str, float] = {}
    before: list[tuple[Tensor, Tensor]] = []
    depth = sum(layer.layers if isinstance(layer, LMGCStack) else 1 for layer in layers.values())

    def scale(name: str, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        layer.linear(*args, **kwargs)  # after which a lazy layer knows its sizes
        before.extend((parameter, parameter.clone()) for parameter in layer.parameters())
        layer.calibrate_scores(depth, *args, **kwargs)
        graph = args[1] if len(args) > 1 else kwargs.get("edge_index")
        factor = wanted * _factor(name, layer.linear(*args, **kwargs), graph)
        if abs(factor - 1) > CLOSE:
            layer.rescale(factor)
            left = wanted * _factor(name, layer.linear(*args, **kwargs), graph)
            if abs(left - 1) > 10 * CLOSE:
                raise ValueError(
                    f"model: layer {name!r} does not follow its weights, as with a parametrization or pruning, or "
                    f"coefficients without `rescale`: expected scale {wanted:.3g}, got {wanted / left:.3g}"
                )
        factors[name] = factor

    def hook(name: str) -> Any:
        def before_call(layer: Layer | LMGCStack, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if name in seen:  # a layer that is called more than once is scaled at its first call
                return
            seen.add(name)
            if isinstance(layer, LMGCStack):
                for number, (conv, given) in enumerate(layer.one_by_one(*args, **kwargs)):
                    scale(f"{name}.{number}", conv, given, {})
                return
            kwargs = kwargs | dict(zip(("return_attention_weights", "edge_weight", "size"), args[3:], strict=False))
            kwargs.pop("return_attention_weights", None)
            scale(name, layer, args[:3], kwargs)

        return before_call

    seen: set[str] = set()
    handles = [layer.register_forward_pre_hook(hook(name), with_kwargs=True) for name, layer in layers.items()]
    try:
        with torch.no_grad(), _evaluating(model), _full_precision(model):
            model(*inputs, **named)
    except BaseException:
        with torch.no_grad():
            for parameter, value in before:
                parameter.copy_(value)
        raise
    finally:
        for handle in handles:
            handle.remove()
    unused = [name for name in layers if name not in seen]
    if unused:
        warnings.warn(
            f"calibrate: the model did not call {', '.join(unused)} on these inputs; not scaled", stacklevel=3
        )
    return factors


def _factor(name: str, out: Tensor, graph: Any) -> float:
    """One over the root mean square of a layer's output, over all parts of the graph."""
    sums = torch.stack([out.double().square().sum(), out.new_tensor(out.numel(), dtype=torch.float64)])
    total, count = (graph.total(sums) if isinstance(graph, Graph) else sums).tolist()
    if not count:
        raise ValueError(f"inputs: expected an input with nodes, got none in layer {name!r}")
    scale = math.sqrt(total / count)
    if not math.isfinite(scale):
        raise ValueError(f"inputs: the output of layer {name!r} is not finite, and cannot be brought to unit scale")
    if scale == 0.0:
        raise ValueError(f"inputs: the output of layer {name!r} is zero, and cannot be brought to unit scale")
    return 1.0 / scale


@contextmanager
def _full_precision(model: torch.nn.Module) -> Iterator[None]:
    """Without autocast, whose rounding would hide whether a layer follows its weights."""
    with ExitStack() as stack:
        for device in {parameter.device.type for parameter in model.parameters()}:
            if torch.amp.is_autocast_available(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and every module in its own mode again afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
