"""Several layers on typed edges as one function: the kernels against plain torch, and against the layers one by one."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch_geometric import Index

from graphs import random_edges
from mimogc import Graph
from mimogc.ops import (
    Norm,
    TypedGate,
    TypedPairs,
    TypedSigned,
    TypedWeights,
    _typed_layers,
    typed_layer,
    typed_layers,
    use_reference,
)

NODES, TYPES, HEADS = 30, 3, 4
DTYPES = [torch.float32, torch.float64]
FORMS = [TypedGate, TypedSigned, TypedPairs]


def _stack(dtype, channels, layers=3, normed=True, features=None, form=TypedGate):
    """The form, a graph with an isolated node, types, features, and the weights and batch norms of some layers."""
    torch.manual_seed(0)
    graph = Graph.from_edge_index(random_edges(NODES - 1, 90), NODES)
    kinds = torch.randint(0, TYPES, (graph.num_edges,))

    def random(*shape):
        return (0.3 * torch.randn(shape, dtype=dtype)).requires_grad_()

    weights, norms, width = [], [], channels if features is None else features
    x = random(NODES, width)
    for _ in range(layers):
        att = {TypedGate: (2 * HEADS, HEADS * channels), TypedSigned: (2 * HEADS, width), TypedPairs: (HEADS, channels)}
        scores = random(TYPES, HEADS * channels if form is TypedPairs else HEADS)
        own = [random(HEADS * channels, width), random(*att[form]), scores, random(TYPES * HEADS, channels)]
        own += [random(channels), None if form is TypedPairs else random(HEADS)]
        own += [random(channels), random(channels)] if normed else []
        weights.append(TypedWeights(*own))
        mean, var = torch.randn(channels, dtype=dtype), torch.rand(channels, dtype=dtype)
        norms.append(Norm(mean, var, 0.1, 1e-5, True) if normed else None)
        width = channels
    own = form(torch.rand(NODES, dtype=dtype)) if form is TypedSigned else form(0.2)
    return own, graph, kinds, x, weights, norms


def _fresh(norms):
    return [norm and norm._replace(mean=norm.mean.clone(), var=norm.var.clone()) for norm in norms]


def _inputs(x, weights):
    return [x, *(tensor for own in weights for tensor in own if tensor is not None)]


def _one_by_one(form, x, weights, norms, graph, kinds, gain):
    for own, norm in zip(weights, norms, strict=True):
        *rest, weight, bias = own
        learnt = weight, bias
        y = typed_layer(form, x, TypedWeights(*rest), graph, kinds)
        if norm is not None:
            y = F.batch_norm(y, norm.mean, norm.var, *learnt, norm.training, norm.momentum, norm.eps)
        x = F.gelu(y) if gain is None else x + gain * F.gelu(y)
    return x


def _double(value):
    return value.detach().double().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [3, 46])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("gain", [None, 0.4])
@pytest.mark.parametrize("kind", FORMS)
def test_is_the_layers_one_by_one(kind, dtype, channels, normed, gain):
    """As near to float64 as plain torch in this type is, but for a factor: without norms features grow, and errors."""
    form, graph, kinds, x, weights, norms = _stack(dtype, channels, normed=normed, form=kind)
    exact = _double(x), [TypedWeights(*map(_double, own)) for own in weights]
    exact_form = TypedSigned(form.scale.double()) if kind is TypedSigned else form
    exact_norms = [norm and Norm(*map(_double, norm)) for norm in norms]
    sign = torch.arange(1, x.numel() + 1, dtype=torch.float64).view_as(x).sin()
    seen = []
    for compute, of, stats in (
        (typed_layers, (x, weights), norms),
        (typed_layers, (x, weights), norms),
        (_one_by_one, (x, weights), norms),
        (_one_by_one, exact, exact_norms),
    ):
        own = _fresh(stats)
        with use_reference() if seen else torch.enable_grad():
            out = compute(exact_form if of is exact else form, *of, own, graph, kinds, gain=gain)
            grads = torch.autograd.grad((out * sign).sum(), _inputs(*of))
        seen.append([out.detach(), *grads, *(value for norm in own if norm for value in norm[:2])])
    least = 1e-5 if dtype == torch.float32 else 1e-10
    for *found, plain, wanted in zip(*seen, strict=True):
        scale = float(wanted.abs().max().clamp(min=1))
        allowed = float(3 * (plain - wanted).abs().max() + least * scale)
        assert allowed <= (3e-3 if dtype == torch.float32 else 1e-10) * scale
        for other in found:
            torch.testing.assert_close(other.double(), wanted, rtol=0, atol=allowed)
    if normed:
        assert not torch.equal(own[0].mean, exact_norms[0].mean)


@pytest.mark.parametrize("kind", FORMS)
def test_layers_of_other_widths(kind):
    form, graph, kinds, x, weights, norms = _stack(torch.float64, 5, features=9, form=kind)
    out = typed_layers(form, x, weights, _fresh(norms), graph, kinds)
    with use_reference():
        wanted = _one_by_one(form, x, weights, _fresh(norms), graph, kinds, None)
    torch.testing.assert_close(out, wanted)
    with pytest.raises(ValueError, match="gain: expected layers with as many channels as features, got 5 and 9"):
        typed_layers(form, x, weights, norms, graph, kinds, gain=1.0)


@pytest.mark.parametrize("kind", FORMS)
def test_second_derivatives_leave_the_norms_alone(kind):
    form, graph, kinds, x, weights, norms = _stack(torch.float64, 3, layers=2, form=kind)
    out = typed_layers(form, x, weights, norms, graph, kinds, gain=0.5)
    before = [value.clone() for norm in norms for value in norm[:2]]
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(grad.square().sum(), x)
    for was, now in zip(before, (value for norm in norms for value in norm[:2]), strict=True):
        assert torch.equal(was, now)
    with use_reference():
        out = typed_layers(form, x, weights, norms, graph, kinds, gain=0.5)
        (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        (wanted,) = torch.autograd.grad(grad.square().sum(), x)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("kind", FORMS)
def test_norms_in_evaluation(kind, recorded):
    form, graph, kinds, x, weights, norms = _stack(torch.float64, 33, form=kind)
    norms = [norm._replace(training=False) for norm in norms]
    before = [norm.mean.clone() for norm in norms]
    with torch.set_grad_enabled(recorded):
        out = typed_layers(form, x, weights, norms, graph, kinds, gain=0.5)
        wanted = _one_by_one(form, x, weights, norms, graph, kinds, 0.5)
        torch.testing.assert_close(out, wanted)
        if recorded:
            found, other = (torch.autograd.grad(value.square().sum(), _inputs(x, weights)) for value in (out, wanted))
            torch.testing.assert_close(found, other)
    for was, norm in zip(before, norms, strict=True):
        assert torch.equal(was, norm.mean)


@pytest.mark.parametrize("kind", FORMS)
def test_some_weights_are_frozen(kind):
    form, graph, kinds, x, weights, norms = _stack(torch.float32, 46, form=kind)
    wanted = torch.autograd.grad(typed_layers(form, x, weights, _fresh(norms), graph, kinds).sum(), weights[1].weight)
    frozen = [own._replace(weight=own.weight.detach(), norm_weight=own.norm_weight.detach()) for own in weights]
    frozen[1] = frozen[1]._replace(weight=weights[1].weight)
    found = torch.autograd.grad(
        typed_layers(form, x.detach(), frozen, _fresh(norms), graph, kinds).sum(), weights[1].weight
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_wrong_arguments():
    form, graph, kinds, x, weights, norms = _stack(torch.float32, 5)

    def change(number, **values):
        return [own._replace(**values) if place == number else own for place, own in enumerate(weights)]

    short = norms[0]._replace(mean=torch.zeros(2))
    cases = [
        ((weights, norms[1:]), "norms: expected one for each of 3 layers"),
        (([], []), "norms: expected one for each of 0 layers, at least one"),
        ((weights, [None, *norms[1:]]), "norm_weight, norm_bias: expected none for a layer without norm"),
        ((weights, [short, *norms[1:]]), r"layer 0: mean: expected shape \[5\], got \[2\]"),
        ((change(1, weight=torch.zeros(20, 4)), norms), r"layer 1: weight: expected shape \[20, 5\], got \[20, 4\]"),
        ((change(2, messages=torch.zeros(11, 5)), norms), r"messages: expected shape \[12, "),
        ((change(2, norm_bias=torch.zeros(4)), norms), r"norm_bias: expected shape \[5\], got \[4\]"),
    ]
    for given, message in cases:
        with pytest.raises(ValueError, match=message):
            typed_layers(form, x, *given, graph, kinds)
    for given in (
        change(2, weight=weights[2].weight.double()),
        [own._replace(bias=own.bias.half()) for own in weights],
    ):
        with pytest.raises(TypeError, match=r"expected torch\.float32 like x"):
            typed_layers(form, x, given, norms, graph, kinds)
    with pytest.raises(TypeError, match=r"mean: expected torch\.float32 like x, got torch\.float64"):
        typed_layers(form, x, weights, [norms[0]._replace(mean=norms[0].mean.double()), *norms[1:]], graph, kinds)
    fewer = change(1, scores=torch.zeros(2, HEADS), messages=torch.zeros(2 * HEADS, 5))
    with pytest.raises(IndexError, match="kinds: expected types 0 to 1, got 2"):
        typed_layers(form, x, fewer, norms, graph, kinds)
    nothing = norms[0]._replace(mean=None, var=None, training=False)
    for given, message in (
        ((change(0, weight=None), norms), "layer 0: weight: expected a matrix, got NoneType"),
        ((change(1, scores=torch.zeros(3)), norms), r"layer 1: scores: expected a matrix, got \[3\]"),
        ((weights, [nothing, *norms[1:]]), "layer 0: mean: expected a tensor, got NoneType"),
    ):
        with pytest.raises(TypeError, match=message):
            typed_layers(form, x, *given, graph, kinds)
    for gain, message in ((torch.ones(()), "Tensor"), (True, "bool")):
        with pytest.raises(TypeError, match=f"gain: expected a number, got {message}"):
            typed_layers(form, x, weights, norms, graph, kinds, gain=gain)
    for given, message in (
        ((TypedGate, x, weights, norms, graph), "form: expected a TypedGate, .* got the class TypedGate"),
        ((form, x, list(weights[0]), norms[:1] * 8, graph), "layer 0: weights: expected TypedWeights, got Tensor"),
        ((form, x, weights[0], norms[:1] * 8, graph), "weights, norms: expected a list of each, got TypedWeights and"),
        ((form, x, weights[:1], norms[0], graph), "weights, norms: expected a list of each, got list and Norm"),
        ((form, x, x, norms, graph), "weights, norms: expected a list of each, got Tensor and list"),
        ((form, x, weights, norms, graph.edge_index), "graph: expected a Graph, got Tensor"),
        (
            (form, x, weights, [torch.nn.BatchNorm1d(5)] * 3, graph),
            "layer 0: norms: expected a Norm or None, got Batch",
        ),
        ((form, x, weights, [norms[0]._replace(momentum=None)] * 3, graph), "momentum: expected a number, got None"),
    ):
        with pytest.raises(TypeError, match=message):
            typed_layers(*given, kinds)
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="gain: expected a finite number"):
            typed_layers(form, x, weights, norms, graph, kinds, gain=number)
        with pytest.raises(ValueError, match="slope: expected a finite number"):
            TypedGate(number)
    with pytest.raises(TypeError, match="scale"):
        TypedSigned()
    for scores in (weights[1].scores.t(), torch.zeros(TYPES, HEADS * 5)):
        with pytest.raises(ValueError, match=r"layer 1: scores: expected shape \["):
            typed_layers(form, x, change(1, scores=scores), norms, graph, kinds)
    with pytest.raises(TypeError, match="own: expected TypedWeights, got NoneType"):
        typed_layer(form, x, None, graph, kinds)
    one = Graph.from_edge_index(torch.zeros(2, 1, dtype=torch.int64), 1)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        typed_layers(form, x[:1], weights, norms, one, kinds[:1])


def test_types_that_no_kernel_can_read():
    form, graph, kinds, x, weights, norms = _stack(torch.float32, 5)
    for other in (Index(kinds), torch._neg_view(-kinds)):
        with pytest.raises(TypeError, match="kinds: expected a plain tensor"):
            typed_layers(form, x, weights, norms, graph, other)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", FORMS)
def test_saved_tensors_that_come_back_negated(kind):
    form, graph, kinds, x, weights, norms = _stack(torch.float32, 33, form=kind)
    grads = []
    for unpack in (lambda tensor: tensor, lambda tensor: torch._neg_view(-tensor)):
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            out = typed_layers(form, x, weights, _fresh(norms), graph, kinds)
            grads.append(torch.autograd.grad(out.square().sum(), _inputs(x, weights)))
    torch.testing.assert_close(*grads, rtol=0, atol=0)


@pytest.mark.parametrize("frozen", [1, 2])
@pytest.mark.parametrize("kind", FORMS)
def test_the_first_layers_are_frozen(kind, frozen):
    form, graph, kinds, x, weights, norms = _stack(torch.float64, 33, form=kind)
    learnt = _inputs(x, weights[frozen:])[1:]
    wanted = torch.autograd.grad(typed_layers(form, x, weights, _fresh(norms), graph, kinds, gain=0.5).sum(), learnt)
    fixed = [
        TypedWeights(*(tensor if tensor is None else tensor.detach() for tensor in own)) for own in weights[:frozen]
    ] + weights[frozen:]
    found = torch.autograd.grad(
        typed_layers(form, x.detach(), fixed, _fresh(norms), graph, kinds, gain=0.5).sum(), learnt
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("kind", FORMS)
def test_autocast_leaves_layers_in_float32(kind, normed, bias):
    form, graph, kinds, x, weights, norms = _stack(torch.float32, 5, normed=normed, form=kind)
    weights = weights if bias else [own._replace(bias=None) for own in weights]
    wanted = typed_layers(form, x, weights, _fresh(norms), graph, kinds, gain=0.5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = typed_layers(form, x, weights, _fresh(norms), graph, kinds, gain=0.5)
        assert (
            typed_layer(form, x, weights[0]._replace(norm_weight=None, norm_bias=None), graph, kinds).dtype is x.dtype
        )
    torch.testing.assert_close(found, wanted)


def test_pairs_with_an_offset_and_scales_with_gaps():
    """What no kernel has is computed in plain torch: an offset cancels in a softmax, and strides do not count."""
    form, graph, kinds, x, (own, *_), _ = _stack(torch.float64, 5, form=TypedPairs, normed=False)
    offset = torch.randn(HEADS, dtype=torch.float64)
    wanted = typed_layer(form, x, own, graph, kinds)
    torch.testing.assert_close(typed_layer(form, x, own._replace(offset=offset), graph, kinds), wanted)
    form, graph, kinds, x, (own, *_), _ = _stack(torch.float64, 33, form=TypedSigned, normed=False)
    gaps = TypedSigned(torch.stack([form.scale, torch.full_like(form.scale, torch.nan)], 1)[:, 0])
    torch.testing.assert_close(typed_layer(gaps, x, own, graph, kinds), typed_layer(form, x, own, graph, kinds))


@pytest.mark.parametrize("kind", FORMS)
def test_no_nodes(kind):
    form, _, kinds, x, weights, norms = _stack(torch.float32, 5, form=kind)
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0)
    norms = [norm._replace(training=False) for norm in norms]
    form = TypedSigned(form.scale[:0]) if kind is TypedSigned else form
    assert typed_layers(form, x[:0], weights, norms, empty, kinds[:0], gain=0.5).shape == (0, 5)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", FORMS)
def test_the_kernels_compute(kind, monkeypatch):
    form, graph, kinds, x, weights, norms = _stack(torch.float32, 33, form=kind)
    monkeypatch.setattr(_typed_layers, "_by_parts", None)
    typed_layers(form, x, weights, norms, graph, kinds, gain=0.5).sum().backward()
    with pytest.raises(TypeError, match="not callable"), use_reference():
        typed_layers(form, x, weights, norms, graph, kinds, gain=0.5)
