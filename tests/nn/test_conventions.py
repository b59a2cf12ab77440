"""What users of PyG's layers expect: weights of edges, residual maps, missing targets, hooks, torch.func."""

import copy
from functools import partial

import pytest
import torch
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn.utils import parametrizations, prune
from torch_geometric.nn import FAConv, GATConv, GATv2Conv, GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_torch_coo_tensor

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import LMGConv, LMGCStack, PolynomialConv
from mimogc.nn.coefficients import ACM, BY_NAME, GATv2

NODES, EDGES = 12, 40
PRESETS = tuple(BY_NAME)


def _case(dtype=torch.float64):
    torch.manual_seed(0)
    return torch.randn(NODES, 5, dtype=dtype), random_edges(NODES, EDGES)  # with self-loops and duplicates


def _layer(name="lmgc", dtype=torch.float64, **options):
    torch.manual_seed(1)
    return LMGConv(5, 6, coefficients=name, **options).to(dtype)


class TestEdgeWeight:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("loops", [True, False])
    def test_gcn_is_pygs(self, dtype, loops):
        x, edge_index = _case(dtype)
        edge_index = edge_index.unique(dim=1)  # of several loops at a node PyG keeps the weight of one
        weight = torch.rand(edge_index.size(1), dtype=dtype, requires_grad=True)
        ours, theirs = _layer("gcn", dtype, add_self_loops=loops), GCNConv(5, 6, add_self_loops=loops).to(dtype)
        theirs.lin.weight.data = ours.lin.weight.data
        expected = theirs(x, edge_index, weight)
        by_weight = torch.autograd.grad(expected.square().sum(), weight)[0]
        graph = Graph.from_edge_index(edge_index, NODES, weight)
        adjacency = torch.sparse_coo_tensor(edge_index.flip(0), weight, (NODES, NODES)).coalesce()
        for given in ((edge_index, weight), (graph,), (adjacency,)):
            out = ours(x, *given)
            torch.testing.assert_close(out, expected)
            found = torch.autograd.grad(out.square().sum(), weight, retain_graph=True)[0]
            torch.testing.assert_close(found, by_weight)
        torch.testing.assert_close(ours(x, edge_index, edge_weight=weight), expected)
        assert not torch.allclose(ours(x, edge_index), expected)

    def test_fagcn_is_pygs(self):
        x, edge_index = _case()
        weight = torch.rand(EDGES, dtype=torch.float64)
        ours, theirs = _layer("fagcn", bias=False), FAConv(5, eps=0.0, dropout=0.0, normalize=False).double()
        ours.coefficients.att_src.weight.data = theirs.att_l.weight.data
        ours.coefficients.att_dst.weight.data = theirs.att_r.weight.data
        expected = theirs(x, torch.zeros_like(x), *gcn_norm(edge_index, weight, NODES)) @ ours.lin.weight.t()
        torch.testing.assert_close(ours(x, edge_index, edge_weight=weight), expected)

    @pytest.mark.parametrize("loops", [True, False])
    def test_acm_filters_the_weighted_graph(self, loops):
        x, edge_index = _case()
        weight = torch.rand(EDGES, dtype=torch.float64)
        gcn = _layer("gcn", add_self_loops=loops, bias=False)
        acm = _layer(ACM(identity=True), add_self_loops=loops, bias=False)
        low, high, same = acm.lin.weight.view(3, 6, 5)
        gcn.lin.weight.data = torch.eye(6, 5, dtype=torch.float64)
        smooth = gcn(x, edge_index, weight)[:, :5]
        expected = smooth @ low.t() + (x - smooth) @ high.t() + x @ same.t()
        torch.testing.assert_close(acm(x, edge_index, weight), expected)

    def test_free_weights_are_multiplied(self):
        x, edge_index = _case()
        layer = _layer("free", add_self_loops=False)
        plain = layer(x, edge_index)
        twice = layer(x, edge_index, edge_weight=torch.full((EDGES,), 2.0, dtype=torch.float64))
        torch.testing.assert_close(twice - layer.bias, 2 * (plain - layer.bias))

    @pytest.mark.parametrize("name", ["lmgc", "eq12", "gat", "gatv2", "gated", "sheaf"])
    def test_refused_where_it_means_nothing(self, name):
        x, edge_index = _case()
        with pytest.raises(ValueError, match="edge_weight: expected None"):
            _layer(name)(x, edge_index, edge_weight=torch.rand(EDGES))

    @pytest.mark.parametrize(
        ("weight", "error", "message"),
        [
            (torch.rand(EDGES - 1), ValueError, rf"edge_weight: expected shape \[{EDGES}\], got \[{EDGES - 1}\]"),
            (torch.rand(EDGES, 1), ValueError, r"edge_weight: expected shape"),
            (torch.ones(EDGES, dtype=torch.long), TypeError, "edge_weight: expected a tensor of a floating type"),
            ([1.0] * EDGES, TypeError, "edge_weight: .* got list"),
        ],
        ids=["short", "matrix", "integers", "list"],
    )
    def test_wrong_weights_are_named(self, weight, error, message):
        x, edge_index = _case()
        with pytest.raises(error, match=message):
            _layer("gcn")(x, edge_index, edge_weight=weight)
        with pytest.raises(ValueError, match="edge_weight: given twice"):
            _layer("gcn")(x, edge_index, torch.rand(EDGES), edge_weight=torch.rand(EDGES))


