"""What comes between layers, the softmax over neighbours, layers on typed edges: the kernels against plain torch."""

import pytest
import torch
from torch.nn import functional as F

from graphs import random_edges
from mimogc import Graph
from mimogc.ops import (
    Pairs,
    TypedGate,
    TypedPairs,
    TypedSigned,
    TypedWeights,
    activate,
    edge_softmax,
    pair_scores,
    propagate,
    typed_layer,
    use_reference,
)

NODES, TYPES = 30, 3
DTYPES = [torch.float32, torch.float64]
FORMS = [TypedGate, TypedSigned, TypedPairs]


def _compare(compute, inputs, dtype):
    """Values, gradients and second gradients of `compute(*inputs)` with the kernels and in plain torch."""

    def derivatives():
        outs = [value for value in compute() if value is not None]
        signs = [torch.arange(1, value.numel() + 1, dtype=dtype).view_as(value).sin() for value in outs]
        loss = sum((value.square() * sign).sum() for value, sign in zip(outs, signs, strict=True))
        plain = torch.autograd.grad(loss, inputs, retain_graph=True)
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        return [*outs, *plain, *first, *torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)]

    found = derivatives()
    with use_reference():
        wanted = derivatives()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for one, other in zip(found, wanted, strict=True):
        scale = other.abs().max().clamp(min=1)
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 7, 46])
@pytest.mark.parametrize("joined", ["", "given", "best", "given best"])
def test_activate(dtype, channels, joined):
    torch.manual_seed(0)
    y, given, best = (torch.randn(NODES, channels, dtype=dtype, requires_grad=True) for _ in range(3))
    options = {name: value for name, value in (("given", given), ("best", best)) if name in joined}
    _compare(lambda: activate(y, gain=0.3, **options), [y, *options.values()], dtype)


def test_activate_is_what_it_says():
    torch.manual_seed(0)
    y, given, best = (torch.randn(NODES, 5) for _ in range(3))
    out, top = activate(y, given, 0.5, best)
    torch.testing.assert_close(out, given + 0.5 * F.gelu(y))
    torch.testing.assert_close(top, torch.maximum(best, out), rtol=0, atol=0)
    assert activate(y)[1] is None
    with pytest.raises(
        ValueError, match=r"best: expected torch.float32 \[30, 5\] on cpu like y, got torch.float32 \[5\]"
    ):
        activate(y, best=torch.zeros(5))


def test_one_output_alone_has_gradients():
    y, best = torch.randn(NODES, 5, requires_grad=True), torch.randn(NODES, 5)
    for number in (0, 1):
        found = torch.autograd.grad(activate(y, best=best)[number].sum(), y)[0]
        with use_reference():
            wanted = torch.autograd.grad(activate(y, best=best)[number].sum(), y)[0]
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_nan_stays():
    nan = torch.full((1, 3), torch.nan)
    one = torch.ones(1, 3)
    assert activate(nan, best=one)[1].isnan().all()
    assert activate(one, best=nan)[1].isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [1, 3, 4, 6])
def test_softmax(dtype, heads):
    torch.manual_seed(0)
    graph = Graph.from_edge_index(random_edges(NODES, 90), NODES)  # some nodes have no edges
    score = (30 * torch.randn(graph.num_edges, heads, dtype=dtype)).requires_grad_()
    _compare(lambda: [edge_softmax(score, graph)], [score], dtype)


def _typed(dtype):
    torch.manual_seed(0)
    graph = Graph.from_edge_index(random_edges(NODES, 90), NODES, add_self_loops=True)
    kinds = torch.randint(0, TYPES, (graph.num_edges,))

    def random(*shape):
        return (0.3 * torch.randn(shape, dtype=dtype)).requires_grad_()

    return graph, kinds, random


def _weights(form, random, heads, channels, features=40, bias=True, offset=True):
    """Of a layer of this form."""
    att = {TypedGate: (2 * heads, heads * channels), TypedSigned: (2 * heads, features), TypedPairs: (heads, channels)}
    scores = random(TYPES, heads * channels if form is TypedPairs else heads)
    more = random(channels) if bias else None, random(heads) if offset and form is not TypedPairs else None
    return TypedWeights(
        random(heads * channels, features), random(*att[form]), scores, random(TYPES * heads, channels), *more
    )


