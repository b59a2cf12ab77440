"""propagate, propagate_tanh, lmgc: equal to the plain-torch specification, in values and in both derivatives."""

import importlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from graphs import AWKWARD, INTERPRETED, awkward, edge_lists, random_edges
from mimogc import Graph
from mimogc.ops import (
    Settings,
    Weights,
    _layers,
    _native_layers,
    _thresholds,
    at_sources,
    at_targets,
    backend,
    edge_softmax,
    lmgc,
    lmgcs,
    pair_scores,
    propagate,
    propagate_tanh,
    reference,
    separable_alpha,
    sum_at_targets,
    use_reference,
)

DTYPES = [torch.float32, torch.float64]
# (K, C): below, at, above and between multiples of every vector width, and more graphs than one tile takes
WIDTHS = [
    (1, 1),
    (4, 1),
    (1, 3),
    (2, 4),
    (4, 8),
    (3, 9),
    (4, 16),
    (5, 17),
    (7, 31),
    (4, 64),
    (8, 33),
    (4, 130),
    (2, 257),
    (6, 70),
    (5, 133),
]
EXAMPLES = 3 if INTERPRETED else 40
if INTERPRETED:
    WIDTHS = [(1, 1), (4, 1), (3, 9), (4, 64), (5, 133)]


def _random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def _assert_same(function, expected, inputs, dtype, slack=1):
    """Same value, and same gradient to every input, up to rounding."""
    inputs = [value for value in inputs if value is not None]
    rtol, atol = (1e-4, 2e-5) if dtype == torch.float32 else (1e-10, 1e-11)
    tolerance = {"rtol": slack * rtol, "atol": slack * atol}
    found, wanted = function(), expected()
    torch.testing.assert_close(found, wanted, **tolerance)
    weight = torch.randn(wanted.shape, dtype=wanted.dtype)
    found = torch.autograd.grad(found, inputs, weight)
    wanted = torch.autograd.grad(wanted, inputs, weight)
    for one, other in zip(found, wanted, strict=True):
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(one / scale, other / scale, **tolerance)


def _check_propagate(graph, heads, channels, dtype):
    alpha, h = (_random(graph.num_edges, heads, dtype=dtype), _random(graph.num_src, heads, channels, dtype=dtype))
    for reduce in ("sum", "none"):
        _assert_same(
            lambda reduce=reduce: propagate(alpha, h, graph, reduce),
            lambda reduce=reduce: reference.propagate(alpha, h, graph, reduce),
            (alpha, h),
            dtype,
        )


def _check_tanh(graph, heads, channels, dtype, with_edges, slack=1):
    s, t = _random(graph.num_dst, heads, dtype=dtype), _random(graph.num_src, heads, dtype=dtype)
    h = _random(graph.num_src, heads, channels, dtype=dtype)
    edge = _random(graph.num_edges, heads, dtype=dtype) if with_edges else None
    _assert_same(
        lambda: propagate_tanh(s, t, h, graph, edge),
        lambda: reference.propagate_tanh(s, t, h, edge, graph),
        (s, t, h, edge),
        dtype,
        slack,
    )


def _check_layer(graph, heads, channels, width, dtype, with_edges=True):
    x = _random(graph.num_nodes, width, dtype=dtype)
    weight = (torch.randn(heads * channels, width, dtype=dtype) / width**0.5).requires_grad_()
    att = (torch.randn(2 * heads, heads * channels, dtype=dtype) / (heads * channels) ** 0.5).requires_grad_()
    bias = _random(channels, dtype=dtype)
    edge = _random(graph.num_edges, heads, dtype=dtype) if with_edges else None
    given_offset = _random(heads, dtype=dtype)

    def layer(act, offset):
        return lmgc(x, weight, att, graph, 0.1, edge, bias, act, offset)

    def expected(act, offset):
        with use_reference():
            return layer(act, offset)

    forms = ((None, None), (None, given_offset), ("gelu", given_offset))
    for form in forms[-1:] if INTERPRETED else forms:
        inputs = (x, weight, att, edge, bias, form[1])
        _assert_same(lambda form=form: layer(*form), lambda form=form: expected(*form), inputs, dtype)
        # the gradient then arrives column by column
        _assert_same(lambda form=form: layer(*form).t(), lambda form=form: expected(*form).t(), inputs, dtype)


