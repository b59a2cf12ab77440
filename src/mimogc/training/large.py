"""Training of a node classifier that takes long: Adam at one learning rate for all the epochs, with checkpoints."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.models import NodeClassifier
from mimogc.runs.checkpoint import Stateful, capture, load_checkpoint, restore, save_checkpoint
from mimogc.training.hiding import Hiding
from mimogc.training.nodes import History, NodeTask, scorer
from mimogc.training.told import ToldLabels

CHECKPOINT_SECONDS = 60.0  # between two checkpoints, at the end of an epoch


def train(
    model: NodeClassifier,
    task: NodeTask,
    split: int,
    lr: float,
    epochs: int,
    checkpoint: Path,
    progress: Callable[[int, History], None] = lambda epoch, history: None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    score_lr: float = 1.0,
    cosine: bool = False,
    hide: float = 0.0,
    labels: float = 0.0,
) -> History:
    """Train to the end, or on from `checkpoint`; `progress` gets every epoch and what happened so far.

    The vectors in the scores of coefficients have `score_lr` times the learning rate. Adam moves every number by about
    the learning rate, and a score is a sum of as many of them as all graphs have channels.
    With `cosine` the learning rates fall to zero over the epochs, as a cosine. With `hide` features of up to this share
    of the nodes are hidden in every step and asked back (`Hiding`), which the losses have in them. With `labels` those
    of up to this share of the training nodes are inputs in every step, and the others are asked (`ToldLabels`); all are
    inputs for the scores, so that the one on the training nodes then says nothing.
    """
    train_mask, scores = task.data.train_mask[:, split], scorer(task.data, split)
    rows = train_mask.nonzero().flatten()
    told = ToldLabels(task.data.y, train_mask, labels) if labels else None
    groups = _groups(model, lr, score_lr)
    hiding = Hiding(task.data, model.decoder.in_features, hide) if hide else None
    if hiding is not None:
        groups.append({"params": list(hiding.parameters())})
    optimiser = torch.optim.Adam(groups, lr=lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs) if cosine else None
    parts: dict[str, Stateful | None] = {"model": model, "optimiser": optimiser, "schedule": schedule}
    parts |= {"hiding": hiding, "told": told}
    held = {name: part for name, part in parts.items() if part is not None}
    state = load_checkpoint(checkpoint)
    done, history = 0, History()
    if state is not None:
        done, history = restore(state, **held), History(**state["history"])
    saved = time.perf_counter()
    while done < epochs and not history.diverged:
        began = time.perf_counter()
        loss = _loss(model.train(), task, rows, hiding, told)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        if schedule is not None:
            schedule.step()
        history.losses.append(loss.item())
        del loss  # and with it what the layers have kept
        with torch.no_grad():
            found = scores(model.eval()(task.x, task.graph, None if told is None else told.all))
        done += 1
        history.add(found)
        history.times.append(time.perf_counter() - began)
        progress(done, history)
        if (
            time.perf_counter() - saved >= checkpoint_seconds or done == epochs
        ):  # runs are stored with those beside them
            kept = capture(done, **held)
            save_checkpoint(checkpoint, {**kept, "history": asdict(history)})
            saved = time.perf_counter()
    return history


def _loss(
    model: NodeClassifier, task: NodeTask, rows: Tensor, hiding: Hiding | None, told: ToldLabels | None
) -> Tensor:
    given, asked = (None, rows) if told is None else told.draw()
    wanted = task.data.y[asked]
    if hiding is None:
        return F.cross_entropy(model(task.x, task.graph, given)[asked], wanted)
    x, hidden = hiding.draw()
    h = model.embed(x, task.graph, given)
    loss: Tensor = F.cross_entropy(model.decoder(h)[asked], wanted) + hiding(h, hidden)
    return loss


def _groups(model: NodeClassifier, lr: float, score_lr: float) -> list[dict[str, Any]]:
    """The parameters, those of scores with a learning rate of their own where that is another."""
    scores = {name for name, _ in model.named_parameters() if ".coefficients.att" in name and score_lr != 1.0}
    groups = [[value for name, value in model.named_parameters() if (name in scores) is own] for own in (False, True)]
    rates = lr, lr * score_lr
    return [{"params": group, "lr": rate} for group, rate in zip(groups, rates, strict=True) if group]
