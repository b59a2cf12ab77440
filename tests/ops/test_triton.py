"""The Triton kernels: long rows in parts, 16-bit types, every method's laws, and a wrong kernel is found.

Run in the interpreter by `make triton`, on a GPU by `make gpu-test`; the other tests of the operators run there, too.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphs import INTERPRETED, random_edges
from mimogc import Graph, testing
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import BY_NAME
from mimogc.ops import (
    _backends,
    _functions,
    _layers,
    _operators,
    _thresholds,
    backend,
    edge_softmax,
    lmgc,
    pair_scores,
    propagate,
    propagate_tanh,
    reference,
    separable_alpha,
    sum_at_targets,
    use_reference,
)

pytest.importorskip("triton", reason="Triton cannot be imported: the dev extra installs it on Linux only")
if backend(torch.get_default_device()) != "triton":
    pytest.skip("runs with MIMOGC_BACKEND=triton and TRITON_INTERPRET=1, or on a GPU", allow_module_level=True)

import triton
import triton.language as tl

from mimogc.ops._triton import _launch, _sums
from mimogc.ops._triton._items import rows_of

NODES, EDGES = 12, 50
SHAPES = {
    "alpha": (EDGES, 3),
    "h": (NODES, 3, 9),
    "s": (NODES, 3),
    "t": (NODES, 3),
    "edge": (EDGES, 3),
    "target": (NODES, 3, 9),
    "att": (3, 9),
    "x": (NODES, 5),
    "weight": (27, 5),
    "features": (EDGES, 4),
    "map": (3, 9, 4),
    "vectors": (6, 27),
}
OPERATORS = {
    "sum": (("alpha", "h"), lambda graph, *given: propagate(*given, graph)),
    "none": (("alpha", "h"), lambda graph, *given: propagate(*given, graph, "none")),
    "tanh": (("s", "t", "h", "edge"), lambda graph, s, t, h, edge: propagate_tanh(s, t, h, graph, edge)),
    "pairs": (("h", "target", "att"), lambda graph, *given: pair_scores(*given, graph, 0.3)),
    "features": (
        ("h", "target", "att", "features", "map"),
        lambda graph, h, target, att, *edge: pair_scores(h, target, att, graph, 0.3, *edge),
    ),
    "ends": (("s", "t", "alpha"), lambda graph, *given: separable_alpha(*given, graph)),
    "sum at targets": (("alpha",), lambda graph, alpha: sum_at_targets(alpha, graph)),
    "softmax": (("alpha",), lambda graph, *given: edge_softmax(*given, graph)),
    "lmgc": (("x", "weight", "vectors"), lambda graph, *given: lmgc(*given, graph)),
}


@pytest.fixture(autouse=True)
def _only_known_variants(monkeypatch):
    """Whatever is launched is one of those that are compiled ahead of time."""
    known = {_key(each.kernel, each.dtype, each.constants) for each in _launch.variants()}
    original = _launch.launch

    def launch(kernel, items, grid, arguments, **blocks):
        floats = [value.dtype for value in arguments if isinstance(value, torch.Tensor) and value.is_floating_point()]
        dtype = floats[1] if kernel is _launch._items.add_parts else floats[0]
        assert _key(kernel, dtype, blocks) in known
        original(kernel, items, grid, arguments, **blocks)

    monkeypatch.setattr(_launch, "launch", launch)


def _key(kernel, dtype, constants):
    return kernel.fn.__name__, dtype, tuple(sorted((name, str(value)) for name, value in constants.items()))


def _with_hubs():
    """Random edges, and one node with many edges in and out of it."""
    ends = random_edges(NODES, EDGES)
    ends[1, :17], ends[0, 17:34] = 5, 3
    return Graph.from_edge_index(ends, NODES)


def _results(name, graph, dtype, inputs=None):
    names, operator = OPERATORS[name]
    if inputs is None:
        torch.manual_seed(1)
        inputs = [torch.randn(SHAPES[each], dtype=dtype) / 2 for each in names]
    inputs = [value.detach().requires_grad_() for value in inputs]
    out = operator(graph, *inputs)
    torch.manual_seed(2)
    weight = torch.randn(out.shape, dtype=torch.float64).to(out.dtype)
    return inputs, [out.detach(), *torch.autograd.grad(out, inputs, weight)]


@pytest.mark.parametrize("split", [1, 4, 16])
@pytest.mark.parametrize("name", OPERATORS)
def test_long_rows_in_parts(name, split, monkeypatch):
    graph = _with_hubs()
    monkeypatch.setattr(_thresholds, "SPLIT_EDGES", split)
    _, found = _results(name, graph, torch.float64)
    for one, again in zip(found, _results(name, graph, torch.float64)[1], strict=True):
        assert torch.equal(one, again)  # bit by bit
    with use_reference():
        wanted = _results(name, graph, torch.float64)[1]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("spare", [0, 3])
def test_parts_are_the_long_rows(spare):
    graph = _with_hubs()
    number, _ = _launch._numbers_of_parts(graph, 4)
    parts, begin = _launch._parts(graph.rowptr, number + spare, 4)
    degree = graph.in_degree.tolist()
    wanted = []
    for row, first in enumerate(graph.rowptr.tolist()[:-1]):
        if degree[row] > 4:
            edges = range(first, first + degree[row])
            wanted += [(row, edges[at], edges[min(at + 4, len(edges)) - 1] + 1) for at in range(0, len(edges), 4)]
    assert [tuple(each[:3]) for each in parts.tolist() if each[2] > each[1]] == wanted
    assert parts.size(0) - spare == len(wanted) == number <= 2 * graph.num_edges // 4
    for place, (row, _, _) in enumerate(wanted):
        own = [other for other, each in enumerate(wanted) if each[0] == row]
        assert int(begin[place]) == own[0]
        assert int(parts[place, 3]) == (own[-1] + 1 if place == own[0] else 0)


def test_long_rows_are_counted_once_for_all_graphs_with_the_same_edges(monkeypatch):
    """Which waits for the device. With weights that are learnt a layer makes a graph in every call."""
    monkeypatch.setattr(_thresholds, "SPLIT_EDGES", 4)
    counted, count = [], _launch._numbers_of_parts
    monkeypatch.setattr(_launch, "_numbers_of_parts", lambda *given: counted.append(1) or count(*given))
    graph, weight = _with_hubs(), torch.rand(EDGES, requires_grad=True)
    for layer in (LMGConv(4, 4, coefficients="gcn"), LMGConv(4, 4, coefficients="acm", add_self_loops=False)):
        for _ in range(3):
            layer(torch.randn(NODES, 4), graph, edge_weight=weight).sum().backward()
        assert len(counted) == 1
        counted.clear()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPERATORS)
def test_16_bits_are_summed_in_float32(name, dtype, monkeypatch):
    """As close to the exact values as rounding the results alone allows, also over many edges."""
    graph = _with_hubs()
    monkeypatch.setattr(_thresholds, "SPLIT_EDGES", 8)
    inputs, found = _results(name, graph, dtype)
    with use_reference():
        wanted = _results(name, graph, dtype, [value.double() for value in inputs])[1]
    roundings = 8 if name == "lmgc" else 2  # whose products and scores are torch's, in 16 bits
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        error = float((one.double() - other).abs().max() / other.abs().max())
        assert error <= roundings * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_and_more_channels_than_a_block(dtype):
    """The gradients are then made in several steps, and what is between them is not rounded."""
    graph = _with_hubs()
    inputs = [torch.randn(shape).to(dtype) / 2 for shape in ((NODES, 3), (NODES, 3), (NODES, 3, 130), (EDGES, 3))]
    inputs, found = _results("tanh", graph, dtype, inputs)
    with use_reference():
        wanted = _results("tanh", graph, dtype, [value.double() for value in inputs])[1]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        assert float((one.double() - other).abs().max() / other.abs().max()) <= torch.finfo(dtype).eps


LAWS = ("assert_node_equivariant", "assert_edge_equivariant", "assert_operator", "assert_pairwise")


@pytest.mark.parametrize("name", BY_NAME)
def test_laws_of_every_method(name):
    x, edges = torch.randn(7, 4, dtype=torch.float64), random_edges(7, 20)
    layer = LMGConv(4, 4, coefficients=name, add_self_loops=False).double()
    layer(x, edges)
    for law in LAWS[2 * (name == "free") :]:  # free weights belong to the edges in their order
        getattr(testing, law)(layer, x, edges)

    def plain(*given):
        with use_reference():
            return layer(*given)

    testing.assert_equal_layers(layer, plain, x, edges)
    testing.assert_kernel_accuracy(layer, x, edges, factor=8.0)


class _Adds(TorchDispatchMode):
    """The names of torch's operations that add floating numbers into shared places: with atomics on a GPU."""

    NAMES = ("index_add", "index_put", "_index_put_impl", "scatter", "embedding_dense_backward", "put")

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.split("::")[1]
        if name.startswith(self.NAMES) and args[0].dtype.is_floating_point:
            self.seen.append(name)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def seen_by_torch(monkeypatch):
    """The kernels serve although somebody records what torch does around them."""
    kernels = _backends._of(torch.get_default_device().type, torch.float32)
    for module, name in ((_operators, "serving"), (_functions, "serving_gradients"), (_layers, "serving")):
        monkeypatch.setattr(module, name, lambda *given: kernels)


