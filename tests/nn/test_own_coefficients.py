"""What is wrong with coefficients of one's own, or taken over from PyG's layers, is said of the thing itself."""

import inspect

import pytest
import torch
from torch_geometric.nn import Sequential

from mimogc.nn import Coefficients, LMGConv
from mimogc.nn.coefficients import ACM, GATv2

X, EDGES = torch.randn(9, 5), torch.randint(0, 9, (2, 20))


class Returning(Coefficients):
    """Gives what it was made with, or ones of a type or a number of graphs."""

    def __init__(self, heads, what):
        super().__init__(heads)
        self.what = what

    def forward(self, x, h, graph):
        made = {torch.float64: lambda: torch.ones(graph.num_edges, self.heads, dtype=torch.float64)}
        made[3] = lambda: torch.ones(graph.num_edges, 3)
        return made.get(self.what, lambda: self.what)()


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (torch.float64, TypeError, "alpha: expected torch.float32 like h from Returning.forward, got torch.float64"),
        (None, TypeError, r"alpha: expected a tensor \[E, K\] from Returning.forward, got NoneType"),
        ((torch.ones(1),), TypeError, "alpha: expected a tensor .* got tuple"),
        (3, ValueError, r"alpha: expected shape \[E, 4\] from Returning.forward, got \[\d+, 3\]"),
        (torch.ones(20), ValueError, r"alpha: expected shape \[E, 4\] from Returning.forward, got \[20\]"),
    ],
)
def test_what_forward_returns(what, error, message):
    layer = LMGConv(5, 6, coefficients=Returning(4, what))
    for call in (layer, layer.operator):
        with pytest.raises(error, match=message):
            call(X, EDGES)


def test_autocast_converts_coefficients():
    layer = LMGConv(5, 6, coefficients=Returning(4, torch.float64))
    with torch.autocast("cpu"):
        assert layer(X, EDGES).shape == (9, 6)


def test_a_class_without_its_beginning():
    class Forgetful(Coefficients):
        def __init__(self, heads):
            self.heads = heads

    with pytest.raises(
        TypeError, match=r"expected Forgetful.__init__ to call super\(\).__init__\(heads\), got one that"
    ):
        LMGConv(5, 6, coefficients=Forgetful(4))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Returning, r"got the class Returning; call it: Returning\(heads=4, what=...\)"),
        (GATv2, r"call it: GATv2\(in_channels=..., out_channels=..."),
        (ACM, r"the class ACM; call it: ACM\(.*\)"),
        (int, "got <class 'int'>"),
    ],
)
def test_a_class_in_the_place_of_a_module(kind, message):
    with pytest.raises(ValueError, match=f"coefficients: expected one of lmgc, .* {message}"):
        LMGConv(5, 6, coefficients=kind)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("concat", False, r"concat: .* of LMGConv, got False: leave it out for the sum .* combine='mean'"),
        ("share_weights", True, "share_weights: .* got True: leave it out"),
        ("aggr", "mean", "aggr: .* got 'mean': leave it out"),
        ("flow", "target_to_source", r"flow: .* edge_index.flip\(0\)"),
        ("colour", "red", r"LMGConv.__init__\(\) got an unexpected keyword argument 'colour'"),
    ],
)
def test_arguments_of_pygs_layers(name, value, message):
    with pytest.raises(TypeError, match=message):
        LMGConv(5, 6, **{name: value})


def test_the_signature_still_serves_pyg():
    model = Sequential("x, edge_index", [(LMGConv(5, 6), "x, edge_index -> x"), torch.nn.ReLU()])
    assert model(X, EDGES).shape == (9, 6)
    named = inspect.signature(LMGConv).parameters.values()
    assert [one.name for one in named if one.kind is one.VAR_KEYWORD] == ["others"]
    with pytest.raises(TypeError, match="from 3 to 14 positional arguments"):
        LMGConv(5, 6, 4, "lmgc", "sum", 0.2, True, None, True, 0.0, False, False, "mean", "more")