def _check_pairs(graph, heads, channels, dtype):
    source = _random(graph.num_src, heads, channels, dtype=dtype)
    target, att = _random(graph.num_dst, heads, channels, dtype=dtype), _random(heads, channels, dtype=dtype)
    _assert_same(
        lambda: pair_scores(source, target, att, graph, 0.3),
        lambda: reference.pair_scores(source, target, att, 0.3, graph),
        (source, target, att),
        dtype,
    )
    edge, weight = _random(graph.num_edges, 3, dtype=dtype), _random(heads, channels, 3, dtype=dtype)
    _assert_same(
        lambda: pair_scores(source, target, att, graph, 0.3, edge, weight),
        lambda: reference.pair_scores(source, target, att, 0.3, graph, edge, weight),
        (source, target, att, edge, weight),
        dtype,
    )


def _check_ends(graph, heads, dtype):
    source, target = _random(graph.num_src, heads, dtype=dtype), _random(graph.num_dst, heads, dtype=dtype)
    edge = _random(graph.num_edges, heads, dtype=dtype)
    _assert_same(lambda: at_sources(source, graph), lambda: source[graph.src], (source,), dtype)
    _assert_same(lambda: at_targets(target, graph), lambda: target[graph.dst], (target,), dtype)
    nothing = torch.zeros(graph.num_dst, heads, dtype=dtype)
    _assert_same(lambda: sum_at_targets(edge, graph), lambda: nothing.index_add(0, graph.dst, edge), (edge,), dtype)
    _assert_same(
        lambda: separable_alpha(target, source, edge, graph),
        lambda: reference.separable_alpha(target, source, edge, graph),
        (target, source, edge),
        dtype,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "channels"), WIDTHS)
def test_every_width(heads, channels, dtype):
    graph = Graph.from_edge_index(random_edges(13, 60), 13)
    _check_propagate(graph, heads, channels, dtype)
    _check_tanh(graph, heads, channels, dtype, with_edges=channels % 2 == 0)
    for width in (6,) if INTERPRETED else (6, 45):  # with torch's products, and from 32 on with those of the kernel
        _check_layer(graph, heads, channels, width, dtype)
    _check_pairs(graph, heads, channels, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_graphs(name, dtype):
    nodes, edge_index = awkward(name)
    graph = Graph.from_edge_index(edge_index, nodes)
    _check_propagate(graph, 3, 9, dtype)
    _check_tanh(graph, 3, 9, dtype, with_edges=True)
    for channels, width in ((9, 4), (12, 33))[INTERPRETED:]:
        _check_layer(graph, 3, channels, width, dtype)
    _check_pairs(graph, 3, 9, dtype)
    _check_ends(graph, 3, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=EXAMPLES)
@given(case=edge_lists(), heads=st.integers(1, 5), channels=st.integers(1, 20))
def test_any_graph(dtype, case, heads, channels):
    nodes, edge_index = case
    graph = Graph.from_edge_index(edge_index, nodes)
    _check_propagate(graph, heads, channels, dtype)
    _check_tanh(graph, heads, channels, dtype, with_edges=True)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=40)
@given(case=edge_lists(), heads=st.integers(1, 5), channels=st.integers(7, 20), width=st.integers(30, 70))
def test_any_graph_with_the_kernels_products(dtype, case, heads, channels, width):
    nodes, edge_index = case
    _check_layer(Graph.from_edge_index(edge_index, nodes), heads, channels, width, dtype)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nodes", [6, 47, 48, 49, 200])
@pytest.mark.parametrize("degree", [3, 20])
def test_the_kernels_products_for_any_number_of_rows(nodes, degree, dtype):
    assert _native_layers.multiplies(torch.empty(36, 40))
    assert not _native_layers.multiplies(torch.empty(36, 31))
    assert 3 < _thresholds.MANY_EDGES < 20  # the gradient to h is made where it is used, or kept
    _check_layer(Graph.from_edge_index(random_edges(nodes, degree * nodes), nodes), 4, 9, 40, dtype)


