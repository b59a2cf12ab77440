"""What the layers refuse, and the words in which they do."""

import pytest
import torch

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import GINLayer, LMGConv, PolynomialConv
from mimogc.nn.coefficients import ACM, GCN, Coefficients, Free, Gated, GATv2, Sheaf


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
        (
            {"coefficients": "gcn", "edge_dim": 2},
            "edge_dim: expected None, because GCN has no score .* got 2",
        ),
        ({"coefficients": "gated", "combine": "mean"}, "combine: Gated fixes the feature transformations"),
        (
            {"coefficients": "sheaf", "out_channels": 5},
            "stalk_dim: expected a divisor of out_channels=5, got 2",
        ),
        ({"dropout": 1.5}, r"dropout: expected a probability in \[0, 1\), got 1.5"),
        ({"out_channels": 0}, "out_channels: expected a whole number of at least 1, got 0"),
        ({"act": "relu"}, "act: expected 'gelu' or None, got 'relu'"),
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
        (torch.zeros(4, 5).to_sparse(), None, TypeError, "x: expected a dense tensor, got torch.sparse_coo"),
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
    assert (
        LMGConv(5, 6, coefficients=ByKind(), edge_dim=1, add_self_loops=False)(x, edge_index, kinds)
        .isfinite()
        .all()
    )
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
        with pytest.raises(TypeError, match=r"edge_attr: expected a floating type, got torch.int64"):
            LMGConv(5, 6, edge_dim=3, add_self_loops=loops)(
                x, edge_index, torch.ones(40, 3, dtype=torch.long)
            )
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
