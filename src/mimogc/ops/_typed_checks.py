"""What layers on typed edges are made of, held against each other before a kernel reads it."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops._backends import plain
from mimogc.ops._checks import Expected, matched
from mimogc.ops._typed_forms import Form, TypedWeights


class Norm(NamedTuple):
    """What is not learnt of a batch norm, such as those of a `torch.nn.BatchNorm1d`.

    Args:
        mean: ``[C]``, `running_mean`. In training the new mean is written to it.
        var: ``[C]``, `running_var`, likewise.
        momentum: the share of every new mean and variance; None, for the mean over all batches, is not taken.
        eps: added to the variance.
        training: whether the rows are normalised by their own mean and variance.
    """

    mean: Tensor
    var: Tensor
    momentum: float
    eps: float
    training: bool


class Plan(NamedTuple):
    """What all layers have in common."""

    graph: Graph
    kinds: Tensor  # [E] int64
    form: Form
    norms: tuple[Norm | None, ...]  # of every layer
    act: bool  # whether GELU follows
    gain: float | None  # of what is added to the input; None where nothing is


def checked(x: Tensor, weights: Sequence[TypedWeights], plan: Plan) -> tuple[Tensor, list[Tensor | None]]:
    """x and the tensors of all layers in one type, held against each other."""
    if not isinstance(plan.form, Form):
        raise TypeError(f"form: expected a TypedGate, TypedPairs or TypedSigned, got {_kind(plan.form)}")
    if plan.gain is not None and (isinstance(plan.gain, bool) or not isinstance(plan.gain, int | float)):
        raise TypeError(f"gain: expected a number, got {type(plan.gain).__name__}")
    if plan.gain is not None and not math.isfinite(plan.gain):
        raise ValueError(f"gain: expected a finite number, got {plan.gain}")
    if not isinstance(plan.graph, Graph):
        raise TypeError(f"graph: expected a Graph, got {_kind(plan.graph)}")
    tensors: list[Tensor | None] = []
    first = features = x
    for number, (own, norm) in enumerate(zip(weights, plan.norms, strict=True)):
        try:
            given, *found = _checked_layer(features, own, norm, plan)
        except (TypeError, ValueError) as error:
            if len(weights) == 1:
                raise
            raise type(error)(f"layer {number}: {error}") from None
        first = first if number else given
        tensors += found
        # Stands for what the next layer gets.
        features = given.new_empty((1, 1)).expand(plan.graph.num_nodes, own.messages.size(1))
    check_types(plan.kinds, plan.graph, weights)
    return first, tensors


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def check_types(kinds: Tensor, graph: Graph, weights: Iterable[TypedWeights]) -> None:
    """Refuse types that are in the table of one layer and not in another's."""
    check_kinds(kinds, graph, min([own.scores.size(0) for own in weights]))


def check_kinds(kinds: Tensor, graph: Graph, types: int) -> None:
    """Refuse types that are not below their number; what is compiled finds out itself."""
    if not isinstance(kinds, Tensor) or not (torch.compiler.is_compiling() or plain(kinds)):
        raise TypeError(f"kinds: expected a plain tensor, no subclass and no negated view, got {type(kinds).__name__}")
    if kinds.dtype != torch.int64 or kinds.shape != (graph.num_edges,) or kinds.device != graph.device:
        wanted = f"int64 [{graph.num_edges}] on {graph.device}"
        raise ValueError(f"kinds: expected {wanted}, got {kinds.dtype} {list(kinds.shape)} on {kinds.device}")
    if torch.compiler.is_compiling() or not kinds.is_cpu or not kinds.numel():
        return
    low, high = (int(value) for value in kinds.aminmax())
    if low < 0 or high >= types:
        raise IndexError(f"kinds: expected types 0 to {types - 1}, got {low if low < 0 else high}")


def _checked_layer(x: Tensor, own: TypedWeights, norm: Norm | None, plan: Plan) -> Any:
    """x and the tensors of one layer."""
    graph = plan.graph
    if not isinstance(own, TypedWeights):
        raise TypeError(f"{'weights' if plan.act else 'own'}: expected TypedWeights, got {_kind(own)}")
    if norm is not None and not isinstance(norm, Norm):
        raise TypeError(f"norms: expected a Norm or None, got {_kind(norm)}")
    if norm is not None and not isinstance(norm.momentum, int | float):
        raise TypeError(f"momentum: expected a number, got {type(norm.momentum).__name__}")
    for name in ("weight", "att", "scores", "messages"):
        value: Any = getattr(own, name)
        if not isinstance(value, Tensor) or value.dim() != 2:
            found = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"{name}: expected a matrix, got {found}")
    types, heads, channels = own.scores.size(0), plan.form.heads(own), own.messages.size(1)
    if not heads:
        found = f"{list(own.att.shape)} and {list(own.scores.shape)}"
        raise ValueError(f"att, scores: expected those of at least one graph, got shapes {found}")
    if norm is None and (own.norm_weight is not None or own.norm_bias is not None):
        raise ValueError("norm_weight, norm_bias: expected none for a layer without norm, got a tensor")
    if plan.gain is not None and channels != x.size(-1):
        raise ValueError(f"gain: expected layers with as many channels as features, got {channels} and {x.size(-1)}")
    expected: list[Expected] = [
        ("x", x, (graph.num_nodes, "F")),
        ("weight", own.weight, ("K·C", "F")),
        *plan.form.expected(own, graph)[:2],
        ("messages", own.messages, (types * heads, "C")),
        ("bias", own.bias, ("C",)),
        ("offset", own.offset, (heads,)),
        ("norm_weight", own.norm_weight, ("C",)),
        ("norm_bias", own.norm_bias, ("C",)),
    ]
    size = len(expected)
    expected += plan.form.expected(own, graph)[2:]
    if norm is not None:
        expected += [("mean", norm.mean, ("C",)), ("var", norm.var, ("C",))]
    sizes = {"K·C": heads * channels}
    return matched(graph, *expected, **sizes)[:size]