def test_residual_as_in_gatv2conv():
    x, edge_index = _case()
    theirs = GATv2Conv(5, 6, heads=3, residual=True).double()
    own = GATv2(5, 6, 3, share_weights=False, affine=True)
    ours = LMGConv(5, 6, coefficients=own, combine="concat", affine=True, residual=True).double()
    ours.lin.weight.data, ours.lin.bias.data = theirs.lin_l.weight.data, theirs.lin_l.bias.data
    own.lin_target.weight.data, own.lin_target.bias.data = theirs.lin_r.weight.data, theirs.lin_r.bias.data
    own.att.data, ours.res.weight.data = theirs.att.data, theirs.res.weight.data
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))


@pytest.mark.parametrize("name", ["lmgc", "eq12", "gcn", "gat"])
def test_residual_adds_a_map_of_the_input(name):
    x, edge_index = _case()
    layer = _layer(name, residual=True)
    with_map = layer(x, edge_index)
    added, layer.res = layer.res(x), None
    torch.testing.assert_close(with_map, layer(x, edge_index) + added)


class TestMissingTargets:
    def test_gat_is_pygs(self):
        x, edge_index = torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
        theirs = GATConv((8, 16), 6, heads=2, concat=False)
        ours = LMGConv((8, 16), 6, 2, "gat", "mean")
        ours.lin.weight.data = theirs.lin_src.weight.data
        ours.coefficients.att_src.data, ours.coefficients.att_dst.data = theirs.att_src.data, theirs.att_dst.data
        expected = theirs((x, None), edge_index, size=(4, 2))
        torch.testing.assert_close(ours((x, None), edge_index, size=(4, 2)), expected)
        adjacency = to_torch_coo_tensor(edge_index, size=(4, 2)).t()
        torch.testing.assert_close(ours((x, None), adjacency), expected)
        torch.testing.assert_close(ours((x, None), Graph.from_edge_index(edge_index, (4, 2))), expected)

    @pytest.mark.parametrize("name", ["lmgc", "eq12", "gat", "gatv2", "gated"])
    def test_they_have_zeros(self, name):
        x, edge_index = torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
        layer = LMGConv((8, 16), 6, coefficients=name)
        expected = layer((x, torch.zeros(2, 16)), edge_index)
        torch.testing.assert_close(layer((x, None), edge_index, size=(4, 2)), expected)

    def test_wrong_sizes_are_named(self):
        x, edge_index = torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
        with pytest.raises(ValueError, match=r"size: expected \(4, 4\) like x, got \(4, 2\)"):
            LMGConv(8, 6)(x, edge_index, size=(4, 2))
        with pytest.raises(ValueError, match="x: expected features of the targets"):
            LMGConv((8, -1), 6)((x, None), edge_index)


def test_features_of_added_loops():
    x, edge_index = _case()
    attributes = torch.randn(EDGES, 3, dtype=torch.float64)
    theirs = GATConv(5, 6, heads=2, concat=False, edge_dim=3, fill_value=0.5).double()
    ours = _layer("gat", heads=2, combine="mean", edge_dim=3, fill_value=0.5)
    own = ours.coefficients
    ours.lin.weight.data, own.lin_edge.weight.data = theirs.lin.weight.data, theirs.lin_edge.weight.data
    own.att_src.data, own.att_dst.data, own.att_edge.data = (
        theirs.att_src.data,
        theirs.att_dst.data,
        theirs.att_edge.data,
    )
    torch.testing.assert_close(ours(x, edge_index, attributes), theirs(x, edge_index, attributes))
    graph = Graph.from_edge_index(edge_index, NODES, attributes)
    torch.testing.assert_close(ours(x, graph), theirs(x, edge_index, attributes))


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features(name, layout):
    x, edge_index = _case()
    x = x * (x > 0)
    layer = _layer(name, add_self_loops=name != "free")
    torch.testing.assert_close(layer(x.to_sparse(layout=layout), edge_index), layer(x, edge_index))


