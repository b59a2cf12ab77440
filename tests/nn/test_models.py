"""The models are the ones the paper describes, fit their budget, and see sparse features as dense ones."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.data import MoleculeBatch, laplacian_encoding, load_molecules, load_nodes, random_walk_encoding
from mimogc.methods import method as record_of
from mimogc.methods import names, trained
from mimogc.models.graph_regressor import GraphRegressor
from mimogc.models.laplacian_encoder import LaplacianEncoder
from mimogc.models.node_classifier import NodeClassifier, dropout
from mimogc.models.sparse_features import Encoder, SparseFeatures
from mimogc.models.typed_edges import BondConv, TypedGraph
from mimogc.models.width import fit_width, num_parameters
from mimogc.nn.conv import LMGConv
from mimogc.nn.stack import LMGCStack

METHODS = trained()
BOND_METHODS = names(lambda record: record.scored)

PAPER = ("gatv2", "fagcn", "acm", "gin", "lmgc")


@pytest.fixture
def graph() -> Graph:
    torch.manual_seed(0)
    return Graph.from_edge_index(erdos_renyi_graph(12, 0.3), 12)


def batch_of(sizes: list[int], seed: int = 0, **changes: Tensor) -> MoleculeBatch:
    """A batch of random connected molecules: rings, each with one self-loop per atom."""
    generator = torch.Generator().manual_seed(seed)
    starts = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    edges = []
    for first, last in pairwise(starts):
        ring = torch.arange(first, last)
        edges += [torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])]
    n = starts[-1]
    graph = Graph.from_edge_index(torch.cat(edges, 1), n, add_self_loops=True)
    bond = torch.randint(1, 4, (graph.num_edges,), generator=generator)
    batch = MoleculeBatch(
        atom=torch.randint(0, 28, (n,), generator=generator),
        graph=graph,
        ptr=torch.tensor(starts),
        owner=torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
        y=torch.randn(len(sizes), generator=generator),
        bond=torch.where(graph.src == graph.dst, 0, bond),
        encoding=torch.rand(n, 8, 2, generator=generator),
    )
    return replace(batch, **changes)


class TestNodeClassifier:
    @pytest.mark.parametrize("method", METHODS)
    def test_is_the_model_of_the_paper(self, graph: Graph, method: str) -> None:
        torch.manual_seed(1)
        model = NodeClassifier(7, 6, 3, method).eval()
        x = torch.randn(12, 7)
        h = F.relu(x @ model.encoder.weight + model.encoder.bias)
        if model.gains is not None:
            assert model.gains.tolist() == [0, 0]
            torch.nn.init.normal_(model.gains)
        gains = [1, 1] if model.gains is None else model.gains
        assert (model.gains is None) == (method not in ("lmgc", "lmgc-sym"))
        for layer, gain in zip(model.layers, gains, strict=True):
            h = F.relu(gain * layer(h, graph) + h)
        expected = h @ model.decoder.weight.t() + model.decoder.bias
        torch.testing.assert_close(model(x, graph), expected)
        assert len(model.layers) == 2

    def test_dropout_follows_every_relu(self, graph: Graph) -> None:
        model = NodeClassifier(7, 64, 3, "mlp", dropout=0.5)
        shares = []
        model.layers[0].register_forward_pre_hook(lambda _, args: shares.append((args[0] == 0).float().mean()))
        model.decoder.register_forward_pre_hook(lambda _, args: shares.append((args[0] == 0).float().mean()))
        for mode, expected in ((True, 0.75), (False, 0.5)):  # half is zero by ReLU, half of the rest by dropout
            shares.clear()
            model.train(mode)(torch.randn(12, 7), graph)
            assert shares[0] == pytest.approx(expected, abs=0.15)

    @pytest.mark.parametrize("method", METHODS)
    def test_every_parameter_learns(self, graph: Graph, method: str) -> None:
        model = NodeClassifier(7, 6, 3, method, gain=0.5)
        model(torch.randn(12, 7), graph).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name

    def test_only_the_mlp_ignores_the_graph(self, graph: Graph) -> None:
        x, empty = torch.randn(12, 7), Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 12)
        for method in METHODS:
            model = NodeClassifier(7, 6, 3, method, gain=None).eval()
            assert torch.equal(model(x, graph), model(x, empty)) is (method == "mlp"), method

    def test_labels_are_added_to_the_encoded_features(self, graph: Graph) -> None:
        model = NodeClassifier(5, 8, 3, "gcn", label_input=True).eval()
        x = torch.randn(graph.num_nodes, 5)
        labels = torch.full((graph.num_nodes,), -1)
        torch.testing.assert_close(model(x, graph, labels), model(x, graph))
        labels[:3] = torch.tensor([2, 0, 2])
        # The same as features of their own, one per class.
        columns = torch.nn.functional.one_hot(labels + 1, 4)[:, 1:].float()
        wide, state = NodeClassifier(8, 8, 3, "gcn").eval(), model.state_dict()
        state["encoder.weight"] = torch.cat([state["encoder.weight"], state.pop("label_encoder.weight").t()])
        wide.load_state_dict(state)
        torch.testing.assert_close(model(x, graph, labels), wide(torch.cat([x, columns], dim=1), graph))

    @pytest.mark.parametrize(
        ("labels", "said"),
        [
            (torch.tensor([0, 3] + [-1] * 18), r"labels: expected -1 to 2, got -1 to 3"),
            (torch.tensor([0, -2] + [-1] * 18), r"labels: expected -1 to 2, got -2 to 0"),
            (torch.zeros(20), r"labels: expected torch.int64 \[20\], got torch.float32 \[20\]"),
            (torch.zeros(20, 1, dtype=torch.int64), r"labels: expected torch.int64 \[20\], got torch.int64 \[20, 1\]"),
            (torch.zeros(1, dtype=torch.int64), r"labels: expected torch.int64 \[20\], got torch.int64 \[1\]"),
        ],
    )
    def test_labels_that_do_not_fit_are_refused(self, labels: torch.Tensor, said: str) -> None:
        small = Graph.from_edge_index(torch.randint(0, 20, (2, 40)), 20)
        with pytest.raises(ValueError, match=said):
            NodeClassifier(5, 8, 3, "gcn", label_input=True)(torch.randn(20, 5), small, labels)

    def test_labels_that_are_no_tensor_are_refused(self, graph: Graph) -> None:
        model = NodeClassifier(5, 8, 3, "gcn", label_input=True)
        with pytest.raises(TypeError, match="labels: expected a tensor, got list"):
            model(torch.randn(graph.num_nodes, 5), graph, [0] * graph.num_nodes)

    def test_labels_are_compiled_whole(self, graph: Graph) -> None:
        model = NodeClassifier(5, 8, 3, "gcn", label_input=True).eval()
        given = torch.randn(graph.num_nodes, 5), graph, torch.arange(graph.num_nodes) % 4 - 1
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(*given), model(*given))

    def test_edges_that_are_no_graph_are_refused(self) -> None:
        with pytest.raises(TypeError, match=r"graph: expected a Graph, got Tensor; Graph\.from_edge"):
            NodeClassifier(5, 8, 3, "gcn")(torch.randn(4, 5), torch.tensor([[0, 1], [1, 2]]))

    def test_labels_need_a_model_that_takes_them(self, graph: Graph) -> None:
        labels = torch.zeros(graph.num_nodes, dtype=torch.int64)
        with pytest.raises(ValueError, match="labels: expected none, since the model was built without label_input"):
            NodeClassifier(5, 8, 3, "gcn")(torch.randn(graph.num_nodes, 5), graph, labels)

    @pytest.mark.parametrize("gain", ["zero", float("nan"), [0.0], True])
    def test_a_gain_that_is_none(self, gain: object) -> None:
        with pytest.raises(ValueError, match="gain: expected a finite number, 'auto' or None, got"):
            NodeClassifier(7, 6, 3, gain=gain)

    def test_options_reach_the_layers(self, graph: Graph) -> None:
        model = NodeClassifier(7, 6, 3, "lmgc", layers=3, heads=2, add_self_loops=False)
        assert [layer.heads for layer in model.layers] == [2, 2, 2]
        assert not any(layer.add_self_loops for layer in model.layers)
        for method, heads in {"gatv2": 2, "fagcn": 1, "acm": 3, "gcn": 1}.items():
            assert record_of(method).build(6, heads=2, residual=True).heads == heads


@pytest.mark.parametrize("p", [0.25, 0.5, 0.1, 0.2])
def test_dropout(p: float) -> None:
    torch.manual_seed(0)
    h = torch.ones(401, 999, requires_grad=True)
    out = dropout(h, p)
    assert out.unique().tolist() == pytest.approx([0, 1 / (1 - p)])
    assert (out == 0).double().mean().item() == pytest.approx(p, abs=4e-3)
    columns = (out == 0).double().mean(0)  # no byte of a word, so no column, may be special
    assert columns.min() > p - 0.12
    assert columns.max() < p + 0.12
    assert torch.equal(torch.autograd.grad(out.sum(), h)[0], out.detach())
    dropped = (out == 0).flatten().double() - p
    neighbours = (dropped[1:] * dropped[:-1]).mean() / (p * (1 - p))
    assert abs(float(neighbours)) < 0.02  # entries have draws of their own


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dropout_of_other_types_and_shapes(dtype: torch.dtype) -> None:
    for p in (0.25, 0.2, 1e-12, 1 - 1e-6):
        for h in (torch.ones(0, 4, dtype=dtype), torch.ones(7, 5, dtype=dtype).t(), torch.ones((), dtype=dtype)):
            out = dropout(h, p)
            assert (out.shape, out.dtype) == (h.shape, h.dtype)
    assert torch.equal(dropout(torch.ones(9, dtype=dtype), 1e-12), torch.ones(9, dtype=dtype))


@pytest.mark.parametrize("p", [1.0, 1.3, -0.1, "0.5", True, math.nan])
def test_a_dropout_that_is_no_probability_is_refused(p: object) -> None:
    with pytest.raises(ValueError, match=r"dropout: expected a probability in \[0, 1\), got"):
        NodeClassifier(4, 8, 2, dropout=p)  # type: ignore[arg-type]


class TestSparseFeatures:
    def test_product_and_gradient_equal_the_dense_ones(self) -> None:
        torch.manual_seed(0)
        x = torch.randn(9, 20, dtype=torch.float64) * (torch.rand(9, 20) < 0.2)
        x[3] = 0  # a node without features
        x[:, 5] = 0  # a feature of no node
        sparse = SparseFeatures.from_dense(x)
        weight = torch.randn(20, 4, dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(sparse @ weight, x @ weight)
        upstream = torch.randn(9, 4, dtype=torch.float64)
        ours, theirs = (torch.autograd.grad(f @ weight, weight, upstream)[0] for f in (sparse, x))
        torch.testing.assert_close(ours, theirs)

    def test_on_a_real_bag_of_words(self, datasets: Path) -> None:
        data = load_nodes("texas")
        model = NodeClassifier(data.num_features, 8, data.num_classes).eval()
        graph = data.graph()
        torch.testing.assert_close(model(SparseFeatures.from_dense(data.x), graph), model(data.x, graph))

    def test_wrong_width_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="x: expected 4 features, got 5"):
            Encoder(4, 2)(SparseFeatures.from_dense(torch.ones(3, 5)))

    def test_starts_like_a_linear_layer(self) -> None:
        torch.manual_seed(0)
        weights = Encoder(400, 300).weight, torch.nn.Linear(400, 300).weight
        assert weights[0].std().item() == pytest.approx(weights[1].std().item(), rel=0.02)
        assert weights[0].abs().max() <= 1 / 20


class TestGraphRegressor:
    @pytest.mark.parametrize("method", PAPER)
    @pytest.mark.parametrize("residual", [False, True])
    @pytest.mark.parametrize("jumping_knowledge", [False, True])
    def test_is_the_model_of_the_paper(self, method: str, residual: bool, jumping_knowledge: bool) -> None:
        torch.manual_seed(0)
        batch = batch_of([5, 3, 9])
        model = GraphRegressor(12, method, 3, residual=residual, jumping_knowledge=jumping_knowledge)
        h, seen = model.embedding.weight[batch.atom], []
        stacked = isinstance(model.layers, LMGCStack)
        assert stacked == (method == "lmgc" and not residual and not jumping_knowledge)
        for layer in model.layers.convolutions() if stacked else model.layers:
            h = F.gelu(layer(h, batch.graph)) + (h if residual else 0)
            seen.append(h)
        h = torch.stack(seen).max(0).values if jumping_knowledge else h
        pooled = torch.stack([h[batch.ptr[b] : batch.ptr[b + 1]].sum(0) for b in range(3)])
        expected = model.last(F.gelu(model.hidden(pooled))).flatten()
        torch.testing.assert_close(model(batch), expected)
        assert model(batch).shape == (3,)

    @pytest.mark.parametrize("method", METHODS)
    def test_a_molecule_does_not_depend_on_the_batch(self, method: str) -> None:
        torch.manual_seed(0)
        model = GraphRegressor(12, method, 2).eval()
        both, alone = batch_of([5, 7], seed=3), batch_of([5], seed=3)
        alone = replace(alone, atom=both.atom[:5])
        torch.testing.assert_close(model(both)[:1], model(alone))

    @pytest.mark.parametrize("method", METHODS)
    def test_every_parameter_learns(self, method: str) -> None:
        bonds = method in BOND_METHODS
        model = GraphRegressor(
            12,
            method,
            2,
            encoding="lappe",
            residual=True,
            jumping_knowledge=True,
            batch_norm=True,
            edge_types=4 if bonds else None,
        )
        model(batch_of([28, 28])).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            if "embedding" not in name:
                assert parameter.grad.abs().sum() > 0, name

    def test_acm_has_the_identity_only_with_residual_connections(self) -> None:
        assert [record_of("acm").build(4, residual=residual).heads for residual in (False, True)] == [2, 3]

    @pytest.mark.parametrize("method", PAPER)
    def test_residual_models_start_small(self, method: str) -> None:
        torch.manual_seed(0)
        batch = batch_of([20, 25, 30])
        with torch.no_grad():
            first = GraphRegressor(45, method, 10, residual=True).eval()(batch)
        assert first.abs().max() < 1000
        torch.manual_seed(0)
        plain = GraphRegressor(6, "gatv2", 1)
        torch.manual_seed(0)
        residual = GraphRegressor(6, "gatv2", 1, residual=True)
        torch.testing.assert_close(4 * residual.layers[0].lin.weight, plain.layers[0].lin.weight)

    def test_gains_that_do_not_fit(self) -> None:
        assert NodeClassifier(7, 6, 3, gain=0).gains.tolist() == [0, 0]
        assert GraphRegressor(12, "gin", 2, residual=True, gain=1, learn_gain=True).gains.tolist() == [1, 1]
        for options in ({"gain": 0.5}, {"learn_gain": True}):
            with pytest.raises(ValueError, match="gain: expected 1 in a model without residual connections"):
                GraphRegressor(12, **options)
        with pytest.raises(ValueError, match="gain: expected a finite number"):
            GraphRegressor(12, residual=True, gain=float("nan"))

    @pytest.mark.parametrize("learnt", [False, True])
    def test_the_gain_of_a_branch(self, learnt: bool) -> None:
        torch.manual_seed(0)
        batch = batch_of([5, 3, 9])
        model = GraphRegressor(12, "lmgc", 3, residual=True, gain=0.3, learn_gain=learnt)
        h = model.embedding.weight[batch.atom]
        for layer in model.layers:
            h = h + 0.3 * F.gelu(layer(h, batch.graph))
        pooled = torch.stack([h[batch.ptr[b] : batch.ptr[b + 1]].sum(0) for b in range(3)])
        torch.testing.assert_close(model(batch), model.last(F.gelu(model.hidden(pooled))).flatten())
        assert (model.gains is not None) == learnt

    def test_deep_fagcn_starts_at_nothing(self, datasets: Path) -> None:
        """What the notes on Table 2 say of the paper's FAGCN; not so with residual connections, nor of the others."""
        batch = next(load_molecules("zinc12k").batches(torch.arange(32), 32))
        for method, residual in (("fagcn", False), ("fagcn", True), ("acm", False), ("lmgc", False)):
            torch.manual_seed(0)
            model = GraphRegressor(100, method, 8, residual=residual)
            model(batch).sum().backward()
            gradient = model.embedding.weight.grad
            assert gradient is not None
            assert bool(gradient.any()) == (method != "fagcn" or residual)

    def test_loops_are_asked_for_where_they_are_used(self) -> None:
        wanted = {method: GraphRegressor(4, method, 1).add_self_loops for method in METHODS}
        assert [method for method in METHODS if not wanted[method]] == ["gin", "mlp"]

    def test_real_molecules_with_encodings(self, datasets: Path) -> None:
        molecules = load_molecules("zinc12k")
        for kind, encoding in (("lappe", laplacian_encoding(molecules)), ("rwse", random_walk_encoding(molecules))):
            model = GraphRegressor(16, "lmgc", 2, encoding=kind).eval()
            batch = next(molecules.batches(torch.arange(8), 8, encoding=encoding))
            assert model(batch).isfinite().all()
            other = replace(batch, encoding=batch.encoding.flip(0))
            assert not torch.allclose(model(batch), model(other)), "the encoding changes nothing"

    def test_wrong_arguments(self) -> None:
        with pytest.raises(ValueError, match=r"method: expected one of gcn.*got 'gat2'"):
            GraphRegressor(4, "gat2")
        with pytest.raises(ValueError, match="encoding: expected none, lappe or rwse, got 'pe'"):
            GraphRegressor(16, encoding="pe")
        with pytest.raises(ValueError, match="channels: expected more than the 8"):
            GraphRegressor(8, encoding="lappe")
        some = "gat, gatv2, fagcn, lmgc, eq12, lmgc-sym"
        with pytest.raises(ValueError, match=f"edge features need one of {some}, got 'gin'"):
            GraphRegressor(8, "gin", edge_types=4)
        with pytest.raises(ValueError, match=r"batch\.encoding"):
            GraphRegressor(16, encoding="lappe")(replace(batch_of([4]), encoding=None))


