"""What once crashed, or gave wrong numbers without a word: graphs that move, tensors without memory, patched parts."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import LMGConv, LMGCStack, calibrate
from mimogc.nn.coefficients import Coefficients
from mimogc.ops import use_reference

NODES, EDGES = 12, 40


def _case(width=8):
    torch.manual_seed(0)
    return torch.randn(NODES, width), random_edges(NODES, EDGES)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_graph_that_moves_before_the_backward_pass(indexed):
    graph = Graph.from_edge_index(random_edges(3000, 9000), 3000, add_self_loops=True)
    stack, index = LMGCStack(8, 8, 4), torch.randint(0, 50, (3000,))
    given = (torch.randn(50, 8), graph, index) if indexed else (torch.randn(3000, 8), graph)
    expected = torch.autograd.grad(stack(*given).sum(), stack.weight_0)[0]
    out = stack(*given)
    for array in (graph.rowptr, graph.sources, graph.colptr, graph.targets, graph.slot):
        array.share_memory_()
    torch.testing.assert_close(torch.autograd.grad(out.sum(), stack.weight_0)[0], expected)


@pytest.mark.parametrize("place", ["lin.weight", "coefficients.att", "coefficients.offset", "bias"])
@pytest.mark.parametrize("width", [8, 32])
def test_tensors_that_have_no_memory_of_their_own(place, width):
    x, edge_index = _case(width)
    layer = LMGConv(width, width)
    torch.nn.init.normal_(layer.bias)
    expected = layer(x, edge_index)
    value = layer.get_parameter(place).detach()
    owner = layer.get_submodule(place.rpartition(".")[0])
    setattr(owner, place.rpartition(".")[2], torch.nn.Parameter(TwoTensor(value, value.clone())))
    out = layer(x, edge_index)
    torch.testing.assert_close(out.a if isinstance(out, TwoTensor) else out, expected, rtol=1e-4, atol=1e-5)


def test_features_that_have_no_memory_of_their_own():
    x, edge_index = _case(32)
    layer = LMGConv(32, 32)
    graph = Graph.from_edge_index(edge_index, NODES)
    out = layer(TwoTensor(x, x.clone()), graph)
    torch.testing.assert_close(out.a, layer(x, graph), rtol=1e-4, atol=1e-5)


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["lmgc", "gatv2", "gcn"])
def test_arrays_put_into_a_graph_that_do_not_fit(name):
    x, edge_index = _case()
    graph, layer = Graph.from_edge_index(edge_index, NODES), LMGConv(8, 4, coefficients=name, add_self_loops=False)
    for change in (
        {"sources": graph.sources.long()},
        {"targets": graph.targets.repeat_interleave(2)[::2]},
        {"slot": graph.slot[:-1]},
        {"colptr": graph.colptr[:-1]},
    ):
        with pytest.raises(ValueError, match="graph: expected arrays of int32"):
            layer(x, replace(graph, **change))


def test_attributes_that_change_are_seen():
    x, edge_index = _case()
    layer = LMGConv(8, 4, edge_dim=2)
    for learnt in (True, False):
        values = torch.nn.Parameter(torch.randn(EDGES, 2), requires_grad=learnt)
        graph = replace(Graph.from_edge_index(edge_index, NODES, torch.zeros(EDGES, 2)), edge_attr=values)
        for _ in range(2):
            expected = layer(x, replace(graph, edge_attr=values.detach().clone()))
            torch.testing.assert_close(layer(x, graph), expected)
            layer(x, graph).sum().backward()
            with torch.no_grad():
                values.mul_(3)


def test_edge_features_and_weights_at_once_are_refused():
    x, edge_index = _case()
    layer = LMGConv(8, 4, coefficients="fagcn", edge_dim=1)
    with pytest.raises(ValueError, match="edge_weight: expected None, because the layer has edge_dim"):
        layer(x, edge_index, torch.rand(EDGES, 1), edge_weight=torch.rand(EDGES))


class TestSparseMatrices:
    def test_ones_have_gradients(self):
        x, edge_index = _case()
        edge_index = edge_index.unique(dim=1)
        ones = torch.ones(edge_index.size(1), requires_grad=True)
        matrix = torch.sparse_coo_tensor(edge_index.flip(0), ones, (NODES, NODES)).coalesce()
        LMGConv(8, 4, coefficients="gcn")(x, matrix).sum().backward()
        assert ones.grad is not None
        assert ones.grad.abs().sum() > 0

    def test_duplicates_with_gradients_are_refused(self):
        x, _ = _case()
        values = torch.tensor([0.5, 0.7, 0.2], requires_grad=True)
        matrix = torch.sparse_coo_tensor(torch.tensor([[0, 0, 2], [1, 1, 3]]), values, (NODES, NODES))
        with pytest.raises(ValueError, match="edge_index: expected a coalesced matrix"):
            LMGConv(8, 4, coefficients="gcn")(x, matrix)

    @pytest.mark.parametrize("size", [3, NODES + 1])
    def test_of_another_size_are_refused(self, size):
        x, _ = _case()
        matrix = torch.sparse_coo_tensor(torch.tensor([[0, 2], [1, 1]]), torch.ones(2), (size, size))
        with pytest.raises(
            ValueError, match=rf"edge_index: expected a matrix of 12 targets × 12 sources, got \[{size}"
        ):
            LMGConv(8, 4)(x, matrix)


def test_patched_parts_are_used():
    x, edge_index = _case()
    layer = LMGConv(8, 4, bias=False)
    expected, forward = layer(x, edge_index), layer.lin.forward
    layer.lin.forward = lambda value: 0 * forward(value)
    assert not layer(x, edge_index).any()
    del layer.lin.forward
    seen = []
    handle = layer.register_aggregate_forward_hook(lambda *given: seen.append(given))
    torch.testing.assert_close(layer(x, edge_index), expected, rtol=1e-4, atol=1e-5)
    assert seen
    handle.remove()


def test_weights_of_another_number_of_graphs_are_named():
    x, edge_index = _case()
    layer, stack = LMGConv(8, 4, coefficients="eq12", bias=False), LMGCStack(8, 4, 2, coefficients="eq12", bias=False)
    layer.coefficients.att = stack.att_0 = torch.nn.Parameter(torch.randn(4, 16))
    with pytest.raises(ValueError, match=r"att: expected shape \[8, 16\]"):
        layer(x, edge_index)
    with pytest.raises(ValueError, match="weight_0, att_0: expected"):
        stack(x, edge_index)
    stack.att_0 = None
    with pytest.raises(ValueError, match="weight_0, att_0: expected"):
        stack(x, edge_index)
    layer = LMGConv(8, 4, residual=True)
    layer.res.weight = torch.nn.Parameter(torch.randn(1, 8))
    with pytest.raises(ValueError, match=r"res.weight: expected shape \[4, F\]"):
        layer(x, edge_index)


def test_calibrate_sees_all_arguments():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = LMGConv(8, 4, coefficients="gcn")

        def forward(self, x, edge_index, weight):
            return self.conv(x, edge_index, None, None, weight)

    x, edge_index = _case()
    model, weight = Model(), 5 * torch.rand(EDGES)
    calibrate(model, x, edge_index, weight, only=Coefficients)
    assert model(x, edge_index, weight).square().mean().sqrt().item() == pytest.approx(1, rel=1e-2)


def test_recorded_programs_are_true():
    from torch.fx.experimental.proxy_tensor import make_fx

    x, edge_index = _case()
    layer, graph = LMGConv(8, 4), Graph.from_edge_index(edge_index, NODES)
    layer(x, graph)
    program = make_fx(lambda value: layer(value, graph))(x)
    with use_reference():
        torch.testing.assert_close(program(x + 1), layer(x + 1, graph), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, e: LMGConv(8, 4)((x, x, x), e), "x: expected a tensor or a pair of tensors, got a tuple of 3"),
        (lambda x, e: LMGConv((1, 2, 3), 4), "in_channels: expected a whole number"),
        (lambda x, e: Graph.from_edge_index(e, (6,)), "num_nodes: expected a count or a pair of counts"),
        (lambda x, e: Graph.from_edge_index(e, True), "num_nodes: expected a count or a pair of counts, got True"),
        (lambda x, e: LMGConv(8, 4)((x, None), e, size=(6,)), "size: expected the numbers of sources and targets"),
        (lambda x, e: LMGConv(8, 4)(x, e, size=6), "size: expected the numbers of sources and targets, got 6"),
        (lambda x, e: LMGConv(8, 4, edge_dim=1)(x, e, [1.0] * EDGES), "edge_attr: expected a tensor, got list"),
        (lambda x, e: LMGConv(8, 4, edge_dim=1)(x, e, torch.ones(EDGES).double()), "edge_attr: expected torch.float32"),
        (lambda x, e: LMGConv(8, 4, negative_slope=None), "negative_slope: expected a finite number, got None"),
        (lambda x, e: LMGConv(8, 4, negative_slope=float("nan")), "negative_slope: expected a finite number"),
        (lambda x, e: LMGConv(8, 4, dropout="a"), "dropout: expected a probability"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(*_case())


def test_a_lazy_layer_keeps_its_width():
    x, edge_index = _case()
    for name in ("lmgc", "gcn"):
        layer = LMGConv(-1, 4, coefficients=name)
        layer(x, edge_index)
        with pytest.raises(ValueError, match=r"x: expected shape \[N, 8\], got \[12, 5\]"):
            layer(x[:, :5], edge_index)


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "fagcn", "gated", "sheaf", "free", "lmgc", "lmgc-sym"])
@pytest.mark.parametrize("kind", ["double", "meta", "int"])
def test_every_replaced_parameter_is_named(name, kind):
    x, edge_index = _case()
    first = LMGConv(8, 4, coefficients=name)
    first(x, edge_index)
    for replaced, value in first.named_parameters():
        layer = copy.deepcopy(first)
        module, _, leaf = replaced.rpartition(".")
        other = {"double": value.double, "meta": lambda value=value: value.to("meta"), "int": value.int}[kind]()
        layer.get_submodule(module)._parameters[leaf] = torch.nn.Parameter(other.detach(), requires_grad=False)
        if kind == "int" and ((name == "gat" and leaf.startswith("att")) or (name == "lmgc-sym" and leaf == "offset")):
            continue  # whole numbers times features, or added to scores, are what they should be
        if replaced == "lin.weight":
            with pytest.raises((TypeError, ValueError), match=r"^x: expected|lin\.weight"):
                layer(x, edge_index)
            continue
        with pytest.raises((TypeError, ValueError), match=f"^({replaced}|{leaf}): expected"):
            layer(x, edge_index)


def test_maps_of_edges_beside_the_kernel_have_numbers():
    x, edge_index = _case()
    layer = LMGConv(8, 4, edge_dim=2)
    layer.coefficients.lin_edge.to("meta")
    with pytest.raises(ValueError, match=r"coefficients.lin_edge.weight: expected numbers, got a tensor on .* meta"):
        layer(x, edge_index, torch.randn(EDGES, 2))


@pytest.mark.parametrize("name", ["gcn", "fagcn", "lmgc-sym"])
def test_weights_in_a_bipartite_graph_have_no_symmetric_normalisation(name):
    x, edge_index = _case()
    layer = LMGConv((8, 8), 4, coefficients=name, add_self_loops=False)
    with pytest.raises(ValueError, match="graph: symmetric normalisation needs one set of nodes"):
        layer((x, torch.randn(NODES + 1, 8)), edge_index, edge_weight=torch.ones(EDGES))
