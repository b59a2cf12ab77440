"""The molecule studies follow their protocol, and the fast pipeline trains like the plain one."""

import json
import math
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import zinc_process
from benchmarks import zinc as bench
from torch.nn import functional as F
from torch_geometric.loader import DataLoader

from harness import Watch
from mimogc import methods
from mimogc.data import load_molecules
from mimogc.models import GraphRegressor, num_parameters
from mimogc.report.curves import by_variant
from mimogc.runs import driver, ranks
from mimogc.runs.checkpoint import capture, save_checkpoint
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store
from mimogc.runs.study import Options, complete
from mimogc.studies import zinc_models
from mimogc.studies.zinc import PAPER_METHODS, ZINC, ZINC12K, MoleculeStudy
from mimogc.studies.zinc_models import build, width
from mimogc.training import graphs as graph_training
from mimogc.training.graphs import (
    BATCH_SIZE,
    FlatAdamW,
    History,
    MoleculeTask,
    cosine,
    evaluate,
    evaluation_batches,
    shares,
    train,
    train_epoch,
)

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SCRIPT = str(Path(__file__).with_name("zinc_process.py"))


@pytest.fixture(autouse=True)
def no_task_of_another_test() -> None:
    zinc_models.task.cache_clear()


def runs(study: MoleculeStudy = ZINC12K, **options: Any) -> list[Run]:
    return study.runs(complete(study, Options(**options)))


def small_model(seed: int = 0, **options: Any) -> GraphRegressor:
    torch.manual_seed(seed)
    return GraphRegressor(12, "lmgc", 2, **options)