def test_coefficients_of_a_sparse_matrix_are_one():
    x, edge_index = _case()
    edge_index = edge_index.unique(dim=1)
    layer = _layer("gat")
    out, (edges, alpha) = layer(x, edge_index, return_attention_weights=True)
    adjacency = to_torch_coo_tensor(edge_index, size=(NODES, NODES)).t()
    again, (matrix, values) = layer(x, adjacency, return_attention_weights=True)
    torch.testing.assert_close(again, out)
    expected = torch.zeros(NODES, NODES, 4, dtype=torch.float64)
    expected[edges[1], edges[0]] = alpha
    torch.testing.assert_close(matrix.to_dense(), expected)
    assert values.shape == alpha.shape


class TestHooks:
    @pytest.mark.parametrize("part", ["lin", "coefficients"])
    @pytest.mark.parametrize("name", ["lmgc", "gcn"])
    def test_of_the_parts_run(self, part, name):
        x, edge_index = _case()
        layer = _layer(name)
        expected, seen = layer(x, edge_index), []
        handle = layer.get_submodule(part).register_forward_hook(lambda *given: seen.append(given))
        torch.testing.assert_close(layer(x, edge_index), expected)
        assert len(seen) == 1
        handle.remove()
        layer.get_submodule(part).register_forward_hook(lambda module, given, out: 2 * out)
        torch.testing.assert_close(layer(x, edge_index) - layer.bias, 2 * (expected - layer.bias)) if (
            name == "gcn" or part == "coefficients"
        ) else None
        assert not torch.allclose(layer(x, edge_index), expected)

    @pytest.mark.parametrize("name", ["lmgc", "gcn"])
    def test_a_low_rank_addition_needs_no_weight_of_its_own(self, name):
        class Adapted(torch.nn.Module):
            def __init__(self, base, up, down):
                super().__init__()
                self.base, self.up, self.down = base, up, down

            def forward(self, x):
                return self.base(x) + x @ self.down @ self.up

        x, edge_index = _case()
        layer = _layer(name)
        rows, features = layer.lin.weight.shape
        up, down = torch.randn(2, rows, dtype=x.dtype), torch.randn(features, 2, dtype=x.dtype)
        merged = copy.deepcopy(layer)
        with torch.no_grad():
            merged.lin.weight += (down @ up).t()
        layer.lin = Adapted(layer.lin, up, down)
        torch.testing.assert_close(layer(x, edge_index), merged(x, edge_index), rtol=1e-4, atol=1e-4)
        layer.lin = torch.nn.Sequential(layer.lin, torch.nn.ZeroPad1d((0, rows)))
        with pytest.raises(ValueError, match=rf"lin: expected an output of shape \[N, {rows}\], got"):
            layer(x, edge_index)

    def test_a_map_of_ones_own_is_used(self):
        class Doubled(torch.nn.Module):
            def __init__(self, lin):
                super().__init__()
                self.lin, self.bias = lin, None

            @property
            def weight(self):
                return self.lin.weight

            def forward(self, x):
                return 2 * self.lin(x)

        x, edge_index = _case()
        layer, twice = _layer("gcn"), _layer("lmgc")
        plain = layer(x, edge_index)
        layer.lin, twice.lin = Doubled(layer.lin), Doubled(twice.lin)
        torch.testing.assert_close(layer(x, edge_index) - layer.bias, 2 * (plain - layer.bias))
        assert not torch.allclose(twice(x, edge_index), _layer("lmgc")(x, edge_index))

    def test_pruning_and_spectral_norm(self):
        x, edge_index = _case()
        for apply in (lambda lin: prune.l1_unstructured(lin, "weight", 0.5), parametrizations.spectral_norm):
            layer = _layer("lmgc").eval()  # in training the spectral norm moves with every call
            apply(layer.lin)
            out, _ = layer(x, edge_index, return_attention_weights=True)
            torch.testing.assert_close(layer(x, edge_index), out)
            assert not torch.allclose(out, _layer("lmgc")(x, edge_index))


