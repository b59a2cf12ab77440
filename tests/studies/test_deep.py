"""Deep classifiers beyond the paper: their model, their training with checkpoints, features hidden and asked back."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from mimogc.data import load_nodes
from mimogc.models import num_parameters
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Record, Run
from mimogc.runs.study import Context, Options, complete
from mimogc.studies.heterophilic import STUDY
from mimogc.studies.heterophilic_models import build, task, train_run
from mimogc.training import large as long_training
from mimogc.training.hiding import Hiding
from mimogc.training.nodes import train

DEEP = {"datasets": ("texas",), "methods": ("gcn",), "variants": ("deep",), "paper_hparams": True}


@pytest.fixture(autouse=True)
def no_task_of_another_test() -> None:
    task.cache_clear()


def runs(**options: object) -> list[Run]:
    return STUDY.runs(complete(STUDY, Options(**options)))  # type: ignore[arg-type]


def test_deep_models_have_norms_and_no_budget(datasets: Path) -> None:
    options = {"datasets": ("texas",), "methods": ("lmgc", "gcn"), "variants": ("deep",), "paper_hparams": True}
    found = runs(**options, seeds=1)
    assert {dict(run.hparams)["lr"] for run in found} == {0.01}
    for run in (found[0], found[-1]):
        model, task = build(run)
        assert (len(model.layers), model.encoder.weight.size(1)) == (12, 64)
        assert dict(run.hparams)["heads"] == 2
        assert [type(norm) for norm in model.norms] == [torch.nn.BatchNorm1d] * 12
        # In training every layer's sum is normalised by its own statistics, and the running ones are kept.
        model.train()(task.x, task.graph)
        assert float(model.norms[11].running_var.sub(1).abs().max()) > 0
    given = runs(**options, seeds=1, extras=(("layers", 4), ("channels", 16)))
    model, _ = build(given[0])
    assert (len(model.layers), model.encoder.weight.size(1)) == (4, 16)
    same = runs(**options, seeds=1, extras=(("layers", 12), ("channels", 64), ("heads", 2)))
    assert [run.id for run in same] == [run.id for run in found]


def test_deep_models_map_what_a_layer_is_added_to(datasets: Path) -> None:
    options = {"datasets": ("texas",), "methods": ("gcn",), "variants": ("deep",), "paper_hparams": True}
    (run, *_) = runs(**options, seeds=1, extras=(("layers", 1), ("channels", 8)))
    model, task = build(run)
    model.eval()
    h = torch.relu(model.encoder(task.x))
    skip = model.skips[0]
    added = h @ skip.weight.t() + skip.bias + model.layers[0](h, task.graph)
    wanted = model.decoder(torch.relu(model.norms[0](added)))
    torch.testing.assert_close(model(task.x, task.graph), wanted)


def test_deep_models_train_on_from_a_checkpoint(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"datasets": ("texas",), "methods": ("lmgc",), "variants": ("deep",), "paper_hparams": True}
    extras = (("layers", 2), ("channels", 8), ("epochs", 30))
    (run, *_) = runs(**options, seeds=1, extras=extras)
    whole = train_run(run, *build(run), Context(lambda fraction, metrics: None, tmp_path / "whole"))

    def stop(fraction: float, metrics: Mapping[str, float]) -> None:
        if fraction > 0.6:
            raise KeyboardInterrupt

    often = functools.partial(long_training.train, checkpoint_seconds=0.0)
    monkeypatch.setattr(long_training, "train", often)
    with pytest.raises(KeyboardInterrupt):
        train_run(run, *build(run), Context(stop, tmp_path / "again"))
    seen: list[float] = []
    context = Context(lambda fraction, metrics: seen.append(fraction), tmp_path / "again")
    again = train_run(run, *build(run), context)
    assert seen == [2 / 3, 1]
    assert again.curves == whole.curves
    assert whole.metrics["epochs"] == 30


def test_norms_are_not_evaluated_for_training(datasets: Path) -> None:
    """With batch norm a pass in evaluation mode cannot stand for one in training mode, even without dropout."""
    options = {"datasets": ("texas",), "methods": ("gcn",), "variants": ("deep",), "paper_hparams": True}
    (run, *_) = runs(**options, seeds=1, extras=(("layers", 2), ("channels", 8)))
    modes: list[bool] = []
    model, task = build(run)
    model.dropout = 0.0
    model.register_forward_pre_hook(lambda module, args: modes.append(module.training))
    train(model, task, 0, 0.01, 3)
    assert modes == [True, False] * 3


def test_a_given_option_counts_in_the_deep_variant_too(datasets: Path) -> None:
    options = {"datasets": ("texas",), "methods": ("gcn",), "variants": ("deep",), "paper_hparams": True}
    found = [dict(runs(**options, extras=extras)[0].hparams) for extras in ((), (("layers", 2),))]
    assert [values["layers"] for values in found] == [12, 2]
    assert [values["channels"] for values in found] == [64, 64]


def test_a_budget_decides_the_width_of_the_deep_variant(datasets: Path) -> None:
    options = {"datasets": ("texas",), "methods": ("gcn",), "variants": ("deep",), "paper_hparams": True}
    for extras in ((("budget", 40_000),), (("budget", 40_000), ("channels", 0))):
        model, _ = build(runs(**options, extras=extras)[0])
        assert 35_000 < num_parameters(model) <= 40_000


def test_score_vectors_have_a_learning_rate_of_their_own(datasets: Path, tmp_path: Path) -> None:
    options = {"datasets": ("texas",), "methods": ("lmgc",), "variants": ("deep",), "paper_hparams": True}
    (run, *_) = runs(**options, extras=(("layers", 2), ("channels", 8), ("gain", 0.1), ("score_lr", 0.5)))
    assert ("score_lr", 0.5) in STUDY.unusual(run.hparams)
    moved = {}
    for score_lr in (0.0, 1.0, 0.5):
        model, task = build(run)
        before = {name: value.detach().clone() for name, value in model.named_parameters()}
        long_training.train(model, task, 0, 0.01, 1, tmp_path / f"{score_lr}.pt", score_lr=score_lr)
        moved[score_lr] = {name: (value - before[name]).abs().max() for name, value in model.named_parameters()}
    for name, most in moved[1.0].items():  # Adam's first step is the learning rate
        share = 0.5 if name.endswith("coefficients.att") else 1.0
        assert moved[0.5][name].item() == pytest.approx(share * most.item(), rel=1e-3, abs=1e-7), name
        assert (moved[0.0][name] == 0) == (share == 0.5 or most == 0), name
    for wrong in ({"variants": ("residual",)}, {"methods": ("gcn",)}):
        with pytest.raises(UsageError, match=r"--(methods|variants)"):
            runs(**{**options, **wrong}, extras=(("score_lr", 0.5),))


def test_layers_start_at_the_scale_that_is_asked_for(datasets: Path) -> None:
    options = {"datasets": ("texas",), "methods": ("lmgc",), "variants": ("deep",), "paper_hparams": True}
    extras = (("layers", 2), ("channels", 8), ("gain", 0.1), ("branch_scale", 5.0))
    (run, *_) = runs(**options, extras=extras)
    assert {("branch_scale", 5.0), ("gain", 0.1)} <= set(STUDY.unusual(run.hparams))
    model, task = build(run)
    scales: list[float] = []
    for layer in model.layers:
        layer.register_forward_hook(lambda layer, args, out: scales.append(float(out.square().mean().sqrt())))
    with torch.no_grad():
        model.eval()(task.x, task.graph)
    assert scales == pytest.approx([5.0] * 2, rel=0.05)
    with pytest.raises(UsageError, match="--methods"):  # which are not brought to any scale
        runs(datasets=("texas",), methods=("gcn",), extras=(("branch_scale", 5.0),))


class TestHiding:
    def test_rows_become_those_of_nodes_of_which_nothing_is_known(self, datasets: Path) -> None:
        data = load_nodes("texas")
        assert data.unknown is None
        torch.manual_seed(0)
        hiding = Hiding(data, 8, 0.5)
        shares = []
        for _ in range(40):
            x, rows = hiding.draw()
            shares.append(rows.numel() / data.num_nodes)
            assert not x[rows].any()
            others = torch.ones(data.num_nodes, dtype=torch.bool).index_fill(0, rows, False)
            assert torch.equal(x[others], data.x[others])
        assert data.x.any(1)[rows].all()  # the data itself is as it was
        assert 0.2 < sum(shares) / 40 < 0.3
        assert max(shares) > 0.35
        assert min(shares) < 0.15

    def test_what_the_data_has_for_unknown_is_neither_drawn_nor_zero(self, datasets: Path) -> None:
        data = load_nodes("texas")
        marked = dataclasses.replace(
            data, x=data.x[:, :3].clamp(max=0) + torch.eye(3)[torch.arange(183) % 3], unknown=1
        )
        x, rows = Hiding(marked, 8, 1.0).draw()
        assert rows.numel() > 0
        assert bool((rows % 3 != 1).all())
        assert torch.equal(x[rows], torch.tensor([0.0, 1.0, 0.0]).expand(rows.numel(), 3))

    def test_minesweeper_says_of_which_cells_nothing_is_known(self, datasets: Path) -> None:
        data = load_nodes("minesweeper")
        assert data.unknown == 0
        unknown = data.x[:, 0] == 1
        assert int(unknown.sum()) == 5000
        assert not data.x[unknown, 1:].any()
        assert bool((data.x[~unknown].sum(1) == 1).all())
        x, rows = Hiding(data, 8, 1.0).draw()
        assert not unknown[rows].any()
        assert torch.equal(x[rows], data.x[unknown][:1].expand(rows.numel(), -1))

    def test_loss_is_the_cross_entropy_of_shares(self, datasets: Path) -> None:
        data = load_nodes("texas")
        hiding = Hiding(data, 8, 0.5)
        h, rows = torch.randn(data.num_nodes, 8), torch.tensor([3, 77])
        logs = torch.log_softmax(hiding.decoder(h), 1)
        wanted = -torch.stack([logs[row, data.x[row] > 0].mean() for row in rows.tolist()]).mean()  # they are 0 or 1
        torch.testing.assert_close(hiding(h, rows), wanted)
        none = hiding(h.requires_grad_(), rows[:0])
        none.backward()
        assert none == 0
        assert not h.grad.any()

    @pytest.mark.parametrize("most", [0.0, 1.5, -0.1, float("nan"), True])
    def test_refuses_what_is_no_share(self, datasets: Path, most: float) -> None:
        with pytest.raises(ValueError, match=r"hide: expected a share in \(0, 1\], got"):
            Hiding(load_nodes("texas"), 8, most)

    def test_refuses_features_that_are_no_shares(self, datasets: Path) -> None:
        data = load_nodes("texas")
        with pytest.raises(ValueError, match=r"hide: expected features that are not negative, got -1 in texas"):
            Hiding(dataclasses.replace(data, x=-data.x), 8, 0.5)

    def test_hidden_features_are_learnt_and_training_goes_on_as_if_never_stopped(
        self, datasets: Path, tmp_path: Path
    ) -> None:
        extras = (("layers", 2), ("channels", 8), ("epochs", 40), ("hide", 0.8), ("cosine", True))
        (run, *_) = runs(**DEEP, extras=extras)
        assert {("hide", 0.8), ("cosine", True)} <= set(STUDY.unusual(run.hparams))
        model, task = build(run)
        how = {"hide": 0.8, "cosine": True}
        whole = long_training.train(model, task, 0, 0.01, 40, tmp_path / "whole.pt", **how)

        def stop(epoch: int, history: object) -> None:
            if epoch == 25:
                raise KeyboardInterrupt

        model, task = build(run)
        with pytest.raises(KeyboardInterrupt):
            long_training.train(model, task, 0, 0.01, 40, tmp_path / "again.pt", stop, 0.0, **how)
        again = long_training.train(build(run)[0], task, 0, 0.01, 40, tmp_path / "again.pt", **how)
        assert (again.losses, again.vals) == (whole.losses, whole.vals)
        plain = long_training.train(build(run)[0], task, 0, 0.01, 40, tmp_path / "plain.pt", cosine=True)
        asked = [losses[-1] - plain.losses[-1] for losses in (whole.losses, whole.losses[:1])]
        assert 0 < asked[0] < asked[1]

    def test_the_learning_rate_falls_to_zero(self, datasets: Path, tmp_path: Path) -> None:
        model, task = build(runs(**DEEP, extras=(("layers", 2), ("channels", 8)))[0])
        seen: list[torch.Tensor] = []

        def look(epoch: int, history: object) -> None:
            seen.append(torch.cat([value.detach().flatten() for value in model.parameters()]))

        long_training.train(model, task, 0, 0.01, 60, tmp_path / "c.pt", look, cosine=True)
        steps = [float((after - before).abs().max()) for before, after in itertools.pairwise(seen)]
        assert steps[-1] < 1e-4 < 3e-3 < max(steps[:30])

    def test_belongs_to_the_deep_variant(self) -> None:
        for extras in ((("hide", 0.5),), (("cosine", True),), (("labels", 0.5),)):
            with pytest.raises(UsageError, match="--variants"):
                runs(**{**DEEP, "variants": ("residual",)}, extras=extras)
            with pytest.raises(UsageError, match=r"--variants: expected some of deep with .*, got residual"):
                runs(datasets=("texas",), extras=extras)  # the usual variant would leave nothing to do
        with pytest.raises(UsageError, match="hide"):
            runs(**DEEP, extras=(("hide", 1.5),))

    def test_negative_features_are_refused_before_anything_is_trained(self, tmp_path: Path) -> None:
        nodes, part = 12, np.arange(12) % 3
        masks = {f"{name}_masks": part == number for number, name in enumerate(("train", "val", "test"))}
        path = tmp_path / "negative.npz"
        arrays = {"node_features": np.full((nodes, 2), -1.5), "node_labels": np.arange(nodes) // 6}
        np.savez(path, **arrays, edges=np.array([[0, 1]]), **masks)
        found = runs(**{**DEEP, "datasets": (f"npz:{path}",)}, extras=(("hide", 0.5),))
        with pytest.raises(UsageError, match=r"--hide: expected features that are not negative, got -1.5 in npz:"):
            STUDY.prepare(found)
        STUDY.prepare(runs(**{**DEEP, "datasets": (f"npz:{path}",)}))

    def test_cells_say_what_their_column_does_not(self, datasets: Path) -> None:
        outcome = Outcome({"test_accuracy": 70.0, "val_accuracy": 70.0}, {}, 1.0)
        for extras, said in (
            ((), "1 of 10 splits"),
            ((("dropout_rate", 0.2),), "1 of 10 splits, learning rate 0.01, dropout 0.2"),
            (
                (("epochs", 1600), ("dropout_rate", 0.0)),
                "1 of 10 splits, 1,600 epochs, learning rate 0.01, dropout 0.0",
            ),
        ):
            (run, *_) = runs(**DEEP, extras=extras)
            (cell,) = STUDY.aggregate([Record(run, "done", outcome, {}, "2026-01-01")])
            assert cell.lacks == said