class TestPlan:
    def test_the_grid_of_table_2(self) -> None:
        found = runs()
        assert len({run.id for run in found}) == len(found) == 5 * 5 * 9 * 4
        assert {run.variant for run in found} == {"basic", "lappe", "jk", "residual", "all"}
        assert {run.method for run in found} == set(PAPER_METHODS)
        settings = {(dict(run.hparams)["layers"], dict(run.hparams)["lr"]) for run in found}
        assert settings == {(layers, lr) for layers in (6, 8, 10) for lr in (0.001, 0.0003, 0.0001)}
        assert {dict(run.hparams)["epochs"] for run in found} == {1000}

    def test_the_grid_of_table_8(self) -> None:
        found = runs(ZINC)
        assert len(found) == 5 * 9 * 4
        assert {(run.dataset, run.variant, dict(run.hparams)["epochs"]) for run in found} == {("zinc", "basic", 200)}

    def test_the_settings_of_the_paper(self) -> None:
        found = {
            (run.method, run.variant): (dict(run.hparams)["layers"], dict(run.hparams)["lr"])
            for run in runs(paper_hparams=True, seeds=1)
        }
        assert len(found) == 25
        assert found["lmgc", "basic"] == (6, 0.001)
        assert found["gin", "residual"] == (10, 0.0003)
        assert found["gatv2", "lappe"] == (6, 0.001)
        found = {
            (run.method, run.variant): (dict(run.hparams)["layers"], dict(run.hparams)["lr"])
            for run in runs(ZINC, paper_hparams=True, seeds=1)
        }
        assert found["gin", "basic"] == (6, 0.0003)
        assert found["lmgc", "basic"] == (8, 0.001)

    def test_quick_is_the_first_column_and_small(self) -> None:
        found = runs(quick=True)
        assert [run.method for run in found] == list(PAPER_METHODS)
        for run in found:
            values = dict(run.hparams)
            assert (run.variant, run.seed, values["epochs"], values["molecules"]) == ("basic", 0, 10, 1000)

    def test_the_variant_beyond_the_paper(self) -> None:
        found = runs(variants=("bonds",), seeds=1, extras=(("epochs", 200),))
        assert [run.method for run in found] == ["gatv2", "fagcn", "lmgc"]
        run = found[-1]
        values = dict(run.hparams)
        assert (values["layers"], values["heads"], values["lr"], values["epochs"]) == (8, 4, 0.001, 200)
        assert [dict(zinc_models.parts_of(other)).get("gain", 1.0) for other in found] == [1.0, 1.0, 8**-0.5]
        (loud,) = runs(methods=("lmgc",), variants=("bonds",), seeds=1, extras=(("gain", 0.5),))
        assert dict(zinc_models.parts_of(loud))["gain"] == 0.5
        (usual,) = runs(methods=("lmgc",), variants=("bonds",), seeds=1, extras=(("gain", 1.0),))
        assert dict(zinc_models.parts_of(usual))["gain"] == 1.0  # given, so that it counts
        (silent, *_) = runs(methods=("lmgc",), variants=("residual",), seeds=1, extras=(("gain", 0.0),))
        assert dict(zinc_models.parts_of(silent))["learn_gain"]  # else its layers would never be heard of
        model = zinc_models.regressor(40, "lmgc", 8, 4, zinc_models.parts_of(run))
        assert model.edge_types == 4
        assert model.residual
        assert isinstance(model.norms[0], torch.nn.BatchNorm1d)
        assert isinstance(model.encoder, torch.nn.Sequential)
        assert [type(part).__name__ for part in model.encoder] == ["BatchNorm1d", "Linear"]

    @pytest.mark.parametrize(("variant", "types", "size"), [("bonds", 4, 48), ("rings", 10, 46), ("structure", 7, 47)])
    def test_edges_of_rings_are_variants(self, datasets: Path, variant: str, types: int, size: int) -> None:
        (run,) = runs(methods=("lmgc",), variants=(variant,), seeds=1, extras=(("molecules", 40),))
        model, task = zinc_models.build(run)
        assert (model.edge_types, model.hidden.in_features) == (types, size)
        assert model.gain == pytest.approx(8**-0.5)
        assert 95_000 < num_parameters(model) <= 100_000
        (batch,) = task.molecules.batches(task.train, 40, True, task.encoding)
        assert int(batch.bond.max()) < types
        plain = zinc_models.task("zinc12k", "none", 40).molecules.looped
        assert (task.molecules.looped.neighbour.size(0) > plain.neighbour.size(0)) == (variant != "bonds")
        assert model(batch).isfinite().all()

    def test_edge_features_and_encodings_are_variants_of_their_own(self) -> None:
        found = runs(variants=("basic",), seeds=1, extras=(("edge_features", True), ("pe", "rwse")))
        assert {run.method for run in found} == set(methods.names(lambda record: record.scored)) & set(PAPER_METHODS)
        assert {run.variant for run in found} == {"basic"}
        assert ZINC12K.unusual(found[0].hparams) == (("edge_features", True), ("pe", "rwse"))
        parts = dict(zinc_models.parts_of(found[0]))
        assert parts == {"encoding": "rwse", "edge_types": 4}

    def test_wrong_options(self) -> None:
        scored = ", ".join(methods.names(lambda record: record.scored))
        with pytest.raises(UsageError, match=f"--methods: expected some of {scored} with --variants bonds, got gin"):
            runs(methods=("gin", "lmgc"), variants=("bonds",))
        with pytest.raises(UsageError, match=r"--methods: expected some of .* with --edge-features, got gin"):
            runs(methods=("gin", "lmgc"), extras=(("edge_features", True),))
        with pytest.raises(UsageError, match="--epochs: expected a whole number, at least 1, got 0"):
            runs(extras=(("epochs", 0),))
        with pytest.raises(UsageError, match="--pe: expected one of none, lappe, rwse, got 'rws'"):
            runs(extras=(("pe", "rws"),))
        with pytest.raises(
            UsageError,
            match=r"--variants: expected some of residual, all, bonds, rings, structure with .*--gain 0.5, got basic",
        ):
            runs(extras=(("gain", 0.5),), variants=("basic", "all"))
        assert {run.variant for run in runs(extras=(("gain", 0.5),))} == {"residual", "all"}
        (run, *_) = runs(extras=(("gain", 0.5),), variants=("residual",), methods=("gin",))
        assert zinc_models.regressor(12, "gin", 2, 4, zinc_models.parts_of(run)).gain == 0.5
        with pytest.raises(UsageError, match="--gain: expected a number, got nan"):
            runs(extras=(("gain", float("nan")),))
        with pytest.raises(
            UsageError, match="--molecules: expected a whole number, at least 1, at most 10,000, got 10001"
        ):
            runs(extras=(("molecules", 10_001),))
        assert dict(runs(extras=(("pe", "RWSE"),))[0].hparams)["pe"] == "rwse"

    def test_what_is_given_is_not_changed_by_quick(self) -> None:
        (run, *_) = runs(quick=True, extras=(("epochs", 700),))
        assert (dict(run.hparams)["epochs"], dict(run.hparams)["molecules"]) == (700, 1000)

    @pytest.mark.parametrize("method", methods.trained())
    def test_models_use_the_budget_and_no_more(self, method: str) -> None:
        for run in runs(methods=(method,), paper_hparams=True, seeds=1):
            values, parts = dict(run.hparams), zinc_models.parts_of(run)
            layers = int(values["layers"])
            widest = width(method, layers, 4, 100_000, parts)
            sizes = [
                num_parameters(zinc_models.regressor(channels, method, layers, 4, parts))
                for channels in (widest, widest + (2 if method == "sheaf" else 1))
            ]
            assert sizes[0] <= 100_000 < sizes[1], run.label()