class TestLaplacianEncoder:
    def test_padding_adds_nothing(self) -> None:
        encoder = LaplacianEncoder().eval()
        pairs = torch.rand(5, 8, 2) + 0.1
        pairs[:, 6:] = 0
        owner = torch.zeros(5, dtype=torch.long)
        torch.testing.assert_close(encoder(pairs, owner, 1), encoder(pairs[:, :6], owner, 1))

    def test_signs_are_random_in_training_only_and_shared_by_a_molecule(self) -> None:
        encoder = LaplacianEncoder()
        pairs = torch.ones(6, 1, 2)
        owner = torch.tensor([0, 0, 0, 1, 1, 1])
        seen = torch.stack([encoder(pairs, owner, 2) for _ in range(40)])  # [40, 6, 8]
        assert torch.equal(seen[:, 0], seen[:, 1])
        assert not torch.equal(seen[:, 0], seen[:, 3])
        assert len({tuple(row.tolist()) for row in seen[:, 0]}) == 2
        fixed = torch.stack([encoder.eval()(pairs, owner, 2) for _ in range(10)])
        assert torch.equal(fixed, fixed[:1].expand_as(fixed))


class TestBondConv:
    @pytest.mark.parametrize("coefficients", BOND_METHODS)
    def test_is_its_equation(self, coefficients: str) -> None:
        torch.manual_seed(0)
        batch = batch_of([5, 6])
        graph, types = batch.graph, batch.bond
        layer, x = BondConv(3, 4, 4, heads=4, coefficients=coefficients), torch.randn(11, 3)
        conv = layer.conv
        typed = replace(graph, edge_attr=F.one_hot(types, 4).float())
        alpha, weight = conv.operator(x, typed)
        bias = torch.randn(4)
        layer.bias.data.copy_(bias)
        expected = bias.repeat(11, 1)
        for e in range(graph.num_edges):
            for k in range(alpha.size(1)):
                message = x[graph.src[e]] @ weight[k] + layer.message[types[e] * alpha.size(1) + k]
                expected[graph.dst[e]] += alpha[e, k] * message
        torch.testing.assert_close(layer(x, TypedGraph.of(graph, types, 4, x.dtype)), expected)

    def test_wrong_arguments(self) -> None:
        batch = batch_of([5])
        kinds = torch.zeros(15, dtype=torch.int64)
        for place, found in ((3, "0 to 3"), (-1, "-1 to 0")):
            kinds[4] = place
            with pytest.raises(ValueError, match=f"kinds: expected types from 0 to 2, got {found}"):
                TypedGraph.of(batch.graph, kinds, 3, torch.float32)
        with pytest.raises(TypeError, match=r"kinds: expected int64, got torch\.float32"):
            TypedGraph.of(batch.graph, torch.zeros(15), 3, torch.float32)
        with pytest.raises(ValueError, match=r"kinds: expected shape \[15\], got \[3\]"):
            TypedGraph.of(batch.graph, torch.zeros(3, dtype=torch.long), 4, torch.float32)
        plain = Graph.from_edge_index(torch.tensor([[0], [1]]), 5)
        typed = TypedGraph.of(plain, torch.ones(1, dtype=torch.long), 4, torch.float32)
        with pytest.raises(ValueError, match="graph: expected one with self-loops"):
            BondConv(3, 4, 4)(torch.randn(5, 3), typed)
        layer = BondConv(3, 4, 4, add_self_loops=False)
        for x, error, message in (
            (torch.randn(5, 3).double(), TypeError, "x: expected torch.float32"),
            (torch.randn(5, 2), ValueError, r"x: expected shape \[N, 3\]"),
            (torch.randn(4, 3), ValueError, r"edge_index: expected a Graph on \(4, 4\)"),
        ):
            with pytest.raises(error, match=message):
                layer(x, typed)
        with pytest.raises(TypeError, match="graph: expected a TypedGraph, got Graph"):
            layer(torch.randn(5, 3), plain)


