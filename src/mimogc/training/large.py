"""Training of a node classifier on one large graph, whole: Adam for a given number of epochs, with checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch.nn import functional as F

from mimogc.models import NodeClassifier
from mimogc.runs.checkpoint import capture, load_checkpoint, restore, save_checkpoint
from mimogc.training.nodes import NodeTask, scorer

CHECKPOINT_SECONDS = 60.0  # between two checkpoints, at the end of an epoch


@dataclass
class History:
    """What happened so far; the scores, in percent, are those of the first epoch with the best on validation."""

    losses: list[float] = field(default_factory=list)
    vals: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # seconds of every epoch, with its evaluation
    best: list[float] = field(default_factory=lambda: [0.0, -math.inf, 0.0])  # train, validation, test
    best_epoch: int = 0  # counted from 1

    @property
    def diverged(self) -> bool:
        return bool(self.losses) and not math.isfinite(self.losses[-1])


def train(
    model: NodeClassifier,
    task: NodeTask,
    split: int,
    lr: float,
    epochs: int,
    checkpoint: Path,
    progress: Callable[[int, History], None] = lambda epoch, history: None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> History:
    """Train to the end, or on from `checkpoint`; `progress` gets every epoch and what happened so far."""
    rows = task.data.train_mask[:, split].nonzero().flatten()
    labels, scores = task.data.y[rows], scorer(task.data, split)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    state = load_checkpoint(checkpoint)
    done, history = 0, History()
    if state is not None:
        done, history = restore(state, model=model, optimiser=optimiser), History(**state["history"])
    saved = time.perf_counter()
    while done < epochs and not history.diverged:
        began = time.perf_counter()
        loss = F.cross_entropy(model.train()(task.x, task.graph)[rows], labels)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        history.losses.append(loss.item())
        del loss  # and with it what the layers have kept
        with torch.no_grad():
            found = scores(model.eval()(task.x, task.graph))
        done += 1
        history.vals.append(found[1])
        if found[1] > history.best[1]:
            history.best, history.best_epoch = found, done
        history.times.append(time.perf_counter() - began)
        progress(done, history)
        if time.perf_counter() - saved >= checkpoint_seconds and done < epochs:
            kept = capture(done, model=model, optimiser=optimiser)
            save_checkpoint(checkpoint, {**kept, "history": asdict(history)})
            saved = time.perf_counter()
    return history