CASES = [(name, "none") for name in BY_NAME] + [(name, "weights") for name in BY_NAME if BY_NAME[name].weighted]
CASES += [(name, "features") for name in ("lmgc", "gat", "gatv2", "fagcn", "gated")]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_nothing_around_the_kernels_adds_with_atomics(name, given, seen_by_torch):
    layer = LMGConv(4, 4, coefficients=name, edge_dim=3 if given == "features" else None, add_self_loops=False)
    x, graph = torch.randn(NODES, 4, requires_grad=True), _with_hubs()
    graph = graph.with_identity() if BY_NAME[name].loops == "identity" else graph
    shape = {"none": None, "weights": (graph.num_edges,), "features": (graph.num_edges, 3)}[given]
    attributes = None if shape is None else torch.rand(shape, requires_grad=True)
    graph = graph.with_attributes(attributes)
    with _Adds() as adds:
        layer(x, graph).square().sum().backward()
    assert adds.seen == []
    assert all(value.grad.abs().sum() > 0 for value in (x, attributes) if value is not None)
    with _Adds() as adds:
        x[graph.src].sum().backward()
    assert adds.seen  # what is looked for is seen


@triton.jit
def _tanh_without_small_numbers(x):
    e = tl.exp(-2.0 * tl.abs(x))
    value = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0.0, -value, value)


@triton.jit
def _rows_without_the_last_edge(ptr, parts, num_rows, num_parts, split, BR: tl.constexpr):
    row, first, last, whole, is_part, part = rows_of(ptr, parts, num_rows, num_parts, split, BR)
    return row, first, tl.where(last > first, last - 1, last), whole, is_part, part


@pytest.mark.skipif(not INTERPRETED, reason="a compiled kernel keeps what it was compiled from")
@pytest.mark.parametrize(
    ("broken", "by"), [("tanh", _tanh_without_small_numbers), ("rows_of", _rows_without_the_last_edge)]
)
def test_a_wrong_kernel_is_found(broken, by, monkeypatch):
    """The comparison that the other tests make, with small scores, fails when one line of a kernel is wrong."""
    graph = _with_hubs()
    s, t = torch.full((NODES, 3), 1e-6), torch.zeros(NODES, 3)
    h = torch.randn(NODES, 3, 9)

    def check():
        found, wanted = propagate_tanh(s, t, h, graph), reference.propagate_tanh(s, t, h, None, graph)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-10)

    check()
    monkeypatch.setattr(_sums, broken, by)
    with pytest.raises(AssertionError, match="not close"):
        check()
