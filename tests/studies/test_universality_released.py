"""The setting `released`: its layers against plain ones, its loss, its clipping, its place in the table."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv, GCNConv, GINConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops

from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.study import Options, complete
from mimogc.studies.universality import SETTINGS, STUDY, initial_layer, problem, train_runs
from mimogc.training.batched import Batched, Problem, batched_form, train
from mimogc.training.batched import released as forms


def double(task: Problem) -> Problem:
    return Problem(task.graph, task.x.double(), task.y.double())


def batch_of(method: str, seeds: range) -> tuple[Batched, list[Any], list[Problem]]:
    layers = [initial_layer(method, 64, seed, released=True).double() for seed in seeds]
    tasks = [double(problem(64, seed)) for seed in seeds]
    with torch.no_grad():
        model = batched_form(method, released=True)(layers, tasks)
    model.absolute, model.limit = True, forms.LIMIT
    return model, layers, tasks


def plain(method: str, layer: Any, x: Tensor, edges: Tensor) -> Tensor:
    """The layer as one writes it with PyG and messages on every edge."""
    n, c = x.shape
    if method == "gatv2":
        return layer(x, edges)
    if method == "gin":
        return layer["after"](GINConv(torch.nn.Identity())(layer["before"](x), edges))  # it would draw weights anew
    if method == "fagcn":
        _, norm = gcn_norm(edges, num_nodes=n, add_self_loops=False, dtype=x.dtype)
        ends = torch.cat([x[edges[1]], x[edges[0]]], 1)
        alpha = torch.tanh(layer["score"](ends)) * norm.unsqueeze(1)  # [E, 1]
        message = alpha.unsqueeze(-1) * layer["lin"](x)[edges[0]]  # [E, E, C]: every alpha with every source
        return x.new_zeros(n, len(norm), c).index_add(0, edges[1], message).mean(1)
    if method == "lmgc":
        edges, _ = add_self_loops(edges, num_nodes=n)
        h = layer["lin"](x)
        ends = torch.cat([h[edges[1]], h[edges[0]]], 1)
        alpha = torch.tanh(layer["score"](F.leaky_relu(ends, 0.2))).unsqueeze(-1)
        return x.new_zeros(n, 4, c).index_add(0, edges[1], alpha * h.view(n, 4, c)[edges[0]]).mean(1)
    assert method == "acm"
    low = GCNConv(c, c, normalize=False, add_self_loops=False).double()
    _, norm = gcn_norm(edges, num_nodes=n, add_self_loops=False, dtype=x.dtype)
    with_loops, rest = add_self_loops(edges, 1 - norm, fill_value=1.0, num_nodes=n)
    parts = []
    for name, index, weight in (("low", edges, norm), ("high", with_loops, rest)):
        values = {"lin.weight": layer[name].weight, "bias": layer[name].bias}
        parts.append(torch.func.functional_call(low, values, (x, index, weight)).relu())
    parts.append(layer["own"](x).relu())
    gates = torch.cat([part @ gate.unsqueeze(1) for part, gate in zip(parts, layer.gate, strict=True)], 1)
    share = torch.softmax(gates.sigmoid() @ layer.mix / 3, 1)
    return 3 * sum(share[:, k : k + 1] * part for k, part in enumerate(parts))


@pytest.mark.parametrize("method", ["gatv2", "fagcn", "acm", "gin", "lmgc"])
def test_outputs_and_gradients_are_those_of_the_plain_layers(method: str) -> None:
    model, layers, tasks = batch_of(method, range(2))
    model.limit = math.inf
    with torch.no_grad():
        squared, absolute = model.errors()
        outputs = model.forward()
    for i, (layer, task) in enumerate(zip(layers, tasks, strict=True)):
        out = plain(method, layer, task.x, task.graph.edge_index)
        torch.testing.assert_close(outputs[i], out.detach(), rtol=1e-9, atol=1e-11)
        loss = F.l1_loss(out, task.y)
        names, parameters = zip(*layer.named_parameters(), strict=True)
        gradients = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
        assert math.isclose(float(absolute[i]), float(loss.detach()), rel_tol=1e-9)
        assert math.isclose(float(squared[i]), float(F.mse_loss(out.detach(), task.y)), rel_tol=1e-9)
        for found, expected in zip(model.slopes, model.pack(gradients), strict=True):
            torch.testing.assert_close(found[i], expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("options", [{"share_weights": True, "bias": False}, {"add_self_loops": True}])
def test_gatv2_follows_the_options_of_pygs_layer(options: dict[str, bool]) -> None:
    layer = GATv2Conv(16, 16, heads=4, concat=False, **{"add_self_loops": False, **options}).double()
    task = double(problem(64, 0))
    with torch.no_grad():
        found = forms.GATv2([layer], [task]).forward()[0]
        torch.testing.assert_close(found, layer(task.x, task.graph.edge_index), rtol=1e-9, atol=1e-11)


def test_the_released_fagcn_has_rank_one() -> None:
    model, _, _ = batch_of("fagcn", range(2))
    with torch.no_grad():
        assert torch.linalg.matrix_rank(model.forward()).tolist() == [1, 1]
        model.rank_one = False
        assert torch.linalg.matrix_rank(model.forward()).tolist() == [16, 16]


@pytest.mark.parametrize("method", STUDY.methods)
def test_a_released_run_is_the_layer_trained_alone_with_torch(method: str) -> None:
    model, layers, tasks = batch_of(method, range(2))
    model.limit = limit = 0.02  # below the norms that there are, in one of the steps at least
    steps, norms, losses = 30, [], []
    with torch.no_grad():
        best, grid, curves = train(model, [0.01, 0.03], [0.9995, 1.0], steps)
    layer, task = layers[0], tasks[0]
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(steps):
        edges = task.graph.edge_index
        out = layer(task.x, task.graph) if method == "mimogc" else plain(method, layer, task.x, edges)
        loss = F.l1_loss(out, task.y)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(layer.parameters(), limit)))
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.9995
    assert max(norms) > limit
    expected = torch.tensor([losses[step - 1] for step in grid], dtype=torch.float64)
    torch.testing.assert_close(curves[1, 0], expected, rtol=1e-6, atol=1e-12)
    assert math.isclose(float(best[1, 0]), min(losses), rel_tol=1e-6)


def test_each_run_is_clipped_by_itself_and_only_beyond_the_limit() -> None:
    model, _, _ = batch_of("gin", range(2))
    with torch.no_grad():
        model.limit = math.inf
        model.errors()
        whole = [slope.clone() for slope in model.slopes]
        norms = [math.sqrt(sum(float(slope[i].square().sum()) for slope in whole)) for i in range(2)]
        model.limit = sum(norms) / 2
        model.errors()
    for i, norm in enumerate(norms):
        for found, slope in zip(model.slopes, whole, strict=True):
            torch.testing.assert_close(found[i], slope[i] * min(1.0, model.limit / norm), rtol=1e-4, atol=0.0)
    assert min(norms) < model.limit < max(norms)


def run_of(variant: str, lr: float = 0.01, seed: int = 0) -> Run:
    return Run("universality", "erdos_renyi", "fagcn", variant, hparams(lr=lr, steps=40_000), 0, seed)


def test_the_setting_is_trained_where_it_is_asked_for() -> None:
    assert complete(STUDY, Options()).variants == ("n64", "n64-decay", "n16")
    runs = STUDY.runs(complete(STUDY, Options(variants=("released", "n64-decay"))))
    assert len(runs) == 2 * len(STUDY.methods) * 3 * 3
    assert SETTINGS["released"].decay == SETTINGS["n64-decay"].decay


def test_a_run_stores_both_errors_and_its_curve() -> None:
    run = Run("universality", "erdos_renyi", "fagcn", "released", hparams(lr=0.01, steps=40), 0, 0)
    (outcome,) = train_runs([run], lambda step, best: None)
    assert outcome.metrics["mae"] == min(outcome.curves["mae"])
    assert outcome.metrics["mse"] == min(outcome.curves["mse"])
    assert outcome.metrics["mae"] < outcome.metrics["mse"]


def test_the_table_has_the_absolute_error_of_this_setting_and_selects_by_it() -> None:
    def record(variant: str, lr: float, mse: float, mae: float, seed: int) -> Record:
        return Record(run_of(variant, lr, seed), "done", Outcome({"mse": mse, "mae": mae}), {}, "")

    values = ((0.03, 0.1, 0.9), (0.01, 0.2, 0.8))
    records = [
        record(variant, *value, seed) for variant in ("n64", "released") for value in values for seed in range(3)
    ]
    cells = {cell.variant: (cell.metric, cell.mean, dict(cell.hparams)["lr"]) for cell in STUDY.aggregate(records)}
    assert cells == {"n64": ("mse", pytest.approx(0.1), 0.03), "released": ("mae", pytest.approx(0.8), 0.01)}
