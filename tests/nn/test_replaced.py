"""Layers that someone has changed: what does not fit is named, what fits works, alone and in a stack."""

import pytest
import torch
from torch.nn import Parameter

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import GINLayer, LMGConv, LMGCStack, MIMOConv, PolynomialConv, calibrate, stacked
from mimogc.spectral import fourier_basis

NODES, EDGES, WIDTH = 20, 60, 8
EDGE_INDEX = random_edges(NODES, EDGES)
GRAPH = Graph.from_edge_index(EDGE_INDEX, NODES)


def _x(dtype=torch.float32):
    return torch.randn(NODES, WIDTH, dtype=dtype)


@pytest.mark.parametrize(
    ("preset", "name", "shape"),
    [
        ("gatv2", "att", (2, 4, WIDTH)),
        ("gatv2", "att", (0, 4, WIDTH)),
        ("gatv2", "att", None),
        ("gat", "att_src", None),
        ("gat", "att_dst", (1, 1, WIDTH)),
        ("fagcn", "att_src.weight", (2, WIDTH)),
        ("gated", "lin_key.weight", (2, WIDTH)),
        ("gated", "lin_query.weight", (WIDTH + 1, WIDTH)),
        ("sheaf", "lin_own.weight", (3, WIDTH)),
    ],
)
def test_parameters_of_other_shapes_are_named(preset, name, shape):
    layer = LMGConv(WIDTH, WIDTH, coefficients=preset)
    owner, _, parameter = name.rpartition(".")
    module = layer.coefficients.get_submodule(owner)
    setattr(module, parameter, None if shape is None else Parameter(torch.randn(shape)))
    found = "None" if shape is None else str(list(shape)).replace("[", r"\[")
    with pytest.raises(ValueError, match=rf"{name}: expected shape .*, got {found}"):
        layer(_x(), GRAPH)


def test_a_stack_without_a_weight():
    stack = LMGCStack(WIDTH, WIDTH, 2)
    stack.weight_0 = None
    with pytest.raises(ValueError, match=r"weight_0, att_0: expected \[32, F\] .*, got \[None"):
        stack(_x(), GRAPH)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: PolynomialConv(WIDTH, 3),
        lambda: GINLayer(WIDTH, 3),
        lambda: MIMOConv(WIDTH, 3, fourier_basis(Graph.from_edge_index(EDGE_INDEX, NODES).to_undirected())),
    ],
    ids=["polynomial", "gin", "mimo"],
)
def test_features_of_another_type_are_named(layer):
    with pytest.raises(TypeError, match=r"x: expected torch.float32 like the layer's weights, got torch.float64"):
        layer()(_x(torch.float64), EDGE_INDEX)


@pytest.mark.parametrize("degree", [1.5, True, -1])
def test_a_degree_is_a_whole_number(degree):
    with pytest.raises(ValueError, match="degree: expected a whole number of at least 0, got"):
        PolynomialConv(WIDTH, 3, degree=degree)


def test_sizes_of_the_exact_convolution():
    with pytest.raises(ValueError, match="out_channels: expected a whole number of at least 1, got 0"):
        MIMOConv(WIDTH, 0, (torch.ones(2), torch.ones(NODES, 2)))


@pytest.mark.parametrize("name", ["flow", "aggr"])
def test_a_stack_refuses_what_a_layer_refuses(name):
    layer = LMGConv(WIDTH, WIDTH)
    setattr(layer, name, {"flow": "target_to_source", "aggr": "mean"}[name])
    with pytest.raises(ValueError, match="flow, aggr: expected 'source_to_target' and 'sum'"):
        stacked([layer], _x(), GRAPH)


def test_a_stack_of_layers_that_do_not_know_their_size():
    torch.manual_seed(0)
    lazy, x = LMGConv(-1, WIDTH), _x()
    found = stacked([lazy], x, GRAPH)
    torch.testing.assert_close(found, torch.nn.functional.gelu(lazy(x, GRAPH)))


def test_a_stack_with_a_map_of_ones_own():
    layer, x = LMGConv(WIDTH, WIDTH), _x()
    layer.lin = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False))
    torch.testing.assert_close(stacked([layer], x, GRAPH), torch.nn.functional.gelu(layer(x, GRAPH)))


def test_a_stack_takes_what_its_layers_take():
    layers, x = [LMGConv(WIDTH, WIDTH), GINLayer(WIDTH, WIDTH)], _x()
    torch.testing.assert_close(stacked(layers, x, EDGE_INDEX), stacked(layers, x, GRAPH))
    torch.testing.assert_close(stacked(layers[:1], x, EDGE_INDEX), stacked(layers[:1], x, GRAPH))


class Tied(torch.nn.Module):
    """A layer whose weight an encoder before it has, too."""

    def __init__(self):
        super().__init__()
        self.layer, self.encoder = LMGConv(WIDTH, WIDTH, heads=1), torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.encoder.weight = self.layer.lin.weight

    def forward(self, x, graph):
        return self.layer(self.encoder(x), graph)


@pytest.mark.parametrize("module", [False, True])
def test_a_tied_weight_is_not_scaled(module):
    model = Tied()
    if module:
        model.encoder = model.layer.lin
    before = model.layer.lin.weight.clone()
    with pytest.raises(ValueError, match="layer 'layer' shares a parameter with 'encoder'"):
        calibrate(model, _x(), GRAPH)
    assert torch.equal(model.layer.lin.weight, before)
