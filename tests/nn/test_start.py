"""How layers start: offsets, the scale of features and gradients, and what `calibrate` promises."""

import copy
import math
import socket
from pathlib import Path

import pytest
import torch
import torch.multiprocessing
import torch.nn.utils.prune
from torch.nn import functional as F

import calibrate_process
from graphs import AWKWARD, awkward, random_edges
from mimogc import Graph
from mimogc.data import load_molecules, load_nodes
from mimogc.nn import BondConv, GraphRegressor, LMGConv, NodeClassifier, TypedGraph, calibrate
from mimogc.nn.coefficients import FAGCN, LMGC, Coefficients, Eq12, GATv2
from mimogc.nn.coefficients.lmgc import DEPTH, SCORES
from mimogc.theory import check_injectivity
from stacks import NODES, Stack, case, erdos_renyi


def _rms(value):
    return float(value.double().square().mean().sqrt())


class TestStartWithoutData:
    @pytest.mark.parametrize(
        ("heads", "expected"), [(1, [0.5]), (2, [0.5, -0.5]), (3, [0.25, -0.25, 0.75]), (4, [0.25, -0.25, 0.75, -0.75])]
    )
    def test_offsets_are_spread_with_both_signs(self, heads, expected):
        layer = LMGConv(5, 6, heads=heads)
        for _ in range(2):
            torch.testing.assert_close(torch.tanh(layer.coefficients.offset), torch.tensor(expected))
            layer.coefficients.offset.data.zero_()
            layer.reset_parameters()

    def test_eq12_has_none(self):
        assert LMGConv(5, 6, coefficients="eq12").coefficients.offset is None
        assert isinstance(LMGConv(5, 6).coefficients, LMGC)
        assert not isinstance(LMGConv(5, 6).coefficients, Eq12)

    @pytest.mark.parametrize("degree", [2, 3, 4, 6, 8])
    def test_scale_of_the_first_four_layers(self, degree):
        """The bar of the start: features and gradients within a factor of ten (here the mean of four draws)."""
        scales, gradients = [], []
        for seed in range(4):
            graph = erdos_renyi(400, degree, seed)
            torch.manual_seed(seed)
            model, x = Stack(64, 4), torch.randn(400, 64)
            out = model(x, graph)
            for value in model.seen:
                value.retain_grad()
            out.backward(torch.randn_like(out))
            scales.append([float(F.gelu(value).std()) for value in model.seen])
            norms = [_rms(value.grad) for value in model.seen]
            gradients.append(norms[0] / norms[-1])
        for values in zip(*scales, strict=True):
            assert 0.1 < math.exp(sum(map(math.log, values)) / 4) < 10
        assert 0.1 < math.exp(sum(map(math.log, gradients)) / 4) < 10

    def test_eq12_would_fail_it(self):
        torch.manual_seed(0)
        model = Stack(64, 4, coefficients="eq12")
        model(torch.randn(400, 64), erdos_renyi(400, 8))
        assert float(F.gelu(model.seen[-1]).std()) > 10

    @pytest.mark.parametrize("combine", ["sum", "mean", "concat"])
    def test_the_scale_does_not_depend_on_how_graphs_are_combined(self, combine):
        torch.manual_seed(0)
        layer = LMGConv(64, 64, combine=combine)
        found = _rms(layer.linear(torch.randn(500, 64), erdos_renyi(500, 4)))
        assert 0.5 < found < 2

    def test_a_lazy_layer_starts_like_others(self):
        graph, x = erdos_renyi(300, 4), torch.randn(300, 32)
        torch.manual_seed(0)
        lazy, known = LMGConv(-1, 64), LMGConv(32, 64)
        lazy(x, graph)
        assert float(lazy.lin.weight.detach().std()) == pytest.approx(float(known.lin.weight.detach().std()), rel=0.1)
        assert float(lazy.coefficients.att.detach().std()) == pytest.approx(
            float(known.coefficients.att.detach().std()), rel=0.1
        )

    def test_shared_coefficients_start_once(self):
        coefficients = LMGC(8, 16)
        first, second = LMGConv(-1, 16, coefficients=coefficients), LMGConv(-1, 16, coefficients=coefficients)
        x, graph = torch.randn(30, 8), erdos_renyi(30, 4)
        first(x, graph)
        before = _rms(coefficients.att.detach())
        second(x, graph)
        assert _rms(coefficients.att.detach()) == pytest.approx(before, rel=0.1)
        lazy, known = BondConv(-1, 16, 4), BondConv(8, 16, 4)
        typed = TypedGraph.of(
            graph.with_self_loops(), torch.zeros(graph.with_self_loops().num_edges).long(), 4, x.dtype
        )
        lazy(x, typed)
        assert _rms(lazy.conv.lin.weight.detach()) == pytest.approx(_rms(known.conv.lin.weight.detach()), rel=0.1)

    def test_lazy_pairs(self):
        layer = LMGConv((-1, -1), 64)
        source, target = torch.randn(30, 8), torch.randn(20, 50)
        edges = torch.stack([random_edges(30, 90)[0], random_edges(20, 90)[1]])
        assert layer((source, target), edges).shape == (20, 64)
        assert float(layer.lin.weight.abs().max()) > float(layer.lin_dst.weight.abs().max())  # fewer inputs

    def test_scores_are_small_beside_the_offsets(self):
        torch.manual_seed(0)
        layer, x = LMGConv(64, 64), torch.randn(500, 64)
        h = layer.lin(x).view(-1, 4, 64)
        s, t = layer.coefficients.scores((h, h))
        assert _rms(s - layer.coefficients.offset + t) == pytest.approx(SCORES / DEPTH, rel=0.3)

    @pytest.mark.parametrize(("name", "ratio"), [("lmgc", 41 / 5), ("lmgc-sym", 1.0)])
    def test_many_neighbours_are_loud_unless_degrees_divide(self, name, ratio):
        torch.manual_seed(0)
        layer, x = LMGConv(64, 64, coefficients=name), torch.randn(64).expand(100, 64).contiguous()

        def scale(degree):
            steps, nodes = torch.arange(1, degree + 1), torch.arange(100)
            edges = torch.stack([nodes.repeat_interleave(degree), (nodes[:, None] + steps).flatten() % 100])
            return _rms(layer(x, edges))

        assert scale(40) / scale(4) == pytest.approx(ratio, rel=1e-4)
        if name == "lmgc-sym":
            assert 0.5 < scale(4) < 3  # features that are alike stay at about unit scale, without `calibrate`

    def test_the_gate_is_injective_from_its_start(self):
        torch.manual_seed(0)
        elements = torch.randn(3, 4, dtype=torch.float64)
        layer = LMGConv(4, 8, bias=False, add_self_loops=False).double()
        assert check_injectivity(layer, elements, 3).counterexample is None


