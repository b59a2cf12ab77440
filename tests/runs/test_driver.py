"""The driver: what is stored is not computed again, what failed is, and a result depends on its run alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness import TINY, Results, Watch, results
from mimogc.runs.driver import make_plan, reproduce
from mimogc.runs.options import UsageError
from mimogc.runs.registry import load
from mimogc.runs.run import Run
from mimogc.runs.store import Store
from mimogc.runs.study import Options
from tiny_study import LeastSquares, Refined


def test_all_runs_are_computed_once(tmp_path: Path, watch: Watch, truth: Results) -> None:
    summary = reproduce(load(TINY), Options(), tmp_path / "runs.db", watch)
    assert (summary.stored_before, summary.count("done"), summary.plan.missing) == (0, 12, 0)
    assert results(tmp_path / "runs.db") == truth
    assert len(truth) == 12
    assert len(watch.batches) == 4
    assert watch.told[-1][1] == 1.0

    again = reproduce(load(TINY), Options(), tmp_path / "runs.db", watch)
    assert (again.stored_before, again.records) == (12, [])
    assert len(watch.batches) == 4


def test_only_what_is_missing_is_computed(tmp_path: Path, watch: Watch) -> None:
    reproduce(load(TINY), Options(methods=("adam",), lrs=(0.01,)), tmp_path / "runs.db", watch)
    reproduce(load(TINY), Options(), tmp_path / "runs.db", watch)
    assert [plan.missing for plan in watch.plans] == [3, 9]


def test_a_result_does_not_depend_on_what_ran_before(tmp_path: Path, watch: Watch, truth: Results) -> None:
    torch.manual_seed(123)  # the tiny study uses the global generator; the engine seeds it for each batch
    reproduce(load(TINY), Options(methods=("adam",)), tmp_path / "runs.db", watch)
    torch.rand(5)
    reproduce(load(TINY), Options(methods=("sgd",)), tmp_path / "runs.db", watch)
    assert results(tmp_path / "runs.db") == truth


def test_a_failed_run_is_kept_with_its_reason_and_tried_again(
    tmp_path: Path, watch: Watch, truth: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    monkeypatch.setenv("TINY_FAIL", "sgd")
    summary = reproduce(load(TINY), Options(), path, watch)
    assert (summary.count("done"), summary.count("failed"), summary.plan.missing) == (6, 6, 6)
    with Store(path) as store:
        error = store.failures()[0].error
        assert len(store.failures()) == 6
    assert error.splitlines()[0] == "RuntimeError: asked to fail"
    assert "tiny_study.py" in error

    monkeypatch.delenv("TINY_FAIL")
    assert reproduce(load(TINY), Options(), path, watch).count("done") == 6
    with Store(path) as store:
        assert store.failures() == []
    assert results(path) == truth


def test_divergence_is_a_result(tmp_path: Path, watch: Watch) -> None:
    options = Options(methods=("sgd",), lrs=(1000.0,), seeds=1)
    assert reproduce(load(TINY), options, tmp_path / "runs.db", watch).count("diverged") == 1
    assert reproduce(load(TINY), options, tmp_path / "runs.db", watch).records == []


def test_records_say_what_they_were_computed_with(tmp_path: Path, watch: Watch) -> None:
    reproduce(load(TINY), Options(methods=("sgd",)), tmp_path / "runs.db", watch)
    with Store(tmp_path / "runs.db") as store:
        environment = store.records()[0].environment
    assert environment["torch"] == torch.__version__
    assert (environment["threads"], environment["batch_size"]) == (1, 3)
    assert {"mimogc", "python", "torch_geometric", "numpy", "scipy", "revision", "platform"} <= set(environment)


def test_the_threads_are_those_of_the_study(tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(LeastSquares, "threads", 2)
    monkeypatch.setattr(watch, "progress", lambda *args: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    reproduce(load(TINY), Options(methods=("sgd",), seeds=1, extras=(("steps", 2),)), tmp_path / "runs.db", watch)
    assert set(seen) == {2}
    assert torch.get_num_threads() == before


def test_a_study_can_follow_up_on_its_results(tmp_path: Path, watch: Watch) -> None:
    path = tmp_path / "runs.db"
    summary = reproduce(load("tiny_study:REFINED"), Options(), path, watch)
    assert [plan.missing for plan in watch.plans] == [12, 2]
    assert len(summary.plan.runs) == 14
    with Store(path) as store:
        records = store.records("refined")
    last = {record.run.method: record for record in records[12:]}
    for method in ("sgd", "adam"):
        first = [r for r in records[:12] if r.run.method == method]
        best = min(first, key=lambda r: r.outcome.metrics["loss"]).run
        assert last[method].run.seed == best.seed
        assert dict(last[method].run.hparams) == {**dict(best.hparams), "steps": 1000}
    assert make_plan(Refined(), Options(), records).missing == 0
    assert make_plan(Refined(), Options(), records[:12]).missing == 2
    assert make_plan(Refined(), Options(), records[:11]).missing == 1


def test_no_follow_up_on_failures(tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_FAIL", "sgd")
    reproduce(load("tiny_study:REFINED"), Options(), tmp_path / "runs.db", watch)
    assert len(watch.plans) == 1


class Forgetful(LeastSquares):
    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        return super().batches(runs)[1:]


def test_a_study_must_not_lose_runs() -> None:
    with pytest.raises(ValueError, match="every run into exactly one batch"):
        make_plan(Forgetful(), Options(), [])


class Misnamed(LeastSquares):
    def runs(self, options: Options) -> list[Run]:
        return [replace(run, study="other") for run in super().runs(options)]


def test_a_study_names_its_runs_after_itself() -> None:
    with pytest.raises(ValueError, match="must give its own name to its runs; got 'other'"):
        make_plan(Misnamed(), Options(), [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(methods=("sdg",)), "unknown method 'sdg'; did you mean 'sgd'"),
        (Options(datasets=("x",)), "unknown dataset 'x'; known: gaussian"),
        (Options(datasets=("npz:x",)), "unknown dataset 'npz:x'"),
        (Options(variants=("plan",)), "did you mean 'plain'"),
        (Options(lrs=(-0.1,)), "--lr: expected a number above 0, got -0.1"),
        (Options(lrs=(float("nan"),)), "--lr: expected a number above 0, got nan"),
        (Options(seeds=0), "--seeds: expected a whole number, at least 1, at most 1,000, got 0"),
        (Options(seeds=99_999_999_999), "--seeds: expected .* at most 1,000, got 99999999999"),
        (Options(extras=(("steps", 0),)), "--steps: expected a whole number, at least 1, got 0"),
        (Options(extras=(("steps", 2.5),)), "--steps: expected a whole number, at least 1, got 2.5"),
        (
            Options(extras=(("momentum", float("nan")),)),
            "--momentum: expected a number, at least 0, at most 1, got nan",
        ),
        (Options(extras=(("centred", "yes"),)), "--centred: expected no value, got 'yes'"),
        (Options(paper_hparams=True), "--paper-hparams has no meaning in the study least-squares"),
        (Options(extras=(("stesp", 3),)), "did you mean 'steps'"),
    ],
)
def test_wrong_options(options: Options, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(LeastSquares(), options, [])


def test_names_are_taken_in_the_study_s_order_and_spelling() -> None:
    one = make_plan(LeastSquares(), Options(methods=("Adam", "sgd", "adam")), []).runs
    assert one == make_plan(LeastSquares(), Options(), []).runs


class Open(LeastSquares):
    own_names = ("dataset",)


def test_a_study_may_take_names_of_the_user() -> None:
    runs = make_plan(Open(), Options(datasets=("npz:mine.npz",)), []).runs
    assert {run.dataset for run in runs} == {"npz:mine.npz"}