class TestTraining:
    @pytest.mark.parametrize(("dtype", "epochs", "tolerance"), [(torch.float32, 2, 1e-4), (torch.float64, 4, 1e-9)])
    def test_the_fast_pipeline_trains_like_the_plain_one(
        self, datasets: Path, dtype: torch.dtype, epochs: int, tolerance: float
    ) -> None:
        task = zinc_process.small_task(200)
        molecules = replace(task.molecules, y=task.molecules.y.to(dtype))
        task = replace(task, molecules=molecules)
        fast = small_model().to(dtype)
        plain = bench.PlainRegressor(12, layers=2).to(dtype)
        plain.copy_from(fast)
        flat, adam = FlatAdamW(fast, 0.003), torch.optim.AdamW(plain.parameters(), lr=0.003, weight_decay=0.0)
        shuffle = torch.Generator().manual_seed(0)
        curves: tuple[list[float], list[float]] = ([], [])
        for _ in range(epochs):
            order = task.train[torch.randperm(200, generator=shuffle)]
            curves[0].append(train_epoch(fast, flat, task, order, fast.add_self_loops))
            loader = DataLoader([task.molecules.data(int(molecule)) for molecule in order], BATCH_SIZE)
            curves[1].append(bench.plain_steps(plain, adam, loader, order.size(0)))
        assert curves[0] == pytest.approx(curves[1], rel=tolerance)
        assert curves[0][-1] < 0.95 * curves[0][0], "nothing was learnt, so little was compared"

    def test_the_flat_optimiser_is_adamw_with_clipping(self) -> None:
        torch.manual_seed(0)
        models = [torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)]
        models[1].load_state_dict(models[0].state_dict())
        flat = FlatAdamW(models[0], 0.1)
        adam = torch.optim.AdamW(models[1].parameters(), lr=0.1, weight_decay=0.0)
        for scale in (100.0, 1.0, 1e-3):  # clipped, clipped, not clipped
            x = scale * torch.randn(8, 5)
            flat.forget()
            models[1].zero_grad()
            for model in models:
                model(x).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(models[1].parameters(), 1.0)
            flat.step()
            adam.step()
            torch.testing.assert_close(models[0].weight, models[1].weight)
            torch.testing.assert_close(models[0].bias, models[1].bias)
        cast = torch.nn.Linear(5, 3)
        flat = FlatAdamW(cast, 0.1)
        cast.double().float()  # the weights are copies now
        with pytest.raises(RuntimeError, match="cast the model before"):
            flat.step()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_the_flat_optimiser_takes_any_gradient(self, dtype: torch.dtype) -> None:
        """None is one of zero, one need not be contiguous, and what is no number is not hidden."""
        shapes = [(3, 5), (), (0, 4), (70, 90)]
        mine, torchs = (torch.nn.ParameterList(torch.ones(shape, dtype=dtype) for shape in shapes) for _ in range(2))
        flat, adam = FlatAdamW(mine, 0.1), torch.optim.AdamW(torchs, lr=0.1, weight_decay=0.0)
        for step, size in enumerate((100.0, 1e-4, 0.0)):
            flat.forget()
            for number, (one, other) in enumerate(zip(mine, torchs, strict=True)):
                gradient = size * torch.randn(one.shape[::-1], dtype=dtype).permute(tuple(reversed(range(one.dim()))))
                one.grad = None if step == 1 and number == 0 else gradient
                other.grad = torch.zeros_like(other) if one.grad is None else gradient.clone()
            torch.nn.utils.clip_grad_norm_(torchs, 1.0)
            flat.step()
            adam.step()
            for one, other in zip(mine, torchs, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-14)
        mine[0].grad = torch.full_like(mine[0], torch.nan)
        flat.step()
        assert mine[3].isnan().all()

    def test_cosine_falls_from_lr_to_zero(self) -> None:
        rates = [cosine(0.1, epoch, 10) for epoch in range(11)]
        assert rates[0] == 0.1
        assert rates[5] == pytest.approx(0.05)
        assert rates[10] == pytest.approx(0, abs=1e-12)
        assert rates == sorted(rates, reverse=True)

    def test_every_molecule_once_per_epoch_and_shuffled(self, datasets: Path) -> None:
        task = zinc_process.small_task(70)
        order = task.train.flip(0)
        seen = [batch.y for batch, _, _ in shares(task, order, True)]
        assert [len(y) for y in seen] == [32, 32, 6]
        assert torch.equal(torch.cat(seen), task.molecules.y[order])

    def test_a_long_epoch_is_told_on_the_way(
        self, datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[tuple[float, int]] = []
        monkeypatch.setattr(graph_training, "PROGRESS_SECONDS", 0.0)

        def tell(epochs: float, history: History) -> None:
            told.append((epochs, len(history.vals)))

        train(small_model(), zinc_process.small_task(96), 0.01, 2, 0, tmp_path / "last.pt", tell)
        assert [round(3 * epochs) for epochs, _ in told] == [1, 2, 3, 4, 5, 6]
        assert [epochs for _, epochs in told] == [0, 0, 1, 1, 1, 2]

    def test_the_test_error_is_of_the_best_epoch_and_of_all_molecules(
        self, datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph_training, "cosine", lambda lr, epoch, epochs: lr if epoch < 2 else 1.0)
        task = zinc_process.small_task(96)
        states: list[dict[str, torch.Tensor]] = []
        model = small_model()

        def keep(epoch: float, history: History) -> None:
            assert epoch == len(history.vals)
            states.append({name: value.clone() for name, value in model.state_dict().items()})

        trained = train(model, task, 0.003, 4, 0, tmp_path / "last.pt", keep)
        history = trained.history
        assert history.best_epoch < 4, "the best epoch is the last one, which tells nothing"
        assert history.best_epoch == 1 + history.vals.index(min(history.vals))
        assert trained.val == min(history.vals)
        model.load_state_dict(states[history.best_epoch - 1])
        model.eval()
        with torch.no_grad():
            (batch,) = task.molecules.batches(task.test, task.test.size(0))
            expected = F.l1_loss(model(batch), batch.y).item()
        assert task.test.size(0) == 1000
        assert trained.test == pytest.approx(expected, rel=1e-5)

    def test_the_error_is_not_an_average_of_batch_means(self, datasets: Path) -> None:
        task = zinc_process.small_task(130)  # two batches of very different sizes
        model = small_model().eval()
        with torch.no_grad():
            (batch,) = task.molecules.batches(task.val, 130)
            expected = F.l1_loss(model(batch), batch.y).item()
        assert evaluate(model, evaluation_batches(task, task.val, True), 130) == pytest.approx(expected, rel=1e-5)

    def test_killed_and_resumed_gives_the_same_bits(self, datasets: Path, tmp_path: Path) -> None:
        whole, weights = zinc_process.resumable(tmp_path / "whole")
        child = subprocess.run([sys.executable, SCRIPT, "killed", str(tmp_path / "killed")])
        assert child.returncode == 9
        assert (tmp_path / "killed" / "last.pt").exists()
        resumed, again = zinc_process.resumable(tmp_path / "killed")
        assert resumed.history.times[:3] != whole.history.times[:3], "it started again"
        for name in ("losses", "vals", "best_epoch"):
            assert getattr(resumed.history, name) == getattr(whole.history, name), name
        assert (resumed.train, resumed.val, resumed.test) == (whole.train, whole.val, whole.test)
        assert all(torch.equal(a, b) for a, b in zip(weights, again, strict=True))

    def test_a_checkpoint_of_another_version_is_not_used(self, datasets: Path, tmp_path: Path) -> None:
        task, path = zinc_process.small_task(64), tmp_path / "last.pt"
        whole = train(small_model(), task, 0.01, 2, 0, tmp_path / "none.pt")
        old = {"model": small_model(), "optimiser": torch.optim.AdamW(small_model().parameters())}
        save_checkpoint(path, {**capture(1, **old, shuffle=torch.Generator()), "history": {}})
        with pytest.warns(UserWarning, match="of another version; training starts again"):
            again = train(small_model(), task, 0.01, 2, 0, path)
        assert again.history.losses == whole.history.losses

    def test_divergence_is_a_result(self, datasets: Path, tmp_path: Path) -> None:
        trained = train(small_model(), zinc_process.small_task(64), 1e38, 5, 0, tmp_path / "last.pt")
        assert trained.history.diverged
        assert trained.train == math.inf
        assert len(trained.history.losses) < 5


class TestStudy:
    def test_runs_are_stored_and_not_run_again(self, datasets: Path, tmp_path: Path, watch: Watch) -> None:
        options = Options(
            methods=("gin", "lmgc"),
            variants=("all",),
            paper_hparams=True,
            seeds=2,
            extras=(("epochs", 2), ("molecules", 64), ("budget", 9000)),
        )
        summary = driver.reproduce(ZINC12K, options, tmp_path / "runs.db", watch)
        assert summary.count("done") == 4
        assert driver.reproduce(ZINC12K, options, tmp_path / "runs.db", watch).stored_before == 4
        with Store(tmp_path / "runs.db") as store:
            records = store.records("zinc12k")
        for record in records:
            metrics, curves = record.outcome.metrics, record.outcome.curves
            assert metrics["parameters"] <= 9000
            assert len(curves["val_mae"]) == len(curves["train_mae"]) == 2
            assert metrics["val_mae"] == min(curves["val_mae"])
        cells = ZINC12K.aggregate(records)
        assert [(cell.method, cell.count, cell.expected) for cell in cells] == [("gin", 2, 4), ("lmgc", 2, 4)]
        assert (cells[0].variant, cells[0].options) == ("all", (("budget", 9000),))
        (figure,) = by_variant(ZINC12K, ZINC12K.select(records))
        assert figure.title == "ZINC12k, all budget=9000"
        assert [name for name, _ in figure.series] == ["gin", "lmgc"]
        assert len({record.outcome.metrics["test_mae"] for record in records}) == 4, "seeds change nothing"
        first, _ = build(records[0].run)
        again, _ = build(records[0].run)
        assert torch.equal(first.embedding.weight, again.embedding.weight)

    def record(self, lr: float, seed: int, val: float, test: float, train: float, **values: Any) -> Record:
        given: dict[str, Any] = {"lr": lr, "layers": 6, "epochs": 200, "molecules": 10, **values}
        run = Run("zinc12k", "zinc12k", "lmgc", "basic", hparams(**given), 0, seed)
        metrics = {"val_mae": val, "test_mae": test, "train_mae": train, "seconds_per_epoch": 1.0}
        return Record(run, "done", Outcome(metrics), {}, "")

    def records(self) -> list[Record]:
        """lr 0.1 has the best validation error, 0.01 the best test error, 0.001 the best train error."""
        return [
            *[self.record(0.1, seed, 0.2, 0.5 + 0.1 * seed, 0.3) for seed in range(2)],
            *[self.record(0.01, seed, 0.3, 0.1, 0.2) for seed in range(2)],
            *[self.record(0.001, seed, 0.4, 0.6, 0.1) for seed in range(2)],
            self.record(0.0001, 0, 0.1, 0.1, 0.1),  # a setting that lacks seeds
        ]

    def test_selects_on_validation(self) -> None:
        (cell,) = ZINC12K.aggregate(self.records())
        assert (cell.metric, cell.count) == ("test_mae", 2)
        assert dict(cell.hparams)["lr"] == 0.1
        assert cell.mean == pytest.approx(0.55)
        assert cell.std == pytest.approx(0.0707, abs=1e-4)
        assert {record.run.seed for record in ZINC12K.select(self.records())} == {0, 1}

    def test_a_diverged_setting_is_not_selected(self) -> None:
        bad = [self.record(1.0, seed, math.nan if seed else 0.0, 0.0, 0.0) for seed in range(2)]
        (cell,) = ZINC12K.aggregate([*bad, *self.records()])
        assert dict(cell.hparams)["lr"] == 0.1

    def test_train_and_test_settings_of_table_8_are_independent(self) -> None:
        cells = {cell.metric: cell for cell in ZINC.aggregate(self.records())}
        assert {metric: dict(cell.hparams)["lr"] for metric, cell in cells.items()} == {
            "train_mae": 0.001,
            "test_mae": 0.1,
            "seconds_per_epoch": 0.1,
        }
        assert cells["train_mae"].mean == pytest.approx(0.1)
        assert {dict(record.run.hparams)["lr"] for record in ZINC.select(self.records())} == {0.1, 0.001}

    def test_the_longest_training_on_most_molecules_counts(self) -> None:
        long = self.record(0.1, 0, 0.9, 0.9, 0.9, epochs=1000)
        (cell,) = ZINC12K.aggregate([*self.records(), long])
        assert dict(cell.hparams)["epochs"] == 1000
        quick = self.record(0.1, 0, 0.01, 0.01, 0.01, epochs=2000, molecules=5)
        (cell,) = ZINC12K.aggregate([*self.records(), quick])
        assert dict(cell.hparams)["molecules"] == 10


@pytest.mark.kernels  # the same with every backend
class TestManyProcesses:
    def test_two_processes_have_the_gradients_of_one(self, datasets: Path, tmp_path: Path) -> None:
        command = [sys.executable, *TORCHRUN, SCRIPT, "ranks", str(tmp_path / "two.pt")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        two: dict[str, Any] = torch.load(tmp_path / "two.pt")
        one = zinc_process.shared()
        for ours, theirs in zip(two["gradients"], one["gradients"], strict=True):
            assert ours.norm() > 0
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        for name in ("losses", "vals", "train"):
            assert two[name] == pytest.approx(one[name], rel=1e-3), name
        assert two["test"] == pytest.approx(one["test"], rel=1e-3)

    def test_the_command_under_torchrun(self, datasets: Path, tmp_path: Path) -> None:
        asked = shlex.split(
            "reproduce zinc12k --methods gin --variants basic --paper-hparams --seeds 1 --json "
            "--epochs 2 --molecules 70 --budget 5000"
        )
        found = []
        for launcher in (["-m"], [*TORCHRUN, "-m"]):
            store = ["--store", str(tmp_path / f"{len(found)}.db")]
            done = subprocess.run([sys.executable, *launcher, "mimogc", *asked, *store], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            (row,) = json.loads(done.stdout)["runs"]
            found.append([row["metrics"][name] for name in ("train_mae", "val_mae", "test_mae")])
        assert found[1] == pytest.approx(found[0], rel=1e-3)

    @pytest.mark.parametrize("world", [2, 3, 5])
    def test_shares_make_up_every_batch(self, datasets: Path, monkeypatch: pytest.MonkeyPatch, world: int) -> None:
        task = zinc_process.small_task(66)  # two whole batches and two molecules, too few for all ranks
        whole = [(batch.y, size) for batch, _, size in shares(task, task.train, True)]
        monkeypatch.setattr(ranks, "size", lambda: world)
        parts = []
        for rank in range(world):
            monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
            parts.append(list(shares(task, task.train, True)))
        for step, (y, size) in enumerate(whole):
            mine = [part[step] for part in parts]
            assert torch.equal(torch.cat([batch.y for batch, share, _ in mine if share]), y)
            mean = sum(share * batch.y.mean() for batch, share, _ in mine) / world
            torch.testing.assert_close(mean, y.mean())
            assert {count for _, _, count in mine} == {size}


def test_the_bench_measures_all_pipelines(datasets: Path) -> None:
    seconds = bench.seconds_per_epoch(rounds=3, steps=2)
    assert set(seconds) == {"lmgc", "gin", "gatv2", "plain"}
    assert all(0 < fastest < median for median, fastest in seconds.values())


def test_the_plain_model_is_the_same_model(datasets: Path) -> None:
    molecules = load_molecules("zinc12k")
    model = small_model()
    plain = bench.PlainRegressor(12, layers=2)
    plain.copy_from(model)
    assert num_parameters(plain) == num_parameters(model)
    task = MoleculeTask.of(molecules, None, 40)
    (batch,) = molecules.batches(task.train, 40)
    (data,) = bench.DataLoader([molecules.data(int(i)) for i in task.train], 40)
    torch.testing.assert_close(plain(data), model(batch), rtol=1e-4, atol=1e-5)
