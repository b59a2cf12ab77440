"""The heterophilic study follows its protocol: grid, selection on validation, repeats, early stopping, metrics."""

import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mimogc.data import DataError, NodeDataset
from mimogc.methods import trained
from mimogc.models import NodeClassifier, SparseFeatures
from mimogc.runs import driver
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store
from mimogc.runs.study import Context, Options, complete
from mimogc.studies import heterophilic
from mimogc.studies.heterophilic import STUDY
from mimogc.studies.heterophilic_models import QUIET, QUIET_START, build, task
from mimogc.training import nodes as node_training
from mimogc.training.nodes import NodeTask, roc_auc, scorer, train

PAPER = ("gatv2", "fagcn", "acm", "gin", "lmgc")
NOWHERE = Context(lambda fraction, metrics: None, Path("unused"))


@pytest.fixture(autouse=True)
def no_task_of_another_test() -> None:
    task.cache_clear()


class Silent:
    """A watcher that looks away."""

    def started(self, plan: object) -> None: ...
    def progress(self, batch: object, fraction: float, metrics: object) -> None: ...
    def finished(self, batch: object, records: object) -> None: ...


def runs(**options: object) -> list[Run]:
    return STUDY.runs(complete(STUDY, Options(**options)))  # type: ignore[arg-type]


