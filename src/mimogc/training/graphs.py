"""Training of a graph regressor: L1 loss, AdamW on one flat vector, cosine schedule, in one process or in many."""

import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from mimogc.data.encodings import Encoding
from mimogc.data.molecules import MoleculeBatch, Molecules
from mimogc.models import GraphRegressor
from mimogc.runs import ranks
from mimogc.runs.checkpoint import capture, load_checkpoint, restore, save_checkpoint

BATCH_SIZE = 32  # over all processes
CLIP = 1.0  # largest norm of the gradient
EVALUATED_TOGETHER = 128  # molecules: enough to hide overhead, few enough for the processor's cache
CHECKPOINT_SECONDS = 30.0  # between two checkpoints, at the end of an epoch
PROGRESS_SECONDS = 2.0  # between two words within an epoch


@dataclass(frozen=True, eq=False)
class MoleculeTask:
    """Molecules made ready once for all runs: which are trained on, which validate, which test."""

    molecules: Molecules
    encoding: Encoding | None
    train: Tensor  # [n] the molecules of each part
    val: Tensor
    test: Tensor

    @staticmethod
    def of(molecules: Molecules, encoding: Encoding | None, size: int) -> "MoleculeTask":
        """With the first `size` molecules for training, at most as many for validation, and the whole test set."""
        parts = molecules.split("train")[:size], molecules.split("val")[:size], molecules.split("test")
        return MoleculeTask(molecules, encoding, *parts)

    def to(self, device: torch.device) -> "MoleculeTask":
        if self.molecules.y.device == device:
            return self
        encoding = None if self.encoding is None else self.encoding.to(device)
        parts = (part.to(device) for part in (self.train, self.val, self.test))
        return MoleculeTask(self.molecules.to(device), encoding, *parts)


class FlatAdamW:
    """AdamW without weight decay and with clipped gradients, on all weights of a model as one vector.

    The weights become views of that vector, so that clipping and the update are one call whatever the number of layers.
    """

    def __init__(self, model: torch.nn.Module, lr: float) -> None:
        self.lr = lr
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.vector = torch.cat([weight.detach().flatten() for weight in self.weights])
        for weight, values in zip(self.weights, self.vector.split([w.numel() for w in self.weights]), strict=True):
            weight.data = values.view_as(weight)
        self.places = [weight.data_ptr() for weight in self.weights]
        self.mean, self.square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.steps = torch.zeros((), device=self.vector.device)

    def forget(self) -> None:
        """Drop the gradients, before those of the next batch are added."""
        for weight in self.weights:
            weight.grad = None

    def step(self) -> None:
        if [weight.data_ptr() for weight in self.weights] != self.places:
            raise RuntimeError(
                "model: expected the weights that the optimiser made its own; move or cast the model before"
            )
        self.steps += 1
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self.weights]
        gradient = torch._utils._flatten_dense_tensors(gradients)
        gradient.mul_((CLIP / torch.linalg.vector_norm(gradient).add_(1e-6)).clamp_(max=1.0))
        # What torch.optim.AdamW(fused=True) calls in the end, without the way there.
        adamw: Any = torch._fused_adamw_
        rates = {"lr": self.lr, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8}
        state = [self.mean], [self.square], list[Tensor](), [self.steps]
        adamw([self.vector], [gradient], *state, amsgrad=False, maximize=False, **rates)

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, value in self.state_dict().items():
            value.copy_(state[name])


@dataclass
class History:
    """What has happened so far; with the weights of the best epoch it is all that the result needs."""

    losses: list[float] = field(default_factory=list)  # mean absolute error of the training batches, per epoch
    vals: list[float] = field(default_factory=list)  # validation error after each epoch
    times: list[float] = field(default_factory=list)  # seconds that each epoch of training took
    seconds: float = 0.0  # in all, validation included
    best_epoch: int = 0  # counted from 1; 0 while no validation error was finite
    best: dict[str, Tensor] = field(default_factory=dict)  # the model's state after it

    @property
    def diverged(self) -> bool:
        return bool(self.losses) and not math.isfinite(self.losses[-1])

    @property
    def best_val(self) -> float:
        return self.vals[self.best_epoch - 1] if self.best_epoch else math.inf


@dataclass(frozen=True)
class TrainedRegressor:
    """What training gave: the test error is that of the epoch with the best validation error."""

    train: float  # mean absolute error of the training batches in the last epoch
    val: float
    test: float
    history: History

    @property
    def seconds_per_epoch(self) -> float:
        """The median over the epochs, of training alone."""
        return statistics.median(self.history.times)