class TestAffineMaps:
    @pytest.mark.parametrize("name", ["lmgc", "eq12", "lmgc-sym", "gcn", "gat", "gatv2", "fagcn", "acm", "gated"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_every_map_has_a_bias(self, name, dtype):
        x, graph = torch.randn(12, 5, dtype=dtype), Graph.from_edge_index(random_edges(12, 40), 12)
        layer = LMGConv(5, 6, coefficients=name, affine=True).to(dtype)
        before = layer(x, graph)
        torch.nn.init.normal_(layer.lin.bias)
        assert not torch.allclose(layer(x, graph), before)
        layer(x, graph).sum().backward()
        assert layer.lin.bias.grad.abs().sum() > 0

    @pytest.mark.parametrize("options", [{}, {"combine": "mean"}, {"coefficients": "eq12"}])
    def test_equals_plain_torch(self, options):
        torch.manual_seed(0)
        x, edge_index = torch.randn(12, 5, dtype=torch.float64), random_edges(12, 40)
        layer = LMGConv(5, 6, affine=True, **options).double()
        torch.nn.init.normal_(layer.lin.bias)
        out, (edges, alpha) = layer(x, edge_index, return_attention_weights=True)
        torch.testing.assert_close(layer(x, edge_index), out)
        h = (x @ layer.lin.weight.t() + layer.lin.bias).view(12, 4, 6)
        expected = torch.zeros(12, 6, dtype=torch.float64)
        expected.index_add_(0, edges[1], (alpha.unsqueeze(-1) * h[edges[0]]).sum(1))
        expected = expected / 4 if options.get("combine") == "mean" else expected
        torch.testing.assert_close(out, expected)

    def test_off_unless_asked_for(self):
        assert LMGConv(5, 6).lin.bias is None


def test_fagcn_with_an_offset_does_not_start_at_zero():
    torch.manual_seed(0)
    graph, x = erdos_renyi(60, 3), 0.1 * torch.randn(60, 16)
    plain = torch.nn.ModuleList(LMGConv(16, 16, coefficients=FAGCN(16)) for _ in range(8))
    gated = torch.nn.ModuleList(LMGConv(16, 16, coefficients=FAGCN(16, offset=True)) for _ in range(8))
    for layers, fades in ((plain, True), (gated, False)):
        out = x
        for layer in layers:
            out = layer(out, graph)
        assert (_rms(out) < 1e-20) is fades


class TestCalibrate:
    @pytest.mark.parametrize("residual", [False, True])
    @pytest.mark.parametrize("name", ["lmgc", "eq12", "lmgc-sym"])
    @pytest.mark.parametrize("combine", ["sum", "mean", "concat"])
    def test_every_output_has_unit_scale(self, name, combine, residual):
        if combine == "concat":
            model, x, graph = case(1, coefficients=name, combine=combine)
            model.residual = False
        else:
            model, x, graph = case(5, coefficients=name, combine=combine, residual=residual)
        factors = calibrate(model, x, graph)
        model(x, graph)
        assert [_rms(out) for out in model.seen] == pytest.approx([1] * len(model.layers), rel=2e-3)
        assert list(factors) == [f"layers.{i}" for i in range(len(model.layers))]

    def test_a_scale_of_ones_own(self):
        model, x, graph = case(3, residual=True)
        calibrate(model, x, graph, scale=0.25)
        model(x, graph)
        assert [_rms(out) for out in model.seen] == pytest.approx([0.25] * 3, rel=2e-3)
        before = copy.deepcopy(model.state_dict())
        calibrate(model, x, graph, scale=0.25)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        for wrong in (0.0, -1.0, math.inf, math.nan, True, "1"):
            with pytest.raises(ValueError, match="scale: expected a positive number"):
                calibrate(model, x, graph, scale=wrong)

    @pytest.mark.parametrize("size", [1e-30, 1e-12, 1e-6, 1e3, 1e12])
    def test_a_second_time_changes_nothing_whatever_the_size_of_the_features(self, size):
        graph, x = erdos_renyi(100, 4, 0), size * torch.randn(100, 16)
        layer = LMGConv(16, 16)
        calibrate(layer, x, graph)
        before = copy.deepcopy(layer.state_dict())
        assert calibrate(layer, x, graph)[""] == pytest.approx(1, abs=1e-3)
        assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())

    def test_autocast_changes_nothing(self):
        graph, x = erdos_renyi(100, 4, 0), torch.randn(100, 16)
        model = Stack(16, 4)
        twin = copy.deepcopy(model)
        calibrate(model, x, graph)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            calibrate(twin, x, graph)
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in twin.state_dict().items())

    def test_a_second_time_changes_nothing(self):
        model, x, graph = case(6)
        calibrate(model, x, graph)
        before = copy.deepcopy(model.state_dict())
        calibrate(model, x, graph)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def test_same_bits_and_no_random_numbers(self):
        results = []
        for _ in range(2):
            model, x, graph = case(4)
            state = torch.get_rng_state()
            calibrate(model, x, graph)
            assert torch.equal(torch.get_rng_state(), state)
            results.append(model.state_dict())
        assert all(torch.equal(value, results[1][name]) for name, value in results[0].items())

    def test_coefficients_do_not_depend_on_the_scale_of_the_features(self):
        found = []
        for scale in (1e-3, 1.0, 1e3):
            model, x, graph = case(1)
            calibrate(model, scale * x, graph)
            _, (_, alpha) = model.layers[0](scale * x, graph, return_attention_weights=True)
            found.append(alpha)
        torch.testing.assert_close(found[0], found[1], rtol=2e-3, atol=2e-4)
        torch.testing.assert_close(found[2], found[1], rtol=2e-3, atol=2e-4)

    def test_eq12_keeps_its_coefficients(self):
        model, x, graph = case(1, coefficients="eq12")
        _, (_, before) = model.layers[0](x, graph, return_attention_weights=True)
        calibrate(model, x, graph)
        _, (_, after) = model.layers[0](x, graph, return_attention_weights=True)
        torch.testing.assert_close(before, after, rtol=1e-4, atol=1e-5)

    def test_modes_hooks_and_statistics_stay(self):
        model = torch.nn.ModuleDict({"stack": case(2)[0], "norm": torch.nn.BatchNorm1d(16)})
        _, x, graph = case(2)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = model

            def forward(self, x, graph):
                return F.dropout(self.parts["norm"](self.parts["stack"](x, graph)), 0.5, self.training)

        whole = Model().train()
        whole.parts["norm"].eval()
        statistics = copy.deepcopy(whole.parts["norm"].state_dict())
        calibrate(whole, x, graph)
        assert whole.training
        assert not whole.parts["norm"].training
        assert all(torch.equal(value, statistics[name]) for name, value in whole.parts["norm"].state_dict().items())
        assert not any(layer._forward_pre_hooks for layer in whole.parts["stack"].layers)
        assert all(parameter.grad is None for parameter in whole.parameters())

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda model: model.layers[2].lin.weight.data.zero_(), "layer 'layers.2' is zero"),
            (lambda model: model.layers[1].lin.weight.data.fill_(torch.nan), "layer 'layers.1' is not finite"),
            (lambda model: model.layers[0].lin.weight.data.fill_(torch.inf), "layer 'layers.0' is not finite"),
        ],
    )
    def test_what_cannot_be_scaled_is_named_and_left_alone(self, spoil, message):
        model, x, graph = case(4)
        spoil(model)
        before = copy.deepcopy(model.state_dict())
        with pytest.raises(ValueError, match=message):
            calibrate(model, x, graph)
        after = model.state_dict()
        assert all(torch.equal(after[name].nan_to_num(7), value.nan_to_num(7)) for name, value in before.items())
        assert not any(layer._forward_pre_hooks for layer in model.layers)

    def test_no_nodes(self):
        model, _, _ = case(1)
        nodes, edges = awkward("no nodes")
        with pytest.raises(ValueError, match="expected an input with nodes"):
            calibrate(model, torch.zeros(nodes, 16), edges)

    @pytest.mark.parametrize("name", [name for name in AWKWARD if name != "no nodes"])
    def test_awkward_graphs(self, name):
        model, _, _ = case(3)
        nodes, edges = awkward(name)
        x = torch.randn(nodes, 16)
        calibrate(model, x, edges)
        model(x, edges)
        assert [_rms(out) for out in model.seen] == pytest.approx([1] * 3, rel=5e-3)

    def test_a_model_without_such_layers(self):
        with pytest.raises(ValueError, match=r"model: expected one with LMGConv layers of LMGC .* got Linear"):
            calibrate(torch.nn.Linear(3, 3), torch.randn(2, 3))
        model, x, graph = case(2, coefficients="gcn")
        with pytest.raises(ValueError, match="LMGC"):
            calibrate(model, x, graph)

    @pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "fagcn", "acm", "gated", "sheaf"])
    def test_other_coefficients_where_asked_for(self, name):
        model, x, graph = case(4, coefficients=name)
        calibrate(model, x, graph, only=Coefficients)
        model(x, graph)
        assert [_rms(out) for out in model.seen] == pytest.approx([1] * 4, rel=2e-3)

    def test_gatv2_with_two_maps_cannot(self):
        coefficients = GATv2(16, 16, share_weights=False)
        layer = LMGConv(16, 16, coefficients=coefficients)
        with pytest.raises(ValueError, match="GATv2 can be scaled with shared weights"):
            calibrate(layer, torch.randn(NODES, 16), erdos_renyi(NODES, 5), only=Coefficients)

    def test_a_layer_by_itself_shared_or_not_called(self):
        layer, x, graph = LMGConv(16, 16), torch.randn(NODES, 16), erdos_renyi(NODES, 5)
        assert list(calibrate(layer, x, graph)) == [""]
        model, x, graph = case(2)
        model.layers[1] = model.layers[0]
        assert list(calibrate(model, x, graph)) == ["layers.0"]
        model, x, graph = case(2)
        model.unused = LMGConv(3, 3)
        with pytest.warns(UserWarning, match="did not call unused"):
            calibrate(model, x, graph)

    def test_bipartite_edges_and_lazy_layers(self):
        source, target, attributes = torch.randn(30, 8), torch.randn(20, 50), torch.randn(90, 3)
        edges = torch.stack([random_edges(30, 90)[0], random_edges(20, 90)[1]])
        layer = LMGConv((-1, -1), 8, edge_dim=3, add_self_loops=False)
        calibrate(layer, (source, target), edges, edge_attr=attributes)
        assert _rms(layer((source, target), edges, attributes)) == pytest.approx(1, rel=2e-3)

    @pytest.mark.parametrize("change", ["orthogonal", "weight_norm", "pruned", "own"])
    def test_a_layer_that_does_not_follow_its_weights_is_named(self, change):
        class Own(Coefficients):
            def forward(self, x, h, graph):
                return torch.tanh(h[0].mean(-1))[graph.src]

        layer, x, graph = LMGConv(16, 16), torch.randn(NODES, 16), erdos_renyi(NODES, 5)
        if change == "orthogonal":
            torch.nn.utils.parametrizations.orthogonal(layer.lin, "weight")
        elif change == "weight_norm":
            torch.nn.utils.parametrizations.weight_norm(layer.coefficients, "att")
        elif change == "pruned":
            torch.nn.utils.prune.l1_unstructured(layer.coefficients, "att", 0.5)
        else:
            layer = LMGConv(16, 16, coefficients=Own(4))
        before = layer(x, graph)
        with pytest.raises(ValueError, match=r"does not follow its weights|has a parametrization"):
            calibrate(layer, 5 * x, graph, only=Coefficients)
        torch.testing.assert_close(layer(x, graph), before)

    def test_shared_parameters_and_wrong_arguments(self):
        model, x, graph = case(2)
        model.layers[1].lin = model.layers[0].lin
        with pytest.raises(ValueError, match=r"layers 'layers\.0' and 'layers\.1' share a parameter"):
            calibrate(model, x, graph)
        for only in ("gcn", (LMGC,)):
            with pytest.raises(TypeError, match="only: expected a class of coefficients"):
                calibrate(case(1)[0], x, graph, only=only)
        with pytest.raises(TypeError, match="model: expected a module, got list"):
            calibrate([LMGConv(3, 3)], x, graph)

    def test_a_model_that_asks_for_attention_weights(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = LMGConv(16, 16)

            def forward(self, x, graph):
                return self.conv(x, graph, return_attention_weights=True)[0]

        model, x, graph = Model(), torch.randn(NODES, 16), erdos_renyi(NODES, 5)
        calibrate(model, x, graph)
        assert _rms(model(x, graph)) == pytest.approx(1, rel=2e-3)

    def test_bonds(self):
        torch.manual_seed(0)
        graph = erdos_renyi(NODES, 4).with_self_loops()
        typed = TypedGraph.of(graph, torch.randint(0, 4, (graph.num_edges,)), 4, torch.float32)
        layer, x = BondConv(16, 16, 4), torch.randn(NODES, 16)
        assert list(calibrate(layer, x, typed)) == [""]
        assert _rms(layer(x, typed)) == pytest.approx(1, rel=2e-3)

    def test_the_models_of_the_paper(self, datasets: Path):
        molecules = load_molecules("zinc12k")
        batch = next(iter(molecules.batches(molecules.split("train")[:64], 64, True)))
        torch.manual_seed(0)
        model = GraphRegressor(45, "lmgc", 10)
        calibrate(model, batch)
        given = (model.embedding.weight, batch.graph, batch.atom)
        for conv, (h, graph) in model.layers.one_by_one(*given):
            assert _rms(conv.linear(h, graph)) == pytest.approx(1, rel=5e-3)
        for options in ({"residual": True}, {"residual": True, "jumping_knowledge": True}):
            torch.manual_seed(0)
            model = GraphRegressor(45, "lmgc", 10, **options)
            calibrate(model, batch)
            outputs = []
            for layer in model.layers:
                layer.register_forward_pre_hook(
                    lambda layer, args, seen=outputs: seen.append(_rms(layer.linear(*args)))
                )
            predicted = model(batch)
            assert outputs == pytest.approx([1] * 10, rel=5e-3)
            assert float(predicted.detach().abs().max()) < 100
        texas = load_nodes("texas")
        classifier = NodeClassifier(texas.num_features, 32, texas.num_classes, dropout=0.5)
        calibrate(classifier, texas.x, texas.graph())
        scores = classifier(texas.x, texas.graph())
        assert float(F.cross_entropy(scores, texas.y)) < 2 * math.log(texas.num_classes)

    @pytest.mark.parametrize(
        ("graph_name", "depth"),
        [
            *((name, depth) for name in ("random", "zinc") for depth in (2, 8, 32, 64)),
            *(pytest.param("squirrel", depth, marks=pytest.mark.kernels) for depth in (2, 64)),  # long in plain torch
        ],
    )
    def test_depth(self, graph_name, depth, datasets: Path):
        """The scale of features at any depth; that of gradients where the activation does not change it by itself."""
        graph = _graph(graph_name)
        torch.manual_seed(0)
        model, x = Stack(32, depth), torch.randn(graph.num_nodes, 32)
        calibrate(model, x, graph)
        with torch.no_grad():
            model(x, graph)
        assert all(0.1 < float(F.gelu(out).std()) < 10 for out in model.seen)


def _graph(name: str) -> Graph:
    if name == "random":
        return erdos_renyi(64, 6)
    if name == "squirrel":
        return load_nodes("squirrel").graph()
    molecules = load_molecules("zinc12k")
    return next(iter(molecules.batches(molecules.split("train")[:32], 32, True))).graph


@pytest.mark.kernels  # the same with every backend
@pytest.mark.parametrize("spoil", [False, True])
def test_rank_0_decides(tmp_path: Path, spoil: bool):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(calibrate_process.rank, (port, str(tmp_path), spoil), nprocs=2)
    if spoil:
        assert "layer 'layers.1' is zero" in (tmp_path / "error0").read_text()
        assert "calibrate failed on rank 0: ValueError: " in (tmp_path / "error1").read_text()
        return
    (first, factors), (second, nothing) = (torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1))
    assert nothing == {}
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    model, x, graph = case(3, seed=0)
    assert calibrate(model, x, graph) == factors
    assert all(torch.equal(value, first[name]) for name, value in model.state_dict().items())