def small_task(nodes: int = 40, classes: int = 3, seed: int = 0) -> NodeTask:
    """A random graph with labels that its features tell, in two splits."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (nodes,), generator=generator)
    x = torch.nn.functional.one_hot(y, 6).float() + torch.randn(nodes, 6, generator=generator)
    part = torch.rand(nodes, 2, generator=generator)
    data = NodeDataset(
        name="small",
        x=x,
        edge_index=torch.randint(0, nodes, (2, 3 * nodes), generator=generator),
        y=y,
        train_mask=part < 0.5,
        val_mask=(part >= 0.5) & (part < 0.75),
        test_mask=part >= 0.75,
        metric="accuracy" if classes > 2 else "roc_auc",
    )
    return NodeTask.of(data)


class TestRuns:
    def test_full_grid_of_the_small_graphs(self) -> None:
        found = runs(datasets=("texas", "cornell", "wisconsin"), methods=PAPER)
        assert len(found) == len({run.id for run in found}) == 1350
        assert {dict(run.hparams)["lr"] for run in found} == {0.01, 0.003, 0.001}
        assert {dict(run.hparams)["dropout"] for run in found} == {0.0, 0.25, 0.5}
        assert {run.split for run in found} == set(range(10))

    def test_nothing_asked_for_means_the_papers_table(self) -> None:
        assert {run.dataset for run in runs()} == set(heterophilic.PAPER_DATASETS)
        assert {run.method for run in runs()} == {*PAPER, "gcn", "mlp"}

    def test_paper_hparams(self) -> None:
        found = runs(datasets=("cornell", "minesweeper"), methods=("lmgc", "fagcn", "mlp"), paper_hparams=True)
        chosen = {(run.dataset, run.method): (dict(run.hparams)["lr"], dict(run.hparams)["dropout"]) for run in found}
        assert chosen["cornell", "lmgc"] == (0.003, 0.25)
        assert chosen["cornell", "fagcn"] == (0.01, 0.25)
        assert chosen["minesweeper", "lmgc"] == chosen["cornell", "mlp"] == (0.01, 0.25)
        assert len(found) == 6 * 10 * 5
        assert {run.seed for run in found} == {1, 2, 3, 4, 5}

    def test_options_make_a_column(self) -> None:
        (first, *_) = runs(datasets=("texas",), extras=(("layers", 3), ("undirected", True)))
        assert first.variant == "residual"
        assert STUDY.unusual(first.hparams) == (("layers", 3), ("undirected", True))
        assert STUDY.unusual(runs(datasets=("texas",))[0].hparams) == ()

    def test_the_mean_over_graphs_is_run_only_when_asked_for(self) -> None:
        assert {run.variant for run in runs(datasets=("texas",))} == {"residual"}
        asked = runs(datasets=("texas",), variants=("averaged",))
        assert {(run.method, run.variant) for run in asked} == {("lmgc", "averaged"), ("gatv2", "averaged")}
        both = runs(datasets=("texas",), methods=("lmgc",), variants=("residual", "averaged"))
        assert {run.variant for run in both} == {"residual", "averaged"}
        assert {run.variant for run in runs(datasets=("texas",), methods=("lmgc",))} == {"residual"}
        with pytest.raises(
            UsageError, match=r"--methods: expected some of .* with --datasets texas --variants averaged, got acm"
        ):
            runs(datasets=("texas",), variants=("averaged",), methods=("lmgc", "acm"))

    def test_repeats_are_of_the_variant_that_was_selected(self) -> None:
        grid = [record(0.01, split, 0, 90.0, 80.0) for split in range(10)]
        averaged = [replace(r, run=replace(r.run, variant="averaged")) for r in grid]
        options = complete(STUDY, Options(datasets=("texas",), methods=("lmgc",), variants=("averaged",)))
        assert {run.variant for run in STUDY.follow_up(options, averaged)} == {"averaged"}

    @pytest.mark.parametrize("name", ["epochs", "layers", "heads", "budget"])
    def test_nonsense_is_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match=f"--{name}: expected a whole number, at least 1, got 0"):
            runs(datasets=("texas",), extras=((name, 0),))

    def test_every_run_is_in_one_batch(self) -> None:
        found = runs(datasets=("texas", "squirrel"), methods=("mlp", "gin"))
        batches = STUDY.batches(found)
        assert sorted(run.id for batch in batches for run in batch) == sorted(run.id for run in found)
        assert {len(batch) for batch in batches if batch[0].dataset == "texas"} == {10}
        assert {len(batch) for batch in batches if batch[0].dataset == "squirrel"} == {1}


class TestTraining:
    @pytest.mark.parametrize("dropout", [0.0, 0.5])
    def test_equals_the_protocol_written_plainly(self, dropout: float) -> None:
        task, epochs, lr = small_task(), 60, 0.03
        assert isinstance(task.x, torch.Tensor)
        task = dataclasses.replace(task, x=task.x.double())  # training in float32 drifts apart from rounding alone
        masks = [mask[:, 1] for mask in (task.data.train_mask, task.data.val_mask, task.data.test_mask)]
        torch.manual_seed(3)
        model = NodeClassifier(6, 8, 3, "lmgc", dropout=dropout).double()
        optimiser = torch.optim.Adam(model.parameters(), lr=lr)
        lowest, bad, best, losses = math.inf, 0, (-1.0, 0, 0.0), []
        for epoch in range(1, epochs + 1):
            model.train()
            optimiser.zero_grad()
            loss = F.cross_entropy(model(task.x, task.graph)[masks[0]], task.data.y[masks[0]])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            if loss.item() < lowest * (1 - 1e-4):
                lowest, bad = loss.item(), 0
            else:
                bad += 1
            if bad > 20:
                bad = 0
                for group in optimiser.param_groups:
                    group["lr"] = max(group["lr"] / 3, 1e-4)
            model.eval()
            right = model(task.x, task.graph).argmax(1) == task.data.y
            val, test = (100 * right[mask].double().mean().item() for mask in masks[1:])
            if val > best[0] + 1e-9:
                best = (val, epoch, test)
        torch.manual_seed(3)
        trained = train(NodeClassifier(6, 8, 3, "lmgc", dropout=dropout).double(), task, 1, lr, epochs)
        assert trained.losses == pytest.approx(losses, rel=1e-6)
        assert (trained.best[1], trained.best_epoch, trained.best[2]) == pytest.approx(best)
        assert len(trained.losses) == len(trained.times) == epochs

    def test_learning_rate_falls_on_a_plateau_to_the_floor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rates: list[float] = []

        class Seen(torch.optim.Adam):
            def step(self, closure: None = None) -> None:
                rates.append(self.param_groups[0]["lr"])
                super().step(closure)

        monkeypatch.setattr(node_training.torch.optim, "Adam", Seen)
        monkeypatch.setattr(node_training, "PATIENCE", 10**6)
        task = small_task()
        model = NodeClassifier(6, 4, 3, "mlp")
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        model.decoder.bias.requires_grad_(True)  # the loss is soon as low as it gets
        train(model, task, 0, 0.01, 400)
        steps = list(dict.fromkeys(rates))
        assert steps == pytest.approx([0.01, 0.01 / 3, 0.01 / 9, 0.01 / 27, 0.01 / 81, 1e-4][: len(steps)])
        assert steps[-1] == pytest.approx(1e-4)

    def test_stops_when_validation_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(node_training, "PATIENCE", 15)
        torch.manual_seed(0)
        trained = train(NodeClassifier(6, 8, 3, "mlp"), small_task(), 0, 0.01, 1000)
        assert len(trained.losses) == trained.best_epoch + 15 < 1000
        assert trained.best_epoch == 1 + trained.vals.index(max(trained.vals)), "not the first best epoch"

    def test_divergence_is_a_result(self) -> None:
        task = small_task()
        model = NodeClassifier(6, 8, 3, "gin")
        with torch.no_grad():
            model.decoder.weight.fill_(math.inf)
        trained = train(model, task, 0, 0.01, 50)
        assert (len(trained.losses), trained.diverged) == (1, True)

    def test_bags_of_words_stay_sparse(self, datasets: Path) -> None:
        assert isinstance(task("texas", False).x, SparseFeatures)
        assert isinstance(small_task().x, torch.Tensor)


class TestMetrics:
    def test_accuracy_of_all_three_parts(self) -> None:
        task = small_task()
        logits = torch.randn(40, 3)
        right = (logits.argmax(1) == task.data.y).double()
        masks = task.data.train_mask, task.data.val_mask, task.data.test_mask
        expected = [100 * right[mask[:, 1]].mean().item() for mask in masks]
        assert scorer(task.data, 1)(logits) == pytest.approx(expected)

    def test_roc_auc_counts_pairs(self) -> None:
        generator = torch.Generator().manual_seed(0)
        score = torch.randint(0, 6, (50,), generator=generator).float()  # with ties
        y = torch.randint(0, 2, (50,), generator=generator)
        positive, negative = score[y == 1], score[y == 0]
        gap = positive.view(-1, 1) - negative
        expected = ((gap > 0).double() + 0.5 * (gap == 0)).mean().item()
        assert roc_auc(score, y) == pytest.approx(expected)
        assert roc_auc(y.float(), y) == 1.0
        assert math.isnan(roc_auc(score, torch.ones(50, dtype=torch.long)))

    def test_roc_auc_of_one_class_is_refused(self) -> None:
        task = small_task(classes=2)
        task.data.y[task.data.val_mask[:, 0]] = 1
        with pytest.raises(ValueError, match=r"val_masks: expected nodes of both classes in split 0 .* class 1 alone"):
            scorer(task.data, 0)

    def test_two_classes_mean_roc_auc(self) -> None:
        task = small_task(classes=2)
        logits = torch.stack([-task.data.y.float(), torch.zeros(40)], 1)  # the more negative, the more positive
        assert scorer(task.data, 0)(logits) == [100.0, 100.0, 100.0]


def record(lr: float, split: int, seed: int, val: float, test: float, method: str = "lmgc") -> Record:
    values = hparams(lr=lr, dropout=0.0, epochs=1000)
    run = Run("heterophilic", "texas", method, "residual", values, split, seed)
    return Record(run, "done", Outcome({"test_accuracy": test, "val_accuracy": val}), {}, "")


class TestSelection:
    GRID = (
        record(0.01, 0, 0, val=70, test=90),
        record(0.01, 1, 0, val=70, test=90),
        record(0.003, 0, 0, val=75, test=50),
        record(0.003, 1, 0, val=67, test=60),
        record(0.001, 0, 0, val=99, test=99),  # has one split only: cannot be compared
    )

    def test_is_by_the_mean_over_splits_of_validation_only(self) -> None:
        assert {dict(r.run.hparams)["lr"] for r in STUDY.select(self.GRID)} == {0.003}
        options = complete(STUDY, Options(datasets=("texas",), methods=("lmgc",)))
        repeats = STUDY.follow_up(options, self.GRID)
        assert {dict(run.hparams)["lr"] for run in repeats} == {0.003}
        assert {(run.seed, run.split) for run in repeats} == {(s, i) for s in range(1, 6) for i in range(10)}

    def test_what_will_be_repeated_is_known_before_the_grid_is(self) -> None:
        options = complete(STUDY, Options(datasets=("texas",), methods=("lmgc", "gin"), seeds=2))
        assert len(STUDY.to_come(options, [])) == 2 * 2 * 10
        grid = [run for run in STUDY.runs(options) if run.method == "gin"]
        best = grid[-1].hparams
        scores = [Outcome({"test_accuracy": 1.0, "val_accuracy": float(run.hparams == best)}) for run in grid]
        stored = [Record(run, "done", score, {}, "") for run, score in zip(grid, scores, strict=True)]
        told = STUDY.to_come(options, stored)
        assert {run.hparams for run in told if run.method == "gin"} == {best}
        repeats = STUDY.follow_up(options, stored)
        plan = driver.make_plan(STUDY, options, stored)
        done = Record(repeats[0], "done", scores[0], {}, "")
        assert len(driver.to_come(STUDY, options, plan, [*stored, done])) == 2 * 2 * 10 - 1
        assert STUDY.to_come(replace(options, paper_hparams=True), []) == []

    def test_cells_are_means_of_repeats(self) -> None:
        repeats = [record(0.003, split, seed, 0, 10 * seed + split) for seed in (1, 2, 3) for split in (0, 1)]
        unfinished = record(0.003, 0, 4, 0, 100)
        (cell,) = STUDY.aggregate([*self.GRID, *repeats, unfinished])
        assert (cell.mean, cell.std, cell.count, cell.expected) == (20.5, 10.0, 3, 5)
        assert cell.metric == "test_accuracy"
        assert cell.lacks == "2 of 10 splits"
        full = [record(0.003, split, 1, 0, 10) for split in range(10)]
        assert STUDY.aggregate(full)[0].lacks == ""

    def test_the_longest_training_counts(self) -> None:
        short = record(0.01, 0, 1, val=100, test=1)
        short = replace(short, run=replace(short.run, hparams=hparams(lr=0.01, dropout=0.0, epochs=5)))
        assert short not in STUDY.select([*self.GRID, short])

    def test_differences_are_paired_over_splits(self) -> None:
        ours = [record(0.01, split, 1, 0, score) for split, score in enumerate((50.0, 60.0, 70.0))]
        theirs = [record(0.01, split, 1, 0, score, "gin") for split, score in enumerate((49.0, 58.0, 67.0))]
        (found,) = STUDY.differences([*ours, *theirs])
        assert (found.against, found.mean, found.pairs) == ("gin", 2.0, 3)
        assert found.standard_error == pytest.approx(1 / math.sqrt(3))


class TestOnTexas:
    def test_grid_then_repeats(self, datasets: Path, tmp_path: Path) -> None:
        options = Options(
            datasets=("texas",), methods=("mlp",), lrs=(0.01,), seeds=1, extras=(("epochs", 2), ("budget", 9000))
        )
        summary = driver.reproduce(STUDY, options, tmp_path / "runs.db", Silent())
        with Store(tmp_path / "runs.db") as store:
            records = store.records("heterophilic")
        assert summary.plan.missing == 0
        assert len(records) == 3 * 10 + 10
        (cell,) = STUDY.aggregate(records)
        assert (cell.count, cell.expected) == (1, 5)
        assert 20 < cell.mean < 95
        assert all(r.outcome.metrics["parameters"] <= 9000 for r in records)
        again = driver.reproduce(STUDY, options, tmp_path / "runs.db", Silent())
        assert again.records == []

    @pytest.mark.parametrize("method", trained())
    def test_every_method_trains_within_the_budget(self, datasets: Path, method: str) -> None:
        (first, *_) = runs(datasets=("texas",), methods=(method,), extras=(("epochs", 10),), paper_hparams=True)
        (outcome,) = STUDY.execute((first,), NOWHERE)
        assert outcome.status == "done"
        assert 90_000 < outcome.metrics["parameters"] <= 100_000
        assert outcome.metrics["epochs"] == 10
        assert min(outcome.curves["loss"]) < outcome.curves["loss"][0]

    def test_averaged_models_have_the_mean(self, datasets: Path) -> None:
        (run, *_) = runs(datasets=("texas",), variants=("averaged",), methods=("gatv2",))
        plain, averaged = build(replace(run, variant="residual"))[0], build(run)[0]
        assert [layer.combine for layer in averaged.layers] == ["mean", "mean"]
        for ours, theirs in zip(plain.parameters(), averaged.parameters(), strict=True):
            assert torch.equal(ours, theirs)

    def test_a_dropout_rate_takes_the_place_of_the_settings(self, datasets: Path) -> None:
        options = {"datasets": ("texas",), "methods": ("gcn",)}
        rate = (("dropout_rate", 0.2),)
        grid = [dict(run.hparams) for run in runs(**options, extras=rate)]
        assert {(values["lr"], values["dropout"]) for values in grid} == {(lr, 0.2) for lr in STUDY.lrs}
        (run, *_) = runs(**options, variants=("deep",), paper_hparams=True, extras=rate)
        assert dict(run.hparams)["dropout"] == 0.2
        assert "dropout_rate" not in dict(run.hparams)  # the same run whichever way its dropout was found
        assert build(run)[0].dropout == 0.2
        (run, *_) = runs(**options, paper_hparams=True, extras=rate)
        assert dict(run.hparams)["dropout"] == 0.2
        found = Record(run, "done", Outcome({"test_accuracy": 70.0, "val_accuracy": 70.0}, {}, 1.0), {}, "2026-01-01")
        (cell,) = STUDY.aggregate([found])
        assert cell.lacks == "1 of 10 splits, dropout 0.2"  # neither of the grid nor of the paper
        for wrong in (-0.1, 1.0, "much"):
            with pytest.raises(UsageError, match="dropout-rate"):
                runs(**options, extras=(("dropout_rate", wrong),))

    def test_every_method_can_start_at_unit_scale(self, datasets: Path) -> None:
        flag = (("calibrate", True),)
        (run, *_) = runs(datasets=("texas",), methods=("gcn",), extras=flag)
        assert STUDY.unusual(run.hparams) == (("calibrate", True),)
        model, task = build(run)
        scales: list[float] = []
        for layer in model.layers:
            layer.register_forward_hook(lambda layer, args, out: scales.append(float((out - layer.bias).std())))
        with torch.no_grad():
            model.eval()(task.x, task.graph)
        assert scales == pytest.approx([1.0] * len(model.layers), rel=0.1)
        ours = [runs(datasets=("texas",), methods=("lmgc",), extras=extras) for extras in ((), flag)]
        assert ours[0] == ours[1]  # they always do
        with pytest.raises(UsageError):
            runs(datasets=("texas",), methods=("gin",), extras=flag)

    def test_how_models_start_is_part_of_the_run(self, datasets: Path) -> None:
        for method, start in (("lmgc", QUIET_START), ("eq12", None), ("gatv2", None), ("acm", None)):
            (run, *_) = runs(datasets=("texas",), methods=(method,))
            assert dict(run.hparams).get("start") == start
            assert "gain" not in dict(run.hparams)
            model, task = build(run)
            assert (model.gains is not None) == (start is not None)
            for layer in model.layers if start else ():
                h = torch.relu(model.encoder(task.x))
                assert layer.linear(h, task.graph).square().mean().sqrt().item() == pytest.approx(QUIET, rel=0.01)
                break
        (run, *_) = runs(datasets=("texas",), methods=("gin",), extras=(("gain", "0"),))
        assert STUDY.unusual(run.hparams) == (("gain", 0.0),)
        (usual, *_), (same, *_) = (
            runs(datasets=("texas",), methods=("lmgc",), extras=e) for e in ((), (("gain", "0"),))
        )
        assert usual == same
        assert build(run)[0].gains.tolist() == [0, 0]
        (run, *_) = runs(datasets=("texas",), methods=("lmgc",), extras=(("gain", "none"),))
        assert build(run)[0].gains is None
        with pytest.raises(UsageError, match="--gain: expected one of auto, none or a number, got 'much'"):
            runs(datasets=("texas",), extras=(("gain", "much"),))

    def test_a_run_does_not_depend_on_its_batch(self, datasets: Path) -> None:
        first, second, *_ = runs(datasets=("texas",), methods=("lmgc",), extras=(("epochs", 3),))
        together, alone = STUDY.execute((first, second), NOWHERE)[1], STUDY.execute((second,), NOWHERE)[0]
        assert together.curves["loss"] == alone.curves["loss"]

    @pytest.mark.parametrize("extra", [("undirected", True), ("no_self_loops", True), ("layers", 1), ("heads", 1)])
    def test_options_change_the_model(self, datasets: Path, extra: tuple[str, int]) -> None:
        outputs = []
        for extras in ((), (extra,)):
            (first, *_) = runs(datasets=("texas",), methods=("lmgc",), extras=(*extras, ("gain", "0.5")))
            model, task = build(first)
            outputs.append(model.eval()(task.x, task.graph))
        assert not torch.equal(*outputs)

    def test_missing_data_is_said_before_anything_starts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
        monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))

        def unreachable(*args: object) -> None:
            raise OSError("Network is unreachable")

        monkeypatch.setattr("torch_geometric.datasets.webkb.download_url", unreachable)
        with pytest.raises(DataError, match="texas: webkb/texas/raw"):
            STUDY.prepare(runs(datasets=("texas",)))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    part = random.random((3, 30))
    np.savez(
        tmp_path / "mine.npz",
        node_features=random.standard_normal((30, 5)).astype(np.float32),
        node_labels=random.integers(0, 2, 30),
        edges=random.integers(0, 30, (60, 2)),
        train_masks=part < 0.5,
        val_masks=(part >= 0.5) & (part < 0.75),
        test_masks=part >= 0.75,
    )
    name = f"npz:{tmp_path / 'mine.npz'}"
    found = runs(datasets=(name,), methods=("lmgc",), quick=True, extras=(("epochs", 2),))
    assert [run.split for run in found] == [0, 1, 2]
    assert "data" in dict(found[0].hparams)
    (batch,) = STUDY.batches(found)
    outcomes = STUDY.execute(batch, NOWHERE)
    assert all(0 <= outcome.metrics["test_roc_auc"] <= 100 for outcome in outcomes)