def train(
    model: GraphRegressor,
    task: MoleculeTask,
    lr: float,
    epochs: int,
    seed: int,
    checkpoint: Path,
    progress: Callable[[float, History], None] = lambda epochs, history: None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> TrainedRegressor:
    """Train to the end, or on from `checkpoint`; `progress` gets the epochs done and what happened so far.

    It is told at the end of every epoch, and of one that takes longer every few seconds.

    Under torchrun every process calls this with the same arguments. Each takes its share of every batch, and the
    gradients are those of the whole batch (with batch norm up to its statistics, which are of the share).
    """
    place = device()
    model, task = model.to(place), task.to(place)
    optimiser = FlatAdamW(model, lr)
    replica: torch.nn.Module = DistributedDataParallel(model) if ranks.size() > 1 else model
    shuffle = torch.Generator().manual_seed(seed)
    parts: dict[str, Any] = {"model": model, "optimiser": optimiser, "shuffle": shuffle}
    history, done = History(), 0
    state = _agreed(load_checkpoint(checkpoint) if ranks.rank() == 0 else None)
    if state is not None and state["parts"]["optimiser"].keys() != optimiser.state_dict().keys():
        warnings.warn(f"checkpoint {checkpoint} is of another version; training starts again", stacklevel=2)
    elif state is not None:
        done, history = restore(state, **parts), History(**state["history"])
    val = evaluation_batches(task, task.val, model.add_self_loops)
    start = saved = told = time.perf_counter()
    before = history.seconds

    def within(share: float) -> None:
        nonlocal told
        if share < 1 and time.perf_counter() - told >= PROGRESS_SECONDS:
            progress(done + share, history)
            told = time.perf_counter()

    while done < epochs and not history.diverged:
        began = time.perf_counter()
        optimiser.lr = cosine(lr, done, epochs)
        order = task.train[torch.randperm(task.train.size(0), generator=shuffle).to(place)]
        history.losses.append(train_epoch(replica, optimiser, task, order, model.add_self_loops, within))
        history.times.append(time.perf_counter() - began)
        history.vals.append(evaluate(model, val, task.val.size(0)))
        done += 1
        if history.vals[-1] < history.best_val:
            history.best_epoch = done
            history.best = {name: value.clone() for name, value in model.state_dict().items()}
        history.seconds = before + time.perf_counter() - start
        progress(done, history)
        told = time.perf_counter()
        if ranks.rank() == 0 and time.perf_counter() - saved >= checkpoint_seconds and done < epochs:
            save_checkpoint(checkpoint, {**capture(done, **parts), "history": asdict(history)})
            saved = time.perf_counter()
    if not history.best_epoch:
        return TrainedRegressor(math.inf, math.inf, math.inf, history)
    model.load_state_dict(history.best)
    test = evaluate(model, evaluation_batches(task, task.test, model.add_self_loops), task.test.size(0))
    return TrainedRegressor(math.inf if history.diverged else history.losses[-1], history.best_val, test, history)


def cosine(lr: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 0: half a cosine from `lr` to 0."""
    return lr * 0.5 * (1 + math.cos(math.pi * epoch / epochs))


def train_epoch(
    model: torch.nn.Module,
    optimiser: FlatAdamW,
    task: MoleculeTask,
    order: Tensor,
    self_loops: bool,
    progress: Callable[[float], None] = lambda share: None,
) -> float:
    """Train on the molecules in this order; gives the mean absolute error of the batches as they came.

    `progress` gets the share of the epoch that is done after every batch.
    """
    model.train()
    errors, sizes = [], []  # looked at in the end: nothing waits for them on the way
    for batch, share, size in shares(task, order, self_loops):
        predicted = model(batch)
        error = predicted.detach() - batch.y
        optimiser.forget()
        # The gradient of the mean absolute error: written down it costs less than autograd's way to it.
        torch.autograd.backward(predicted, error.sign() * (share / batch.num_graphs))
        optimiser.step()
        errors.append(error)
        sizes.append(size * share / ranks.size())
        progress(min(1.0, len(sizes) * BATCH_SIZE / order.size(0)))
    weights = torch.tensor(sizes, dtype=torch.float64, device=order.device)
    losses = torch.stack([error.abs().mean() for error in errors])
    return _summed(losses.double() @ weights) / order.size(0)


def shares(task: MoleculeTask, order: Tensor, self_loops: bool) -> Iterator[tuple[MoleculeBatch, float, int]]:
    """This process's share of every batch, the factor for its mean loss, and the size of the whole batch.

    The factor makes the average over the processes, which DistributedDataParallel takes, the mean over the whole
    batch. A process without a share of a small last batch computes one molecule with factor 0 and stays in step.
    """
    rank, world = ranks.rank(), ranks.size()
    whole = order.size(0) // BATCH_SIZE * BATCH_SIZE
    for part, size in ((order[:whole], BATCH_SIZE), (order[whole:], order.size(0) - whole)):
        if not part.size(0):
            continue
        first, last = size * rank // world, size * (rank + 1) // world
        mine = part.view(-1, size)[:, first : max(last, first + 1)]
        for batch in task.molecules.batches(mine.flatten(), mine.size(1), self_loops, task.encoding):
            yield batch, (last - first) * world / size, size


def evaluation_batches(task: MoleculeTask, molecules: Tensor, self_loops: bool) -> list[MoleculeBatch]:
    """This process's share of the molecules in batches, to be made once and used every epoch."""
    mine = molecules[ranks.rank() :: ranks.size()]
    return list(task.molecules.batches(mine, EVALUATED_TOGETHER, self_loops, task.encoding))


def evaluate(model: GraphRegressor, batches: list[MoleculeBatch], size: int) -> float:
    """The mean absolute error over all `size` molecules of all processes."""
    model.eval()
    if ranks.size() > 1:  # the running statistics of batch norm are each process's own
        for buffer in model.buffers():
            distributed.broadcast(buffer, 0)
    total = torch.zeros((), dtype=torch.float64, device=next(model.parameters()).device)
    with torch.no_grad():
        for batch in batches:
            total += F.l1_loss(model(batch), batch.y, reduction="sum")
    return _summed(total) / size


def device() -> torch.device:
    """This process's GPU where there is one, else the processor."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def _summed(value: Tensor) -> float:
    """The sum over all processes, the same number on each."""
    if ranks.size() > 1:
        distributed.all_reduce(value)
    return value.item()


def _agreed(state: dict[str, Any] | None) -> dict[str, Any] | None:
    """The checkpoint that rank 0 found, on every rank."""
    if ranks.size() == 1:
        return state
    message: list[Any] = [state]
    distributed.broadcast_object_list(message, src=0)
    found: dict[str, Any] | None = message[0]
    return found
