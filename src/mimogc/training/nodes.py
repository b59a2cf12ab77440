"""Training of a node classifier on one split: Adam, plateau schedule, early stopping, one evaluation per epoch."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.data import NodeDataset
from mimogc.graph import Graph
from mimogc.models import NodeClassifier
from mimogc.models.sparse_features import SparseFeatures

PATIENCE = 200  # epochs without a better validation score before training stops
PLATEAU = 20  # epochs without a better training loss before the learning rate falls
FACTOR, FLOOR = 1 / 3, 1e-4  # by this factor, to this value at least
SPARSE_BELOW = 0.1  # share of non-zero features up to which they are kept sparse

Scores = Callable[[Tensor], list[float]]  # logits [N, classes] → train, val, test score in percent


@dataclass(frozen=True, eq=False)
class NodeTask:
    """A dataset made ready once for all its runs."""

    data: NodeDataset
    x: Tensor | SparseFeatures  # [N, F]
    graph: Graph

    @staticmethod
    def of(data: NodeDataset, undirected: bool = False) -> "NodeTask":
        density = data.x.count_nonzero().item() / max(1, data.x.numel())
        x = SparseFeatures.from_dense(data.x) if density <= SPARSE_BELOW else data.x
        return NodeTask(data, x, data.graph(undirected))


@dataclass
class History:
    """What happened so far; the scores, in percent, are those of the first epoch with the best on validation."""

    losses: list[float] = field(default_factory=list)  # training loss of every epoch
    vals: list[float] = field(default_factory=list)  # validation score after each
    times: list[float] = field(default_factory=list)  # seconds of every epoch, with its evaluation
    best: list[float] = field(default_factory=lambda: [0.0, -math.inf, 0.0])  # train, validation, test
    best_epoch: int = 0  # counted from 1

    def add(self, scores: list[float]) -> None:
        """The scores after one more epoch."""
        self.vals.append(scores[1])
        if scores[1] > self.best[1]:
            self.best, self.best_epoch = scores, len(self.vals)

    @property
    def diverged(self) -> bool:
        return bool(self.losses) and not math.isfinite(self.losses[-1])


def train(
    model: NodeClassifier,
    task: NodeTask,
    split: int,
    lr: float,
    epochs: int,
    progress: Callable[[int, History], None] = lambda epoch, history: None,
) -> History:
    """Train on one split; `progress` gets every epoch and what happened so far."""
    rows = task.data.train_mask[:, split].nonzero().flatten()
    labels = task.data.y[rows]
    scores = scorer(task.data, split)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=FACTOR, patience=PLATEAU, min_lr=min(FLOOR, lr)
    )
    # Without dropout and batch norm an evaluation is also the next epoch's forward pass.
    reused = model.dropout == 0 and not model.batch_norm
    history = History()
    ended = time.perf_counter()
    logits = model.train()(task.x, task.graph)
    for epoch in range(1, epochs + 1):
        if epoch > 1 and not reused:
            logits = model.train()(task.x, task.graph)
        loss = F.cross_entropy(logits[rows], labels)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        with torch.set_grad_enabled(reused):
            logits = model.eval()(task.x, task.graph)
        history.losses.append(loss.item())
        schedule.step(history.losses[-1])
        history.add(scores(logits.detach()))
        began, ended = ended, time.perf_counter()
        history.times.append(ended - began)
        progress(epoch, history)
        if epoch - history.best_epoch >= PATIENCE or history.diverged:
            break
    return history


def scorer(data: NodeDataset, split: int) -> Scores:
    """The dataset's metric on train, val and test from one set of logits."""
    masks = torch.stack([data.train_mask[:, split], data.val_mask[:, split], data.test_mask[:, split]], 1)
    if data.metric == "accuracy":
        share = 100 * masks.double() / masks.sum(0)  # [N, 3]
        return lambda logits: ((logits.argmax(1) == data.y).double() @ share).tolist()
    parts = [mask.nonzero().flatten() for mask in masks.unbind(1)]
    labels = [data.y[part] for part in parts]
    for name, y in zip(("train", "val", "test"), labels, strict=True):
        if y.unique().numel() < 2:  # no epoch would be the best one
            found = "none" if not y.numel() else f"class {int(y[0])} alone"
            raise ValueError(f"{name}_masks: expected nodes of both classes in split {split} (ROC-AUC), got {found}")

    def roc_aucs(logits: Tensor) -> list[float]:
        positive = logits[:, 1] - logits[:, 0]
        return [100 * roc_auc(positive[part], y) for part, y in zip(parts, labels, strict=True)]

    return roc_aucs


def roc_auc(score: Tensor, y: Tensor) -> float:
    """The probability that a positive scores higher than a negative, ties counting half; NaN if one is missing.

    Args:
        score: ``[n]``.
        y: ``[n]`` of 0 and 1.
    """
    positives = int(y.sum())
    pairs = positives * (y.numel() - positives)
    if pairs == 0 or not bool(score.isfinite().all()):
        return math.nan
    _, place, count = torch.unique(score, return_inverse=True, return_counts=True)
    rank = count.cumsum(0).double() - (count - 1) / 2  # mean rank, from 1, of each distinct score
    return (float(rank[place][y == 1].sum()) - positives * (positives + 1) / 2) / pairs