class TestTypedStack:
    """Layers on typed edges that are one function, beside the same ones called one by one."""

    @staticmethod
    def pair(method: str = "lmgc", **options: Any) -> tuple[GraphRegressor, GraphRegressor]:
        torch.manual_seed(0)
        together = GraphRegressor(24, method, 3, edge_types=4, **options)
        one_by_one = copy.deepcopy(together)
        one_by_one.layers[1].register_forward_hook(lambda *_: None)
        return together, one_by_one

    @pytest.mark.parametrize("method", ["lmgc", "eq12", "gatv2"])
    @pytest.mark.parametrize("norm", [False, True])
    @pytest.mark.parametrize("residual", [False, True])
    def test_is_the_same(self, method: str, norm: bool, residual: bool) -> None:
        models = self.pair(method, batch_norm=norm, residual=residual)
        batch = batch_of([5, 9, 14])
        for training in (True, True, False):
            outs = [model.train(training)(batch) for model in models]
            torch.testing.assert_close(*outs, rtol=0, atol=0)
            for model, out in zip(models, outs, strict=True):
                model.zero_grad()
                out.square().sum().backward()
            for one, other in zip(*(model.parameters() for model in models), strict=True):
                torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=0)
            for one, other in zip(*(model.buffers() for model in models), strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=0)

    def test_is_one_function(self) -> None:
        calls = []
        for model in self.pair(batch_norm=True, residual=True):
            with record_calls(BondConv) as seen:
                model(batch_of([5, 9]))
            calls.append(len(seen))
        assert calls == [0, 3]

    def test_what_has_to_be_called_is_called(self) -> None:
        batch = batch_of([5, 9])
        for change in (
            lambda model: model.norms[0].register_forward_hook(lambda *_: None),
            lambda model: model.layers[0].conv.lin.register_forward_hook(lambda *_: None),
            lambda model: setattr(model.norms[0], "momentum", None),
            lambda model: setattr(model.norms[0], "track_running_stats", False),
            lambda model: model.norms.__setitem__(0, torch.nn.LayerNorm(24)),
            lambda model: setattr(model.layers[0].conv.coefficients, "negative_slope", 0.1),
        ):
            model, _ = self.pair(batch_norm=True, residual=True)
            change(model)
            with record_calls(BondConv) as seen:
                model(batch)
            assert len(seen) == 3

    def test_a_replaced_parameter_is_named(self) -> None:
        model, _ = self.pair(batch_norm=True, residual=True)
        model.layers[1].conv.coefficients.att = torch.nn.Parameter(torch.zeros(8, 7))
        with pytest.raises(ValueError, match="att: expected shape"):
            model(batch_of([5, 9]))

    @pytest.mark.parametrize("training", [False, True])
    def test_compiles_without_a_graph_break(self, training: bool) -> None:
        model, _ = self.pair(batch_norm=True, residual=True)
        batch = batch_of([5, 9])
        wanted = copy.deepcopy(model).train(training)(batch)
        found = torch.compile(model.train(training), backend="eager", fullgraph=True)(batch)
        torch.testing.assert_close(found, wanted)

    def test_what_layers_refuse_is_refused(self) -> None:
        model, _ = self.pair(batch_norm=True, residual=True)
        model.layers[1].conv.flow = "target_to_source"
        with pytest.raises(ValueError, match="flow, aggr: expected 'source_to_target'"):
            model(batch_of([5, 9]))

    def test_norms_of_another_type(self) -> None:
        models = [model.bfloat16() for model in self.pair(batch_norm=True, residual=True)]
        for model in models:
            model.norms.float()
        torch.testing.assert_close(*(model(batch_of([5, 9])) for model in models), rtol=0, atol=0)

    @pytest.mark.parametrize("frozen", [1, 2])
    def test_the_first_layers_are_frozen(self, frozen: int) -> None:
        models = self.pair(batch_norm=True, residual=True)
        for model in models:
            for part in (model.embedding, *model.layers[:frozen], *model.norms[:frozen]):
                part.requires_grad_(False)
            model(batch_of([5, 9])).square().sum().backward()
        for one, other in zip(*(model.parameters() for model in models), strict=True):
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None:
                torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=0)


