"""Labels of training nodes as inputs: what is told, what is asked, and that the study does so."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mimogc.data import NodeDataset
from mimogc.models import NodeClassifier, num_parameters
from mimogc.runs.options import UsageError
from mimogc.runs.run import Run
from mimogc.runs.study import Context, Options, complete
from mimogc.studies.heterophilic import STUDY
from mimogc.studies.heterophilic_models import build, task, train_run
from mimogc.training import large as long_training
from mimogc.training.hiding import Hiding
from mimogc.training.nodes import History, NodeTask
from mimogc.training.told import ToldLabels

DEEP = {"datasets": ("texas",), "methods": ("gcn",), "variants": ("deep",), "paper_hparams": True}


@pytest.fixture(autouse=True)
def no_task_of_another_test() -> None:
    task.cache_clear()


def runs(**options: object) -> list[Run]:
    return STUDY.runs(complete(STUDY, Options(**options)))  # type: ignore[arg-type]


class TestToldLabels:
    def test_what_is_asked_is_never_told(self) -> None:
        torch.manual_seed(0)
        y = torch.randint(0, 3, (400,))
        train = torch.rand(400) < 0.5
        told = ToldLabels(y, train, 0.8)
        assert torch.equal(told.all, torch.where(train, y, -1))
        shares = []
        for _ in range(40):
            labels, asked = told.draw()
            known = labels >= 0
            assert torch.equal(labels[known], y[known])
            assert not known[~train].any()
            assert not known[asked].any()
            assert torch.equal(train & ~known, torch.zeros_like(train).index_fill(0, asked, True))
            shares.append(int(known.sum()) / int(train.sum()))
        assert 0.3 < sum(shares) / 40 < 0.5
        assert max(shares) > 0.6
        assert min(shares) < 0.2
        assert torch.equal(told.all, torch.where(train, y, -1))  # what is told is not the same tensor

    def test_at_least_one_is_asked(self) -> None:
        told = ToldLabels(torch.tensor([1, 0, 1]), torch.tensor([False, True, True]), 1.0)
        numbers = [told.draw()[1].numel() for _ in range(40)]
        assert set(numbers) == {1, 2}

    @pytest.mark.parametrize("most", [0.0, 1.5, -0.1, float("nan"), True, "0.5"])
    def test_refuses_what_is_no_share(self, most: float) -> None:
        with pytest.raises(ValueError, match=r"labels: expected a share in \(0, 1\], got"):
            ToldLabels(torch.tensor([0, 1]), torch.tensor([True, True]), most)

    @pytest.mark.parametrize(("train", "most"), [([False, False], 0.5), ([True, False], 1.0), ([True, True], 0.5)])
    def test_refuses_a_share_with_which_nothing_is_told(self, train: list[bool], most: float) -> None:
        said = rf"labels: expected a share with more than 1 of {sum(train)} training nodes, got {most}"
        with pytest.raises(ValueError, match=said):
            ToldLabels(torch.tensor([0, 1]), torch.tensor(train), most)

    @pytest.mark.parametrize(
        ("y", "train"),
        [
            (torch.zeros(4, dtype=torch.int64), torch.ones(4, 1, dtype=torch.bool)),
            (torch.zeros(4, dtype=torch.int64), torch.ones(1, dtype=torch.bool)),
            (torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.int64)),
            (torch.zeros(4), torch.ones(4, dtype=torch.bool)),
        ],
    )
    def test_refuses_what_does_not_fit(self, y: torch.Tensor, train: torch.Tensor) -> None:
        with pytest.raises(ValueError, match=r"y, train: expected torch.int64 \[N\] and torch.bool \[N\], got"):
            ToldLabels(y, train, 0.5)

    def test_a_checkpoint_of_another_share_is_refused(self, datasets: Path, tmp_path: Path) -> None:
        (run, *_) = runs(**DEEP, extras=(("layers", 1), ("channels", 4), ("labels", 0.7)))
        model, found = build(run)
        long_training.train(model, found, 0, 0.01, 2, tmp_path / "c.pt", labels=0.7)
        with pytest.raises(ValueError, match=r"labels: expected 0.7 as in the checkpoint, got 0.2"):
            long_training.train(model, found, 0, 0.01, 4, tmp_path / "c.pt", labels=0.2)
        with pytest.raises(ValueError, match=r"the checkpoint has the parts .*told"):
            long_training.train(model, found, 0, 0.01, 4, tmp_path / "c.pt")

    def test_scores_know_the_labels_of_training_nodes_and_no_others(self, datasets: Path, tmp_path: Path) -> None:
        extras = (("layers", 2), ("channels", 8), ("labels", 0.7))
        (run, *_) = runs(**DEEP, extras=extras)
        assert ("labels", 0.7) in STUDY.unusual(run.hparams)
        model, task = build(run)
        train, seen = task.data.train_mask[:, 0], []
        model.register_forward_pre_hook(lambda module, args: seen.append((module.training, args[2])))
        long_training.train(model, task, 0, 0.01, 2, tmp_path / "seen.pt", labels=0.7)
        assert [mode for mode, _ in seen] == [True, False] * 2
        for mode, labels in seen:
            assert bool((labels[~train] == -1).all())
            assert torch.equal(labels, torch.where(train, task.data.y, -1)) == (not mode)

    def test_labels_of_neighbours_help_and_training_goes_on_as_if_never_stopped(self, tmp_path: Path) -> None:
        """The label of the one neighbour is all that there is to know."""
        pairs, epochs = 60, 40
        torch.manual_seed(0)
        y = torch.randint(0, 2, (pairs,)).repeat(2)
        first = torch.arange(2 * pairs) < pairs
        edges = torch.stack([torch.arange(2 * pairs), torch.arange(2 * pairs).roll(pairs)])
        part = torch.arange(2 * pairs) % 4
        train = first | (part == 0)
        masks = [mask.unsqueeze(1) for mask in (train, ~train & (part < 3), ~train & (part == 3))]
        own = NodeTask.of(NodeDataset("pairs", torch.ones(2 * pairs, 1), edges, y, *masks, metric="accuracy"))
        shape = {"method": "gcn", "layers": 2, "batch_norm": True, "linear_skip": True}

        def trained(name: str, labels: float, stop: Callable[[int, object], None] = lambda *_: None) -> History:
            torch.manual_seed(1)
            model = NodeClassifier(1, 16, 2, **shape, label_input=labels > 0)
            return long_training.train(model, own, 0, 0.02, epochs, tmp_path / name, stop, 0.0, labels=labels)

        def stop(epoch: int, history: object) -> None:
            if epoch == 25:
                raise KeyboardInterrupt

        whole = trained("whole.pt", 0.9)
        assert whole.best[2] > 99.0
        assert trained("none.pt", 0.0).best[2] < 80.0
        with pytest.raises(KeyboardInterrupt):
            trained("again.pt", 0.9, stop)
        again = trained("again.pt", 0.9)
        assert (again.losses, again.vals) == (whole.losses, whole.vals)

    def test_a_budget_counts_the_map_of_the_labels(self, datasets: Path) -> None:
        def parameters(channels: int, labels: bool = True) -> int:
            own = NodeClassifier(1703, channels, 5, "gcn", 2, 2, batch_norm=True, linear_skip=True, label_input=labels)
            return num_parameters(own)

        budget = parameters(5) - 1  # into which five channels fit without that map
        assert parameters(5, labels=False) <= budget
        model, _ = build(runs(**DEEP, extras=(("layers", 2), ("budget", budget), ("labels", 0.5)))[0])
        assert model.encoder.weight.size(1) == 4

    @pytest.mark.parametrize("labels", [0.0, 0.7])
    def test_the_study_trains_so(self, datasets: Path, tmp_path: Path, labels: float) -> None:
        extras = (("layers", 1), ("channels", 4), ("epochs", 2), ("labels", labels))
        (run, *_) = runs(**DEEP, extras=extras)
        model, found = build(run)
        assert (model.label_encoder is not None) == (labels > 0)
        seen: list[object] = []
        model.register_forward_pre_hook(lambda module, args: seen.append(args[2]))
        train_run(run, model, found, Context(lambda fraction, metrics: None, tmp_path))
        assert len(seen) == 4
        assert all((given is not None) == (labels > 0) for given in seen)
        plain = runs(**DEEP, extras=extras[:-1])[0]
        assert (run.id == plain.id) == (labels == 0)  # what is stored without the option is what it was

    def test_a_share_that_tells_nobody_is_refused_before_anything_is_trained(self, datasets: Path) -> None:
        with pytest.raises(
            UsageError, match=r"--labels: .* more than 1 of 87 training nodes, got 0.01 in split 0 of tex"
        ):
            STUDY.prepare(runs(**DEEP, extras=(("labels", 0.01),)))
        STUDY.prepare(runs(**DEEP, extras=(("labels", 0.02),)))

    @pytest.mark.parametrize("hidden", [False, True])
    def test_the_loss_is_of_those_that_are_asked(self, hidden: bool) -> None:
        torch.manual_seed(0)
        y, train = torch.randint(0, 2, (30,)), torch.arange(30) < 20
        edges, masks = torch.randint(0, 30, (2, 60)), [mask.unsqueeze(1) for mask in (train, ~train, ~train)]
        data = NodeDataset("few", torch.eye(3)[torch.randint(0, 3, (30,))], edges, y, *masks, metric="accuracy")
        own, model = NodeTask.of(data), NodeClassifier(3, 8, 2, "gcn", label_input=True)
        given, asked = torch.where(train & (torch.arange(30) >= 5), y, -1), torch.arange(5)

        class Told(ToldLabels):
            def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
                return given, asked

        hiding = Hiding(data, 8, 0.5) if hidden else None
        torch.manual_seed(1)
        loss = long_training._loss(model, own, train.nonzero().flatten(), hiding, Told(y, train, 0.5))
        torch.manual_seed(1)
        x, rows = (data.x, None) if hiding is None else hiding.draw()
        h = model.embed(x, own.graph, given)
        expected = torch.nn.functional.cross_entropy(model.decoder(h)[:5], y[:5])
        torch.testing.assert_close(loss, expected if hiding is None else expected + hiding(h, rows))
        untold = torch.nn.functional.cross_entropy(model(x, own.graph)[:5], y[:5])
        assert abs((expected - untold).item()) > 1e-4