class TestSubclasses:
    def test_messages_and_updates_of_ones_own(self):
        class Doubled(LMGConv):
            def message(self, h_j, alpha):
                return 2 * super().message(h_j, alpha)

        class Shifted(LMGConv):
            def update(self, aggregated):
                return aggregated + 1

        x, edge_index = _case()
        for kind, change in ((Doubled, lambda out: 2 * out), (Shifted, lambda out: out + 1)):
            for name in ("lmgc", "gcn", "gat"):
                torch.manual_seed(0)
                plain = LMGConv(5, 6, coefficients=name, bias=False).double()
                torch.manual_seed(0)
                own = kind(5, 6, coefficients=name, bias=False).double()
                torch.testing.assert_close(own(x, edge_index), change(plain(x, edge_index)))

    def test_a_subclass_that_changes_nothing_stays_one_function(self):
        class Named(LMGConv):
            pass

        assert not Named._own_messages

    @pytest.mark.parametrize(("name", "value"), [("flow", "target_to_source"), ("aggr", "mean")])
    def test_other_directions_and_sums_are_refused(self, name, value):
        x, edge_index = _case()
        layer = _layer()
        setattr(layer, name, value)
        with pytest.raises(ValueError, match=f"flow, aggr: expected .* got .*'{value}'"):
            layer(x, edge_index)


def test_torch_jit_is_refused_in_a_sentence():
    x, edge_index = _case()
    for layer in (_layer(), LMGCStack(x.size(1), 4, 2).to(x.dtype), PolynomialConv(x.size(1), 4, 2).to(x.dtype)):
        for attempt in (torch.jit.script, partial(torch.jit.trace, example_inputs=(x, edge_index))):
            with pytest.raises(RuntimeError, match=r"torch.jit is not supported; use torch.compile or torch.export"):
                attempt(layer)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("ready", [True, False])
class TestFunctionTransforms:
    """torch.func, batched gradients and forward-mode derivatives, against those of plain backward passes."""

    def _loss(self, name, ready):
        x, edge_index = _case()
        layer = _layer(name)
        graph = Graph.from_edge_index(edge_index, NODES) if ready else edge_index
        layer(x, graph)
        return layer, x, graph, lambda value: layer(value, graph)

    def test_grad_and_jacrev(self, name, ready):
        layer, x, graph, apply = self._loss(name, ready)
        leaf = x.clone().requires_grad_()
        expected = torch.autograd.grad(apply(leaf).sin().sum(), leaf)[0]
        torch.testing.assert_close(grad(lambda value: apply(value).sin().sum())(x), expected)
        rows = [torch.autograd.grad(apply(leaf)[node].sum(), leaf)[0] for node in range(3)]
        torch.testing.assert_close(jacrev(lambda value: apply(value).sum(1)[:3])(x), torch.stack(rows))
        weights = {key: value.detach() for key, value in layer.named_parameters()}
        found = grad(lambda given: functional_call(layer, given, (x, graph)).sin().sum())(weights)
        by_hand = torch.autograd.grad(layer(x, graph).sin().sum(), list(layer.parameters()), allow_unused=True)
        for (key, _), value in zip(layer.named_parameters(), by_hand, strict=True):
            torch.testing.assert_close(found[key], torch.zeros_like(found[key]) if value is None else value)

    def test_forward_mode_and_vmap(self, name, ready):
        _, x, _, apply = self._loss(name, ready)
        step = torch.randn_like(x)
        out, tangent = jvp(apply, (x,), (step,))
        torch.testing.assert_close(out, apply(x))
        near = (apply(x + 1e-6 * step) - apply(x - 1e-6 * step)) / 2e-6
        torch.testing.assert_close(tangent, near, rtol=1e-5, atol=1e-6)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, step)
            found = torch.autograd.forward_ad.unpack_dual(apply(dual)).tangent
        torch.testing.assert_close(found, tangent)
        several = torch.stack([x, 2 * x])
        torch.testing.assert_close(vmap(apply)(several), torch.stack([apply(x), apply(2 * x)]))

    def test_batched_gradients(self, name, ready):
        _, x, _, apply = self._loss(name, ready)
        leaf = x.clone().requires_grad_()
        out = apply(leaf)
        directions = torch.randn(3, *out.shape, dtype=torch.float64)
        (found,) = torch.autograd.grad(out, leaf, directions, retain_graph=True, is_grads_batched=True)
        rows = [torch.autograd.grad(out, leaf, direction, retain_graph=True)[0] for direction in directions]
        torch.testing.assert_close(found, torch.stack(rows))
        whole = torch.autograd.functional.jacobian(lambda value: apply(value).sum(1), x, vectorize=True)
        torch.testing.assert_close(whole, torch.autograd.functional.jacobian(lambda value: apply(value).sum(1), x))
