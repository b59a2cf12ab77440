"""What the layers refuse, and the words in which they do."""

from contextlib import suppress

import pytest
import torch

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import GINLayer, LMGConv, PolynomialConv
from mimogc.nn.coefficients import ACM, FAGCN, GAT, GCN, LMGC, Coefficients, Free, Gated, GATv2, NormalizedLMGC, Sheaf
from mimogc.ops import Settings, Weights, backend, lmgcs, propagate


def _case():
    torch.manual_seed(0)
    return torch.randn(12, 5), random_edges(12, 40)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coefficients": "gatv3"}, "coefficients: expected one of lmgc, .* got 'gatv3'"),
        ({"combine": "max"}, "combine: expected one of sum, mean, concat, got 'max'"),
        ({"heads": 0}, "heads: expected a whole number of at least 1, got 0"),
        ({"heads": 2.0}, r"heads: expected a whole number of at least 1, got 2\.0"),
        ({"in_channels": -2}, "in_channels: expected a whole number of at least 1, got -2"),
        ({"in_channels": [5, 5]}, r"in_channels: expected a whole number of at least 1, got \[5, 5\]"),
        ({"edge_dim": 0}, "edge_dim: expected a whole number of at least 1, got 0"),
        ({"coefficients": "gcn", "heads": 2}, "heads: coefficients 'gcn' have exactly 1 computational graph"),
        ({"coefficients": ["gcn"]}, r"coefficients: expected one of lmgc, .* got \['gcn'\]"),
        ({"coefficients": "gcn", "edge_dim": 2}, "edge_dim: expected None, because GCN has no score .* got 2"),
        ({"coefficients": "gated", "combine": "mean"}, "combine: Gated fixes the feature transformations"),
        ({"coefficients": "sheaf", "out_channels": 5}, "stalk_dim: expected a divisor of out_channels=5, got 2"),
        ({"dropout": 1.5}, r"dropout: expected a probability in \[0, 1\), got 1.5"),
        ({"out_channels": 0}, "out_channels: expected a whole number of at least 1, got 0"),
        ({"fill_value": "max"}, "fill_value: expected a number or 'mean', got 'max'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        LMGConv(**({"in_channels": 5, "out_channels": 6} | options))


@pytest.mark.parametrize(
    ("x", "edge_index", "error", "message"),
    [
        (torch.zeros(4, 6), None, ValueError, r"x: expected shape \[N, 5\], got \[4, 6\]"),
        (torch.zeros(4), None, ValueError, r"x: expected shape \[N, 5\], got \[4\]"),
        (torch.zeros(4, 5).to_sparse_csc(), None, TypeError, "x: expected a dense tensor, got torch.sparse_csc"),
        (torch.zeros(4, 5, dtype=torch.long), None, TypeError, "x: expected a floating type, got torch.int64"),
        (torch.zeros(4, 5, dtype=torch.float64), None, TypeError, "x: expected torch.float32 like the layer's weights"),
        (torch.zeros(4, 5, device="meta"), None, ValueError, "x: expected device cpu like the layer"),
        ([[1.0]], None, TypeError, "x: expected a tensor or a pair of tensors, got list"),
        (None, torch.tensor([[0], [4]]), IndexError, r"edge_index: expected every target in 0\.\.3, got 4"),
        (None, torch.tensor([[0.0], [1.0]]), TypeError, "edge_index: expected integers"),
        (None, "graph", TypeError, "edge_index: expected a tensor"),
        (None, torch.zeros(2, 1, dtype=torch.long, device="meta"), ValueError, "edge_index: expected device cpu"),
        (None, Graph.from_edge_index(torch.tensor([[0], [1]]), 3), ValueError, "edge_index: expected a Graph on"),
    ],
)  # fmt: skip
def test_bad_inputs_are_named(x, edge_index, error, message):
    x = torch.zeros(4, 5) if x is None else x
    edge_index = torch.tensor([[0], [1]]) if edge_index is None else edge_index
    with pytest.raises(error, match=message):
        LMGConv(5, 6)(x, edge_index)


@pytest.mark.parametrize(
    "coefficients",
    [GCN(), ACM(), Free(), Sheaf(5, 6), Gated(5, 6), GATv2(5, 6), GATv2(5, 6, edge_dim=2)],
    ids=lambda each: type(each).__name__,
)
def test_a_module_that_would_ignore_edge_features_is_refused(coefficients):
    with pytest.raises(ValueError, match=r"edge_dim: expected (None|2), .* got 3"):
        LMGConv(5, 6, coefficients=coefficients, edge_dim=3)


@pytest.mark.parametrize("kind", [LMGC, NormalizedLMGC, FAGCN, GATv2])
def test_coefficients_with_edge_features_in_a_layer_without(kind):
    """Else weights of the edges would be taken for their features."""
    with pytest.raises(ValueError, match=r"edge_dim: expected 1, with which the given .* was built, got None"):
        LMGConv(5, 6, coefficients=kind(5, 6, edge_dim=1))


def test_a_module_of_ones_own_may_read_edge_features():
    class ByKind(Coefficients):
        def __init__(self):
            super().__init__(heads=1)
            self.weight = torch.nn.Embedding(3, 1)

        def forward(self, x, h, graph):
            return self.weight(graph.edge_attr)

    class OwnGCN(GCN):
        def forward(self, x, h, graph):
            return super().forward(x, h, graph) * graph.edge_attr

    x, edge_index = _case()
    kinds = torch.randint(3, (40,))
    assert LMGConv(5, 6, coefficients=ByKind(), edge_dim=1, add_self_loops=False)(x, edge_index, kinds).isfinite().all()
    assert LMGConv(5, 6, coefficients=OwnGCN(), edge_dim=1)(x, edge_index, torch.rand(40, 1)).isfinite().all()
    given = LMGConv(5, 6, coefficients=GATv2(5, 6, edge_dim=3), edge_dim=3)
    assert given(x, edge_index, torch.rand(40, 3)).isfinite().all()


def test_bad_edge_features_are_named():
    x, edge_index = _case()
    without = r"edge_attr: expected none, because the layer was built without edge_dim, got shape \[40, 3\]"
    with pytest.raises(ValueError, match=without):
        LMGConv(5, 6)(x, edge_index, torch.ones(40, 3))
    layer = LMGConv(5, 6, edge_dim=3)
    with pytest.raises(ValueError, match=r"edge_attr: expected shape \[E, 3\] because of edge_dim, got none"):
        layer(x, edge_index)
    with pytest.raises(ValueError, match=r"edge_attr: expected shape \[E, 3\], got \[40, 2\]"):
        layer(x, edge_index, torch.ones(40, 2))
    for shape in ((40,), (40, 3, 1), (40, 1, 3)):
        with pytest.raises(ValueError, match=r"edge_attr: expected shape \[E, 3\], got \[40"):
            layer(x, edge_index, torch.ones(shape))
    with pytest.raises(ValueError, match=r"edge_attr: expected one row per edge \(40\), got shape \[\]"):
        LMGConv(5, 6, edge_dim=1)(x, edge_index, torch.tensor(1.0))
    for loops in (True, False):
        with pytest.raises(TypeError, match=r"edge_attr: expected torch.float32 like x, got torch.int64"):
            LMGConv(5, 6, edge_dim=3, add_self_loops=loops)(x, edge_index, torch.ones(40, 3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"edge_attr: expected one row per edge \(40\)"):
        layer(x, edge_index, torch.ones(39, 3))
    with pytest.raises(ValueError, match=r"edge_attr: give it to Graph.from_edge_index"):
        layer(x, Graph.from_edge_index(edge_index, 12), torch.ones(40, 3))


def test_free_coefficients_belong_to_one_graph():
    x, edge_index = _case()
    layer = LMGConv(5, 6, coefficients="free")
    layer(x, edge_index)
    with pytest.raises(ValueError, match="graph: these free coefficients belong to a graph of"):
        layer(x, edge_index[:, :20])


def test_gin_names_what_it_refuses():
    x, edge_index = _case()
    with pytest.raises(ValueError, match=r"x: expected shape \[N, 5\], got \[12, 4\]"):
        GINLayer(5, 6)(x[:, :4], edge_index)
    with pytest.raises(TypeError, match=r"x: expected a floating type, got torch.int64"):
        GINLayer(5, 6)(x.long(), edge_index)


@pytest.mark.parametrize("layer", [GINLayer(5, 6), PolynomialConv(5, 6)], ids=repr)
def test_weights_of_edges_are_not_ignored(layer):
    x, edge_index = torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    refused = r"edge_index: expected a graph without weights or attributes, got edge_attr of shape \[4\]"
    weights = torch.tensor([1.0, 0.5, 1.0, 2.0])
    for graph in (
        torch.sparse_coo_tensor(edge_index.flip(0), weights, (3, 3)),
        Graph.from_edge_index(edge_index, 3, weights),
    ):
        with pytest.raises(ValueError, match=refused):
            layer(x, graph)
    unweighted = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(4), (3, 3))
    torch.testing.assert_close(layer(x, unweighted), layer(x, edge_index))


def test_layers_that_are_not_lazy_say_so():
    for build in (lambda size: GINLayer(size, 8), lambda size: PolynomialConv(size, 8, 2)):
        with pytest.raises(ValueError, match="in_channels: expected a whole number of at least 1, got -1"):
            build(-1)


@pytest.mark.parametrize(
    ("coefficients", "built_for"),
    [
        (lambda: LMGC(64, 16), 16),
        (lambda: GAT(16, 1), 1),
        (lambda: GATv2(64, 16), 16),
        (lambda: Gated(64, 16), 16),
        (lambda: Sheaf(64, 16), 16),
    ],
)
def test_coefficients_for_other_channels_are_refused(coefficients, built_for):
    message = f"coefficients: expected ones for 64 output channels, got .* for {built_for}"
    with pytest.raises(ValueError, match=message):
        LMGConv(64, 64, coefficients=coefficients())


def _replace(place, value):
    def change(conv):
        owner = conv.get_submodule(place.rpartition(".")[0])
        setattr(owner, place.rpartition(".")[2], torch.nn.Parameter(value))

    return change


def _assign_other_type(conv):
    state = {name: value.double() if name.endswith("att") else value for name, value in conv.state_dict().items()}
    conv.load_state_dict(state, assign=True)


def _double_bias_data(conv):
    conv.bias.data = conv.bias.data.double()


CHANGES = {
    "coefficients of another type": (lambda conv: conv.coefficients.double(), TypeError, "att: expected torch.float32"),
    "loaded with another type": (_assign_other_type, TypeError, "att: expected torch.float32 like x"),
    "data of another type": (_double_bias_data, TypeError, "bias: expected torch.float32 .* got torch.float64"),
    "short bias": (_replace("bias", torch.zeros(1)), ValueError, r"bias: expected shape \[64\], got \[1\]"),
    "bias of two dimensions": (_replace("bias", torch.zeros(1, 64)), ValueError, r"bias: expected shape \[64\]"),
    "fewer rows of W": (_replace("lin.weight", torch.zeros(32, 64)), ValueError, r"lin.weight: expected shape \[256"),
    "more rows of W": (_replace("lin.weight", torch.zeros(512, 64)), ValueError, r"lin.weight: expected shape \[256"),
    "other columns of W": (_replace("lin.weight", torch.zeros(256, 32)), ValueError, r"weight: expected shape"),
    "flat W": (_replace("lin.weight", torch.zeros(256 * 64)), ValueError, r"lin.weight: expected shape"),
    "W of another type": (_replace("lin.weight", torch.zeros(256, 64).double()), TypeError, "expected torch.float64"),
    "fewer columns of att": (_replace("coefficients.att", torch.zeros(8, 64)), ValueError, r"att: expected shape \[8"),
    "fewer rows of att": (_replace("coefficients.att", torch.zeros(6, 256)), ValueError, r"att: expected shape"),
    "odd rows of att": (_replace("coefficients.att", torch.zeros(7, 256)), ValueError, r"att: expected shape"),
    "att elsewhere": (_replace("coefficients.att", torch.zeros(8, 256, device="meta")), ValueError, "att: .* device"),
    "longer offset": (_replace("coefficients.offset", torch.zeros(8)), ValueError, r"offset: expected shape \[4\]"),
    "offset of another type": (_replace("coefficients.offset", torch.zeros(4).double()), TypeError, "offset: expected"),
    "sparse att": (_replace("coefficients.att", torch.zeros(8, 256).to_sparse()), TypeError, "att: expected a dense"),
    "no att": (lambda conv: setattr(conv.coefficients, "att", None), ValueError, r"att: expected shape .* got None"),
    "flat att": (_replace("coefficients.att", torch.zeros(8 * 256)), ValueError, r"att: expected shape"),
}  # fmt: skip


@pytest.mark.parametrize("combine", ["sum", "mean"])
@pytest.mark.parametrize("change", CHANGES)
def test_replaced_parameters_that_do_not_fit_are_named(change, combine):
    apply, error, message = CHANGES[change]
    conv, x = LMGConv(64, 64, combine=combine), torch.randn(12, 64)
    apply(conv)
    graph = Graph.from_edge_index(random_edges(12, 40), 12)
    with pytest.raises(error, match=message):
        conv(x, graph)
    with pytest.raises(error, match=message):
        conv(x, random_edges(12, 40))


def test_replaced_parameters_that_fit_are_used():
    conv, x = LMGConv(64, 64), torch.randn(12, 64)
    graph = Graph.from_edge_index(random_edges(12, 40), 12)
    for place in ("lin.weight", "coefficients.att", "coefficients.offset", "bias"):
        before = conv(x, graph)
        _replace(place, 0.1 * torch.randn_like(conv.get_parameter(place)))(conv)
        assert not torch.allclose(conv(x, graph), before)
    transposed = conv.lin.weight.detach().t().contiguous().t()
    expected = conv(x, graph)
    _replace("lin.weight", transposed)(conv)
    torch.testing.assert_close(conv(x, graph), expected)


def test_coefficients_put_in_the_place_of_others_decide():
    conv, x = LMGConv(64, 64, combine="mean"), torch.randn(12, 64)
    conv.coefficients, conv.lin.weight = LMGC(64, 64, 2), torch.nn.Parameter(0.1 * torch.randn(128, 64))
    graph = Graph.from_edge_index(random_edges(12, 40), 12)
    torch.testing.assert_close(conv(x, graph), conv(x, graph, return_attention_weights=True)[0])


def test_a_saved_layer_without_offset_is_named():
    state = LMGConv(5, 6, coefficients="eq12").state_dict()
    for strict in (True, False):
        with pytest.raises(RuntimeError, match="build the layer with coefficients='eq12'"):
            LMGConv(5, 6).load_state_dict(state, strict=strict)


@pytest.mark.parametrize("change", [torch.nn.Module.half, torch.nn.Module.double])
@pytest.mark.parametrize("name", ["lmgc", "gcn", "gatv2"])
def test_parameters_that_change_before_backward(name, change):
    """Autograd does not see that .data is another: a kernel would write gradients of the old size over other memory."""
    layer, x, edges = LMGConv(64, 64, coefficients=name), torch.randn(200, 64), torch.randint(200, (2, 600))
    out = layer(x, edges)
    change(layer)
    with suppress(RuntimeError):  # said by us, or by torch where only its own functions see the parameter
        out.sum().backward()
        assert all(bool(p.grad.isfinite().all()) for p in layer.parameters() if p.grad is not None)
    layer.float().zero_grad()
    layer(x, edges).sum().backward()


@pytest.mark.skipif(backend() != "native", reason="plain torch makes its own errors")
def test_tensors_that_change_before_backward():
    graph = Graph.from_edge_index(torch.randint(200, (2, 600)), 200)
    alpha, h = torch.randn(600, 2, requires_grad=True), torch.randn(200, 2, 8, requires_grad=True)
    out = propagate(alpha, h, graph)
    h.data = torch.randn(3, 2, 8)
    with pytest.raises(RuntimeError, match=r"replaced between .* torch.float32 \[200, 2, 8\], got .* \[3, 2, 8\]"):
        out.sum().backward()
    layer = LMGConv(64, 64)
    out = layer(torch.randn(200, 64), graph)
    layer.half()
    with pytest.raises(RuntimeError, match=r"replaced between forward and backward: expected torch\.float32"):
        out.sum().backward()


def test_rows_of_several_layers():
    graph = Graph.from_edge_index(torch.randint(20, (2, 60)), 20)
    weights, settings = [Weights(torch.randn(32, 8), torch.randn(8, 32), None, None, None)], [Settings(0.2, True)]
    wrong = (torch.zeros(20, dtype=torch.int32), torch.zeros(1, dtype=torch.int64), torch.zeros(20, 1).long())
    for rows in wrong:
        with pytest.raises(ValueError, match=r"rows: expected int64 \[20\]"):
            lmgcs(torch.randn(5, 8), weights, settings, graph, rows)


@pytest.mark.parametrize("name", ["lmgc", "gatv2"])
def test_a_lazy_layer_with_a_residual_connection(name):
    layer = LMGConv(-1, 4, coefficients=name, residual=True)
    assert layer(torch.randn(5, 3), torch.randint(5, (2, 9))).shape == (5, 4)


@pytest.mark.parametrize("name", ["att_src", "att_dst"])
def test_scores_of_gat_are_not_broadcast(name):
    layer = LMGConv(5, 8, coefficients="gat")
    setattr(layer.coefficients, name, torch.nn.Parameter(torch.zeros(1, 4, 1)))
    with pytest.raises(ValueError, match=rf"{name}: expected shape \[1, 4, 8\], got \[1, 4, 1\]"):
        layer(*_case())