@pytest.mark.kernels
@pytest.mark.parametrize("needed", itertools.product([False, True], repeat=4))
def test_only_the_gradients_that_are_needed(needed):
    graph = Graph.from_edge_index(random_edges(13, 60), 13)
    shapes = (13, 40), (36, 40), (9,), (4,)
    x, weight, bias, offset = (_random(*shape).requires_grad_(need) for shape, need in zip(shapes, needed, strict=True))
    att = _random(8, 36)
    found = lmgc(x, weight, att, graph, bias=bias, offset=offset)
    with use_reference():
        wanted = lmgc(x, weight, att, graph, bias=bias, offset=offset)
    inputs = [value for value in (x, weight, bias, offset, att) if value.requires_grad]
    for one, other in zip(
        torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(wanted.sum(), inputs), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (propagate, {"alpha": (60, 3), "h": (13, 3, 5)}),
        (propagate_tanh, {"s": (13, 3), "t": (13, 3), "h": (13, 3, 5), "edge": (60, 3)}),
        (pair_scores, {"source": (13, 3, 5), "target": (13, 3, 5), "att": (3, 5)}),
        (
            pair_scores,
            {"source": (13, 3, 5), "target": (13, 3, 5), "att": (3, 5), "edge": (60, 2), "weight": (3, 5, 2)},
        ),
        (lmgc, {"x": (13, 6), "weight": (36, 6), "att": (8, 36), "edge": (60, 4), "bias": (9,)}),
        (lmgc, {"x": (13, 40), "weight": (36, 40), "att": (8, 36), "edge": (60, 4), "bias": (9,), "offset": (4,)}),
    ],
)
def test_tensors_that_are_not_contiguous(function, shapes):
    graph = Graph.from_edge_index(random_edges(13, 60), 13)
    spread = {name: _random(*shape, 2) for name, shape in shapes.items()}
    inputs = list(spread.values())

    def derivatives(contiguous):
        given = {name: value.select(-1, 0) for name, value in spread.items()}
        given = {name: value.contiguous() for name, value in given.items()} if contiguous else given
        out = function(**given, graph=graph)
        plain = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)
        return [out, *plain, *first, *second]

    for one, other in zip(derivatives(True), derivatives(False), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bipartite(dtype):
    edge_index = torch.stack([random_edges(11, 30)[0], random_edges(4, 30, seed=1)[1]])
    graph = Graph.from_edge_index(edge_index, (11, 4))
    _check_propagate(graph, 4, 10, dtype)
    _check_tanh(graph, 4, 10, dtype, with_edges=True)
    _check_pairs(graph, 4, 10, dtype)
    _check_ends(graph, 4, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_hub_with_100_000_edges(dtype):
    leaves = 1000 if INTERPRETED else 100_000
    spokes = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
    graph = Graph.from_edge_index(torch.cat([spokes, spokes.flip(0)[:, :50]], dim=1), leaves + 1)
    alpha = torch.ones(graph.num_edges, 2, dtype=dtype)
    h = torch.ones(graph.num_nodes, 2, 8, dtype=dtype)
    out = propagate(alpha, h, graph)
    assert torch.equal(out[0], torch.full((8,), 2.0 * leaves, dtype=dtype))
    assert float(out[1:].sum()) == 50 * 2 * 8
    # Sums of so many terms of both signs lose a digit more.
    _check_tanh(graph, 2, 8, dtype, with_edges=False, slack=10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_orders_of_the_layer_agree(dtype, monkeypatch):
    graph = Graph.from_edge_index(random_edges(50, 400), 50)
    monkeypatch.setattr(_thresholds, "CACHE_BYTES", 0)
    assert _layers._narrow(graph, torch.empty(50, 33), torch.empty(4 * 35, 33), 4)
    assert not _layers._narrow(graph, torch.empty(50, 33), torch.empty(4 * 31, 33), 4)  # too few channels
    used = {"native": (_native_layers, "narrow_layer"), "triton": ("mimogc.ops._triton", "tanh_spread")}
    module, name = used.get(backend(torch.get_default_device()), (None, ""))
    calls = []
    if module is not None:
        module = importlib.import_module(module) if isinstance(module, str) else module
        narrow = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: calls.append(name) or narrow(*given))
    for with_edges in (False, True):
        _check_layer(graph, 4, 35, 33, dtype, with_edges)
        _check_layer(graph, 5, 32, 40, dtype, with_edges)
    assert module is None or len(calls) >= 4  # the specification has one order


def test_first_and_second_derivatives_against_finite_differences():
    graph = Graph.from_edge_index(random_edges(5, 9), 5)
    alpha, h = _random(9, 3), _random(5, 3, 2)
    s, t, edge = _random(5, 3), _random(5, 3), _random(9, 3)
    x, weight, att, bias, offset = _random(5, 3), _random(6, 3), _random(6, 6), _random(2), _random(3)
    cases = [
        (lambda alpha, h: propagate(alpha, h, graph), (alpha, h)),
        (lambda alpha, h: propagate(alpha, h, graph, reduce="none"), (alpha, h)),
        (lambda s, t, h, edge: propagate_tanh(s, t, h, graph, edge), (s, t, h, edge)),
        (lambda source, target, att: pair_scores(source, target, att, graph), (h, _random(5, 3, 2), _random(3, 2))),
        (
            lambda source, target, att, edge, weight: pair_scores(source, target, att, graph, 0.2, edge, weight),
            (h, _random(5, 3, 2), _random(3, 2), _random(9, 2), _random(3, 2, 2)),
        ),
        (lambda s, t, edge: separable_alpha(s, t, edge, graph), (s, t, edge)),
        (lambda edge: sum_at_targets(edge, graph).sin(), (edge,)),
        (lambda score: edge_softmax(score, graph), (alpha,)),
        (lambda x, weight, att, edge, bias: lmgc(x, weight, att, graph, 0.2, edge, bias), (x, weight, att, edge, bias)),
        (
            lambda x, weight, att, bias, offset: lmgc(x, weight, att, graph, 0.2, None, bias, "gelu", offset),
            (x, weight, att, bias, offset),
        ),
    ]
    for function, inputs in cases:
        assert gradcheck(function, inputs, fast_mode=INTERPRETED)
        assert gradgradcheck(function, inputs, fast_mode=INTERPRETED)


def test_only_the_gradients_asked_for():
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    alpha, h = _random(14, 2), _random(6, 2, 3)
    out = propagate(alpha.detach(), h, graph).sum()
    (grad,) = torch.autograd.grad(out, h)
    expected = torch.autograd.grad(reference.propagate(alpha, h, graph, "sum").sum(), h)[0]
    torch.testing.assert_close(grad, expected)
    out = propagate(alpha, h.detach(), graph).sum()
    (grad,) = torch.autograd.grad(out, alpha)
    torch.testing.assert_close(grad, torch.autograd.grad(reference.propagate(alpha, h, graph, "sum").sum(), alpha)[0])


def test_non_contiguous_input():
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    alpha, h = torch.randn(3, 14).t(), torch.randn(4, 3, 6).permute(2, 1, 0)
    s, t = torch.randn(3, 6).t(), torch.randn(6, 6)[:, ::2]
    torch.testing.assert_close(propagate(alpha, h, graph), reference.propagate(alpha, h, graph, "sum"))
    torch.testing.assert_close(propagate_tanh(s, t, h, graph), reference.propagate_tanh(s, t, h, None, graph))
    h.requires_grad_()
    grad_out = torch.randn(4, 6).t()
    found = torch.autograd.grad(propagate(alpha, h, graph), h, grad_out)[0]
    torch.testing.assert_close(found, torch.autograd.grad(reference.propagate(alpha, h, graph, "sum"), h, grad_out)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_types_of_16_bits(dtype):
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    alpha, h = torch.randn(14, 2).to(dtype), torch.randn(6, 2, 3).to(dtype)
    out = propagate(alpha, h, graph)
    assert out.dtype == dtype
    if backend(h.device) == "triton":  # sums are made in float32
        torch.testing.assert_close(out, reference.propagate(alpha.float(), h.float(), graph, "sum").to(dtype))
    else:
        torch.testing.assert_close(out, reference.propagate(alpha, h, graph, "sum"))


def test_autocast_computes_in_float32():
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    alpha, h = torch.randn(14, 2), torch.randn(6, 2, 3)
    with torch.autocast(h.device.type, dtype=torch.bfloat16):
        out = propagate(alpha.bfloat16(), h, graph)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, reference.propagate(alpha.bfloat16().float(), h, graph, "sum"))


def test_nan_and_infinity_go_where_they_must():
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    for channels in (1, 5, 16, 19):
        h = torch.ones(3, 4, channels)
        h[0, 1, channels // 2] = torch.nan
        h[1, 2, -1] = torch.inf
        alpha = torch.ones(3, 4)
        torch.testing.assert_close(
            propagate(alpha, h, graph), reference.propagate(alpha, h, graph, "sum"), equal_nan=True
        )
        alpha.requires_grad_()
        h.requires_grad_()
        found = torch.autograd.grad(propagate(alpha, h, graph).sum(), (alpha, h))
        wanted = torch.autograd.grad(reference.propagate(alpha, h, graph, "sum").sum(), (alpha, h))
        torch.testing.assert_close(found, wanted, equal_nan=True)
        s = torch.tensor([[torch.nan, 0, 20, -20], [torch.inf, -torch.inf, 9.0, 8.9], [0, 1e-20, 1e-3, -1e30]])
        ones = torch.ones(3, 4, channels)
        torch.testing.assert_close(
            propagate_tanh(s, torch.zeros(3, 4), ones, graph),
            reference.propagate_tanh(s, torch.zeros(3, 4), ones, None, graph),
            equal_nan=True,
        )


def test_tanh_of_the_kernels():
    # one graph i → i with h = 1: the output is the coefficient itself
    count = 2001 if INTERPRETED else 100_001
    score = torch.cat([torch.linspace(-12, 12, count), torch.logspace(-30, 0, 1001)])
    nodes = torch.arange(score.numel())
    graph = Graph.from_edge_index(torch.stack([nodes, nodes]))
    zero = torch.zeros(score.numel(), 1)
    found = propagate_tanh(score.view(-1, 1), zero, torch.ones(score.numel(), 1, 1), graph).flatten()
    assert float(found.abs().max()) <= 1.0
    exact = torch.tanh(score.double())
    error = ((found.double() - exact).abs() / exact.abs().clamp(min=1e-38)).max()
    assert float(error) < 4e-7


def _activated_bias(bias):
    """lmgc on one node without edges: the output is the activated bias."""
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1)
    nothing = torch.zeros(1, 1), torch.zeros(bias.numel(), 1), torch.zeros(2, bias.numel())
    return lmgc(*(value.to(bias.dtype) for value in nothing), graph, bias=bias, act="gelu")[0]


def test_gelu_of_the_kernels():
    special = torch.tensor([torch.nan, -1e30, 1e30, 0.0])
    bias = torch.cat([torch.linspace(-20, 20, 100_001), special]).requires_grad_()
    found = _activated_bias(bias)
    (slope,) = torch.autograd.grad(found.sum(), bias)
    exact = bias.detach().double().requires_grad_()
    wanted = torch.nn.functional.gelu(exact)
    (wanted_slope,) = torch.autograd.grad(wanted.sum(), exact)
    # Elsewhere it is torch's GELU, which on some processors has a digit less.
    error = 5e-7 if backend(torch.get_default_device()) == "native" else 2e-6
    torch.testing.assert_close(found.double(), wanted, rtol=2e-7, atol=error, equal_nan=True)
    finite = exact.isfinite()
    torch.testing.assert_close(slope.double()[finite], wanted_slope[finite], rtol=0, atol=error)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_of_the_kernels_at_infinity(dtype):
    # Not compared with torch, whose GELU there depends on the processor: x Φ(x) is ∞ · 1, and −∞ · 0 has no value.
    above, below = _activated_bias(torch.tensor([torch.inf, -torch.inf], dtype=dtype))
    assert float(above) == torch.inf
    assert bool(below.isnan())


@pytest.mark.kernels
def test_more_than_two_to_the_31_coefficients():
    # α is E × K with E·K > 2³¹; pages of zeros that are only read cost no memory
    heads, nodes = 2**12, 16
    edges = 2**31 // heads + 8
    alpha = torch.from_numpy(np.zeros((edges, heads), dtype=np.float32))
    graph = Graph.from_edge_index(random_edges(nodes, edges), nodes)
    h = torch.zeros(nodes, heads, 1)
    alpha[-1, -1] = 3.0
    h[int(graph.src[-1]), -1] = 2.0
    for reduce in ("sum", "none"):
        out = propagate(alpha, h, graph, reduce)
        assert float(out.sum()) == 6.0
        assert float(out[int(graph.dst[-1])].sum()) == 6.0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"alpha": torch.ones(13, 2)}, ValueError, r"alpha: expected shape \[14, K\], got \[13, 2\]"),
        ({"alpha": torch.ones(14)}, ValueError, "alpha: expected shape"),
        ({"alpha": torch.ones(14, 2, dtype=torch.long)}, TypeError, "alpha: expected a floating type, got torch.int64"),
        ({"alpha": [[1.0]]}, TypeError, "alpha: expected a tensor, got list"),
        ({"h": torch.ones(6, 3, 4)}, ValueError, r"h: expected shape \[6, 2, C\], got \[6, 3, 4\]"),
        ({"h": torch.ones(5, 2, 4)}, ValueError, "h: expected shape"),
        ({"h": torch.ones(6, 2, 4, dtype=torch.float64)}, TypeError, "h: expected torch.float32 like alpha"),
        ({"h": torch.ones(6, 2, 4, device="meta")}, ValueError, "h: expected device .* like the graph, got meta"),
        ({"reduce": "max"}, ValueError, "reduce: expected 'sum' or 'none', got 'max'"),
    ],
)  # fmt: skip
def test_bad_arguments_of_propagate_are_named(change, error, message):
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    arguments = {"alpha": torch.ones(14, 2), "h": torch.ones(6, 2, 4), "graph": graph, "reduce": "sum"}
    with pytest.raises(error, match=message):
        propagate(**(arguments | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.ones(8, 4)}, r"weight: expected shape \[K·C, 3\], got \[8, 4\]"),
        ({"att": torch.ones(4, 7)}, r"att: expected shape \[2K, 8\], got \[4, 7\]"),
        ({"att": torch.ones(3, 8)}, "att: expected shape"),
        ({"att": torch.ones(6, 8)}, "att: expected shape"),
        ({"att": torch.ones(0, 8)}, r"att: expected shape \[2K, K·C\] with K·C = 8, got \[0, 8\]"),
        ({"edge": torch.ones(14, 3)}, r"edge: expected shape \[14, 2\], got \[14, 3\]"),
        ({"bias": torch.ones(5)}, r"bias: expected shape \[4\], got \[5\]"),
        ({"offset": torch.ones(4)}, r"offset: expected shape \[2\], got \[4\]"),
        ({"x": torch.ones(7, 3)}, r"x: expected shape \[6, F\], got \[7, 3\]"),
        ({"act": "relu"}, "act: expected 'gelu' or None, got 'relu'"),
    ],
)
def test_bad_arguments_of_lmgc_are_named(change, message):
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    arguments = {"x": torch.ones(6, 3), "weight": torch.ones(8, 3), "att": torch.ones(4, 8), "graph": graph}
    with pytest.raises(ValueError, match=message):
        lmgc(**(arguments | change))


def test_second_derivatives_of_a_tensor_in_two_places():
    """What is given twice, as sources and targets or as the weights of two layers, has both gradients, once each."""
    graph = Graph.from_edge_index(random_edges(12, 40), 12)

    def random(*shape):
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def check(function, *inputs):
        out = function(*inputs)
        plain = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        # The gradients that can be differentiated again are computed in another way: they have to be the same.
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), inputs, create_graph=True), plain)
        gradgradcheck(function, inputs, fast_mode=INTERPRETED)

    def tied(x, weight, vectors):
        own = Weights(weight, vectors, None, None, None)
        return lmgcs(x, [own, own], [Settings(0.2, True)] * 2, graph, None)

    check(lambda h, att: pair_scores(h, h, att, graph), random(12, 2, 3), random(2, 3))
    check(lambda score, h: propagate_tanh(score, score, h, graph), random(12, 2), random(12, 2, 3))
    check(tied, random(12, 3), random(6, 3), random(4, 6))
