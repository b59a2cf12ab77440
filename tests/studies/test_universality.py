"""The universality study: its data, its batched training against the library's layers one at a time, its table."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mimogc.runs.driver import Watcher, reproduce
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store
from mimogc.runs.study import Context, Options, complete
from mimogc.studies import load
from mimogc.studies.universality import SETTINGS, STUDY, closed_form_error, initial_layer, problem, train_runs
from mimogc.training.batched import Batched, Problem, batched_form, log_grid, train

NODES = {16, 64}


def run_of(method: str, variant: str = "n16", lr: float = 0.01, steps: int = 200, seed: int = 0) -> Run:
    return Run("universality", "erdos_renyi", method, variant, hparams(lr=lr, steps=steps), 0, seed)


def silent(step: int, best: Tensor) -> None:
    pass


def double(task: Problem) -> Problem:
    return replace(task, x=task.x.double(), y=task.y.double())


def batch_of(method: str, nodes: int, seeds: range) -> tuple[Batched, list[torch.nn.Module], list[Problem]]:
    layers = [initial_layer(method, nodes, seed).double() for seed in seeds]
    tasks = [double(problem(nodes, seed)) for seed in seeds]
    with torch.no_grad():
        return batched_form(method)(layers, tasks), layers, tasks


@pytest.mark.parametrize("nodes", sorted(NODES))
def test_problem_is_a_connected_graph_with_standard_normal_signals(nodes: int) -> None:
    tasks = [problem(nodes, seed) for seed in range(20)]
    for task in tasks:
        adjacency = np.zeros((nodes, nodes))
        adjacency[task.graph.dst, task.graph.src] = 1
        assert connected_components(adjacency)[0] == 1
        assert task.graph.is_undirected
        assert not (task.graph.src == task.graph.dst).any()
        assert task.x.shape == task.y.shape == (nodes, 16)
        assert task.x.dtype == torch.float32
    values = torch.cat([torch.cat([task.x, task.y]) for task in tasks])
    assert abs(float(values.mean())) < 0.05
    assert abs(float(values.std()) - 1) < 0.05
    # A connected sample of 16 nodes has more edges than p says; one of 64 nodes is hardly ever disconnected.
    if nodes == 64:
        edges = sum(task.graph.num_edges for task in tasks) / len(tasks)
        assert abs(edges / (64 * 63) - 0.1) < 0.01


def test_problem_depends_on_the_seed_and_the_size_only() -> None:
    first = problem(16, 3)
    torch.manual_seed(99)
    np.random.seed(99)
    problem.cache_clear()
    again = problem(16, 3)
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.graph.edge_index, again.graph.edge_index)
    assert not torch.equal(first.x, problem(16, 4).x)


@pytest.mark.parametrize("method", STUDY.methods)
@pytest.mark.parametrize("nodes", sorted(NODES))
def test_losses_and_gradients_are_those_of_the_library_layers(method: str, nodes: int) -> None:
    model, layers, tasks = batch_of(method, nodes, range(3))
    with torch.no_grad():
        losses, absolute = model.errors()
    for i, (layer, task) in enumerate(zip(layers, tasks, strict=True)):
        loss = (layer(task.x, task.graph) - task.y).square().mean()
        names, parameters = zip(*layer.named_parameters(), strict=True)
        gradients = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
        assert math.isclose(float(losses[i]), float(loss.detach()), rel_tol=1e-9)
        with torch.no_grad():
            assert math.isclose(
                float(absolute[i]), float((layer(task.x, task.graph) - task.y).abs().mean()), rel_tol=1e-9
            )
        for found, expected in zip(model.slopes, model.pack(gradients), strict=True):
            torch.testing.assert_close(found[i], expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("method", STUDY.methods)
@pytest.mark.parametrize("variant", STUDY.usual["variants"])
def test_a_batched_run_is_the_layer_trained_alone_with_torch_adam(method: str, variant: str) -> None:
    setting, lr, steps = SETTINGS[variant], 0.01, 60
    model, layers, tasks = batch_of(method, setting.nodes, range(2))
    with torch.no_grad():
        best, grid, curve = train(model, [lr, 0.03], [setting.decay, 1.0], steps)
    layer, task = layers[0], tasks[0]
    optimizer = torch.optim.Adam(layer.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        loss = (layer(task.x, task.graph) - task.y).square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= setting.decay
    torch.testing.assert_close(
        curve[0, 0], torch.tensor([losses[step - 1] for step in grid], dtype=curve.dtype), rtol=1e-5, atol=1e-12
    )
    assert math.isclose(float(best[0, 0]), min(losses), rel_tol=1e-5)


@pytest.mark.parametrize("method", STUDY.methods)
def test_a_run_has_the_same_bits_alone_and_in_any_batch(method: str) -> None:
    runs = [run_of(method, lr=lr, seed=seed, steps=300) for lr in (0.03, 0.01, 0.003) for seed in range(3)]
    together = train_runs(runs, silent)
    alone = train_runs(runs[4:5], silent)[0]
    reordered = train_runs(runs[5:1:-1], silent)[1]
    assert together[4].curves == alone.curves == reordered.curves
    assert together[4].metrics == alone.metrics == reordered.metrics
    assert together[3].metrics["mse"] != together[4].metrics["mse"]


@pytest.mark.parametrize("method", STUDY.methods)
def test_a_run_that_diverges_is_a_result_and_leaves_the_others_alone(method: str) -> None:
    tame = [run_of(method, seed=seed) for seed in range(3)]
    outcomes = train_runs([run_of(method, lr=1e30), *tame, run_of(method, lr=1e30, seed=1)], silent)
    for wild in (outcomes[0], outcomes[-1]):
        assert wild.status == "diverged"
        assert not math.isfinite(wild.metrics["final_mse"])
        assert math.isfinite(wild.metrics["mse"])  # of the steps before
    for outcome, alone in zip(outcomes[1:-1], train_runs(tame, silent), strict=True):
        assert outcome.status == "done"
        assert outcome.metrics == alone.metrics


def test_acm_reaches_the_least_squares_solution_and_no_less() -> None:
    task = problem(64, 0)
    normalized = torch.zeros(64, 64, dtype=torch.float64)
    normalized[task.graph.dst, task.graph.src] = task.graph.normalization(torch.float64)
    x, y = task.x.double(), task.y.double()
    bank = torch.cat([normalized @ x, x - normalized @ x], dim=1)
    floor = (bank @ torch.linalg.lstsq(bank, y).solution - y).square().mean()
    outcome = train_runs([run_of("acm", "n64", lr=0.03, steps=1500)], silent)[0]
    assert math.isclose(outcome.metrics["mse"], float(floor), rel_tol=1e-4)


def test_mimogc_reaches_float_zero_by_optimisation_and_in_closed_form() -> None:
    for nodes in sorted(NODES):
        assert closed_form_error(problem(nodes, 0)) < 1e-24
    outcome = train_runs([run_of("mimogc", "n64", steps=1500)], silent)[0]
    assert outcome.metrics["mse"] < 1e-12
    assert outcome.metrics["closed_form_mse"] < 1e-24


def test_what_keeps_the_error_above_zero_is_float32() -> None:
    single = train_runs([run_of("mimogc", "n16", steps=1500)], silent)[0].metrics["mse"]
    model, _, _ = batch_of("mimogc", 16, range(1))
    with torch.no_grad():
        best, _, _ = train(model, [0.01], [1.0], 1500)
    assert 1e-17 < single < 1e-12
    assert float(best[0]) < single / 100


def test_lmgc_fits_where_fixed_coefficients_cannot() -> None:
    runs = [run_of(method, "n64", lr=0.03, steps=1000) for method in ("acm", "lmgc")]
    acm, lmgc = (train_runs([run], silent)[0].metrics["mse"] for run in runs)
    assert acm > 0.4
    assert lmgc < 0.01


def test_log_grid_goes_from_the_first_step_to_the_last() -> None:
    grid = log_grid(40_000)
    assert grid[0] == 1
    assert grid[-1] == 40_000
    assert 100 < len(grid) <= 200
    assert grid == sorted(set(grid))
    assert log_grid(1) == [1]


def test_the_whole_study_is_one_batch_per_method() -> None:
    runs = STUDY.runs(complete(STUDY, Options()))
    assert len(runs) == 6 * 3 * 3 * 3 == len({run.id for run in runs})
    batches = STUDY.batches(runs)
    assert [len(batch) for batch in batches] == [27] * 6
    assert batches == STUDY.batches(runs[::-1])
    assert {dict(run.hparams)["steps"] for run in runs} == {40_000}


def test_quick_is_a_small_version_with_the_same_methods_and_settings() -> None:
    runs = STUDY.runs(complete(STUDY, Options(quick=True)))
    assert len(runs) == 6 * 3 * 3
    assert {dict(run.hparams)["steps"] for run in runs} == {2_000}
    assert {run.seed for run in runs} == {0}


def test_paper_hparams_are_the_learning_rates_the_paper_selected() -> None:
    runs = STUDY.runs(complete(STUDY, Options(paper_hparams=True, methods=("lmgc", "acm", "mimogc"))))
    rates = {(run.method, dict(run.hparams)["lr"]) for run in runs}
    assert rates == {("lmgc", 0.03), ("acm", 0.01), *[("mimogc", lr) for lr in (0.03, 0.01, 0.003)]}


def test_steps_below_one_are_refused() -> None:
    with pytest.raises(UsageError, match="--steps: expected a whole number, at least 1, got 0"):
        STUDY.runs(complete(STUDY, Options(extras=(("steps", 0),))))


def test_execute_answers_in_the_order_of_the_batch_and_tells_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mimogc.training.batched.training.PROGRESS_SECONDS", 0.0)
    told: list[float] = []
    context = Context(lambda fraction, metrics: told.append(fraction), tmp_path)
    batch = (run_of("acm", "n16", seed=1), run_of("acm", "n64-decay"), run_of("acm", "n64"))
    outcomes = STUDY.execute(batch, context)
    for run, outcome in zip(batch, outcomes, strict=True):
        assert outcome.curves == train_runs([run], silent)[0].curves
        assert len(outcome.curves["step"]) == len(outcome.curves["mse"])
    assert outcomes[1].curves != outcomes[2].curves
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 1


def test_results_do_not_depend_on_the_number_of_jobs(tmp_path: Path, watch: Watcher) -> None:
    options = Options(methods=("acm", "gin"), variants=("n16",), quick=True, extras=(("steps", 50),))
    found = []
    for jobs in (1, 2):
        reproduce(load("universality"), options, tmp_path / f"{jobs}.db", watch, jobs=jobs)
        with Store(tmp_path / f"{jobs}.db") as store:
            found.append({r.run.id: (r.outcome.metrics, r.outcome.curves) for r in store.records()})
    assert len(found[0]) == 6
    assert found[0] == found[1]


def record(mse: float, **values: object) -> Record:
    run = run_of(**{"method": "acm", **values})  # type: ignore[arg-type]
    return Record(run, "done", Outcome({"mse": mse}), {}, "")


def test_a_cell_is_the_mean_over_seeds_at_the_best_learning_rate() -> None:
    records = [record(mse, lr=0.03, seed=seed) for seed, mse in enumerate([0.5, 0.6, 0.7])]
    records += [record(mse, lr=0.01, seed=seed) for seed, mse in enumerate([0.1, 0.9, 0.95])]
    (cell,) = STUDY.aggregate(records)
    assert math.isclose(cell.mean, 0.6)
    assert math.isclose(cell.std, 0.1)
    assert dict(cell.hparams) == {"lr": 0.03, "steps": 200}
    assert (cell.count, cell.expected) == (3, 3)


def test_a_cell_prefers_long_training_then_complete_seeds() -> None:
    quick = record(0.0, steps=10)
    lonely = record(0.1, lr=0.003)
    full = [record(0.5, seed=seed) for seed in range(3)]
    (cell,) = STUDY.aggregate([quick, lonely, *full])
    assert math.isclose(cell.mean, 0.5)
    (only,) = STUDY.aggregate([quick])
    assert (only.count, only.expected) == (1, 3)
    assert math.isnan(only.std)


def test_a_learning_rate_at_which_nothing_is_finite_is_never_selected() -> None:
    records = [record(math.inf, lr=0.03, seed=seed) for seed in range(3)]
    records += [record(0.9, lr=0.01, seed=seed) for seed in range(3)]
    (cell,) = STUDY.aggregate(records)
    assert math.isclose(cell.mean, 0.9)


def test_the_spread_of_acm_over_seeds_is_what_the_report_says() -> None:
    errors = []
    for seed in range(20):
        task = problem(64, seed)
        low = torch.zeros(64, 64, dtype=torch.float64)
        low[task.graph.dst, task.graph.src] = task.graph.normalization(torch.float64)
        x, y = task.x.double(), task.y.double()
        regressors = torch.cat([low @ x, x - low @ x], dim=1)
        errors.append((regressors @ torch.linalg.lstsq(regressors, y).solution - y).square().mean())
    values = torch.stack(errors)
    assert [round(float(part.mean()), 2) for part in (values, values[3:6], values[6:9])] == [0.50, 0.48, 0.53]
    assert round(float(values.std()), 2) == 0.04