def _form(kind, dtype, nodes=NODES):
    return kind(torch.rand(nodes, dtype=dtype)) if kind is TypedSigned else kind(0.2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [1, 4, 6])
@pytest.mark.parametrize("channels", [3, 16, 46])
@pytest.mark.parametrize("kind", FORMS)
def test_layer_with_types(kind, dtype, heads, channels):
    graph, kinds, random = _typed(dtype)
    for more in (True, False):
        x, own = random(NODES, 40), _weights(kind, random, heads, channels, bias=more, offset=more)
        form, inputs = _form(kind, dtype), [x, *(value for value in own if value is not None)]
        _compare(lambda form=form, x=x, own=own: [typed_layer(form, x, own, graph, kinds)], inputs, dtype)


@pytest.mark.parametrize("kind", FORMS)
def test_no_edges_have_no_types(kind):
    _, kinds, random = _typed(torch.float64)
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), NODES)
    x, own = random(NODES, 40), _weights(kind, random, 4, 33, offset=False)
    torch.use_deterministic_algorithms(True)  # fills what nobody writes with NaN
    try:
        out = typed_layer(_form(kind, torch.float64), x, own, graph, kinds[:0])
        grads = torch.autograd.grad(out.sum(), [x, *own[:4]])
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(out, own.bias.expand(NODES, 33))
    for grad in grads:
        torch.testing.assert_close(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("kind", FORMS)
def test_kinds_are_checked(kind):
    graph, kinds, random = _typed(torch.float32)
    x, own, form = random(NODES, 40), _weights(kind, random, 4, 5), _form(kind, torch.float32)
    with pytest.raises(ValueError, match=r"kinds: expected int64 \["):
        typed_layer(form, x, own, graph, kinds[1:])
    with pytest.raises(IndexError, match="kinds: expected types 0 to 2, got 3"):
        typed_layer(form, x, own, graph, kinds + 1)


@pytest.mark.parametrize("kind", FORMS)
def test_what_changed_before_backward_is_refused(kind):
    graph, kinds, random = _typed(torch.float32)
    form = _form(kind, torch.float32)
    out = typed_layer(form, random(NODES, 40), _weights(kind, random, 4, 33), graph, kinds)
    for changed in (kinds, form.scale):
        if changed is not None:
            changed.add_(1_000_000)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward(retain_graph=True)
            changed.sub_(1_000_000)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", FORMS)
def test_types_on_several_threads(kind, threads):
    """Large enough for a parallel region, with a hub; the same bits every time."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        _, _, random = _typed(torch.float64)
        sources = torch.randint(0, 300, (3000,))
        targets = torch.where(torch.rand(3000) < 0.2, 7, torch.randint(0, 300, (3000,)))
        graph = Graph.from_edge_index(torch.stack([sources, targets]), 300)
        kinds = torch.randint(0, TYPES, (graph.num_edges,))
        x, own, form = random(300, 40), _weights(kind, random, 4, 33), _form(kind, torch.float64, 300)
        inputs = [x, *(value for value in own if value is not None)]

        def run():
            out = typed_layer(form, x, own, graph, kinds)
            return [out, *torch.autograd.grad(out.square().sum(), inputs)]

        found, again = run(), run()
        with use_reference():
            wanted = run()
        for one, other, expected in zip(found, again, wanted, strict=True):
            assert torch.equal(one, other)
            torch.testing.assert_close(one, expected)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("scale", [None, 0.5, torch.ones(NODES - 1), torch.ones(NODES).double()], ids=str)
def test_a_scale_that_does_not_fit(scale):
    graph, kinds, random = _typed(torch.float32)
    x, own = random(NODES, 40), _weights(TypedSigned, random, 1, 33)
    with pytest.raises((TypeError, ValueError), match="scale: expected"):
        typed_layer(TypedSigned(scale), x, own, graph, kinds)


def test_what_is_no_form():
    graph, kinds, random = _typed(torch.float32)
    x, own = random(NODES, 40), _weights(TypedGate, random, 1, 33)
    with pytest.raises(TypeError, match="form: expected a TypedGate, TypedPairs or TypedSigned, got str"):
        typed_layer("lmgc", x, own, graph, kinds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [4, 8, 9, 16, 17, 33])
def test_an_infinite_feature_stays_where_it_is(dtype, channels):
    """Also where it lies beside the last channels, in the vector that overlaps the one before."""
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 1], [2, 2, 0]]), 3)
    ones = torch.ones(3, 1, channels, dtype=dtype)
    kinds = torch.where((graph.src == 1) & (graph.dst == 2), 1, 0)
    for place in range(channels):
        table = torch.zeros(2, 1, channels, dtype=dtype)
        table[1, 0, place] = -torch.inf  # switches the edge off
        messages = torch.zeros(2, channels, dtype=dtype)
        own = TypedWeights(torch.eye(channels, dtype=dtype), ones[0], table.flatten(1), messages)
        out = typed_layer(TypedPairs(), ones[:, 0], own, graph, kinds)
        torch.testing.assert_close(out[2], ones[0, 0])
        x = ones.clone()
        x[1, 0, place] = torch.inf
        scores = pair_scores(x, x, ones[0], graph)
        torch.testing.assert_close(scores[graph.src == 1], torch.full((2, 1), torch.inf, dtype=dtype))
        alpha = torch.ones(3, 1, dtype=dtype, requires_grad=True)
        (grad,) = torch.autograd.grad(propagate(alpha, x, graph).sum(), alpha)
        assert grad[graph.src == 1].isinf().all()
        assert not grad.isnan().any()


def test_zeros_without_memory():
    """Autograd makes such gradients."""
    graph, kinds, random = _typed(torch.float32)
    h, att, alpha = random(NODES, 4, 9), random(4, 9), random(graph.num_edges, 4)
    outs = [
        *(
            typed_layer(
                _form(kind, torch.float32), h.flatten(1), _weights(kind, random, 4, 33, features=36), graph, kinds
            )
            for kind in FORMS
        ),
        pair_scores(h, h, att, graph),
        propagate(alpha, h, graph),
    ]
    for out in outs:
        (grad,) = torch.autograd.grad(out, h, torch._efficientzerotensor(out.shape), retain_graph=True)
        assert not grad.any()
    (grad,) = torch.autograd.grad(edge_softmax(alpha, graph), alpha, torch._efficientzerotensor(alpha.shape))
    assert not grad.any()
    assert torch.equal(edge_softmax(torch._efficientzerotensor(alpha.shape), graph), edge_softmax(alpha * 0, graph))


@pytest.mark.kernels  # plain torch reads them, and crashes
def test_freed_numbers_are_refused():
    graph, _, random = _typed(torch.float32)
    h, freed = random(NODES, 4, 9), torch.randn(graph.num_edges, 4)
    scores = pair_scores(h, h, random(4, 9), graph)
    freed.untyped_storage().resize_(0)
    for compute in (
        lambda: edge_softmax(freed, graph),
        lambda: propagate(freed, h, graph),
        lambda: torch.autograd.grad(scores, h, freed),
    ):
        with pytest.raises(RuntimeError, match=r"expected tensors with memory|storage|bounds"):
            compute()


def test_no_graphs_and_numbers_that_are_tensors_are_refused():
    graph, kinds, random = _typed(torch.float32)
    own = _weights(TypedPairs, random, 4, 9)
    nothing = own._replace(weight=own.weight[:0], att=own.att[:0], scores=own.scores[:, :0], messages=own.messages[:0])
    with pytest.raises(ValueError, match=r"att, scores: expected those of at least one graph, got shapes \["):
        typed_layer(TypedPairs(), random(NODES, 40), nothing, graph, kinds)
    for form in (TypedPairs, TypedGate):
        with pytest.raises(TypeError, match="slope: expected a number, got Tensor"):
            form(torch.tensor(0.2))
    with pytest.raises(TypeError, match="slope: expected a number, got Tensor"):
        Pairs(torch.tensor(0.2))
    assert not propagate(random(graph.num_edges, 0), random(NODES, 0, 9), graph).any()