@contextmanager
def record_calls(kind: type[torch.nn.Module]) -> Iterator[list[torch.nn.Module]]:
    """The modules of this class whose forward is called."""
    seen: list[torch.nn.Module] = []
    forward = kind.forward

    def recorded(module: torch.nn.Module, *args: Any) -> Any:
        seen.append(module)
        return forward(module, *args)

    kind.forward = recorded
    try:
        yield seen
    finally:
        kind.forward = forward


def builders() -> dict[str, Callable[[int], torch.nn.Module]]:
    found: dict[str, Callable[[int], torch.nn.Module]] = {}
    for method in METHODS:
        found[f"texas {method}"] = lambda width, method=method: NodeClassifier(1703, width, 5, method)
        found[f"zinc {method}"] = lambda width, method=method: GraphRegressor(width, method, 6)
    found["zinc all three"] = lambda width: GraphRegressor(
        width, "lmgc", 10, encoding="lappe", residual=True, jumping_knowledge=True
    )
    return found


class TestFitWidth:
    @pytest.mark.parametrize("name", builders())
    def test_is_the_largest_that_fits(self, name: str) -> None:
        build = builders()[name]
        width = fit_width(build, 100_000)
        wider = width + (2 if name.endswith("sheaf") else 1)  # its stalks have two dimensions
        assert num_parameters(build(width)) <= 100_000 < num_parameters(build(wider))

    def test_leaves_the_random_state(self) -> None:
        before = torch.random.get_rng_state()
        fit_width(lambda width: LMGConv(3, width), 1000)
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_a_layer_that_needs_its_weights_to_be_built(self) -> None:
        def build(width: int) -> torch.nn.Module:
            layer = torch.nn.Linear(3, width)
            layer.scale = layer.weight.detach().std().item()
            return layer

        before = torch.random.get_rng_state()
        assert fit_width(build, 1000) == 250
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_too_small_a_budget(self) -> None:
        with pytest.raises(ValueError, match="budget: 10 parameters are too few"):
            fit_width(lambda width: NodeClassifier(1703, width, 5), 10)
        with pytest.raises(ValueError, match="budget: 100 parameters are too few"):
            fit_width(lambda width: GraphRegressor(width, encoding="lappe"), 100)

    def test_a_wrong_model_is_reported(self) -> None:
        with pytest.raises(ValueError, match="method: expected one of"):
            fit_width(lambda width: NodeClassifier(10, width, 5, "no such method"), 1000)
