"""The models of the node classification studies, with their starts, and the training of one run."""

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mimogc import methods
from mimogc.data import load_nodes
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Run, thinned
from mimogc.runs.study import Context

if TYPE_CHECKING:  # what needs torch is imported by the functions that train
    from mimogc.models import NodeClassifier
    from mimogc.training.nodes import History, NodeTask

CURVE_POINTS = 100
# Branches whose share is learnt from 0 are calibrated to this scale: small weights turn more quickly than large ones.
# Settled by validation in trials that were not kept; gate-0 and gate-0-quiet of `benchmarks/starts.py` can repeat them.
QUIET = 0.25
QUIET_START = "calibrated, branches by 1/4"
AVERAGED = "averaged"  # the variant with the mean over the graphs
DEEP = "deep"  # the variant beyond the paper: many layers, batch norm, learnt maps as residual connections, no budget


@functools.lru_cache(maxsize=4)
def task(dataset: str, undirected: bool) -> "NodeTask":
    from mimogc.training.nodes import NodeTask

    return NodeTask.of(load_nodes(dataset), undirected)


def check_hidden(dataset: str) -> None:
    """Refuse features that cannot be hidden before anything is trained."""
    from mimogc.training.hiding import check_features

    try:
        check_features(load_nodes(dataset))
    except ValueError as error:
        raise UsageError(f"--{error}") from error


def check_told(dataset: str, splits: Iterable[int], share: float) -> None:
    """Refuse a share of the training labels with which none would be told, before anything is trained."""
    from mimogc.training.told import ToldLabels

    data = load_nodes(dataset)
    try:
        for split in splits:
            ToldLabels(data.y, data.train_mask[:, split], share)
    except ValueError as error:
        raise UsageError(f"--{error} in split {split} of {dataset}") from error


@functools.cache
def width(
    features: int,
    classes: int,
    method: str,
    layers: int,
    heads: int,
    budget: int,
    deep: bool = False,
    label_input: bool = False,
) -> int:
    """The largest width within the budget of parameters."""
    from mimogc.models import NodeClassifier, fit_width

    def model(channels: int) -> NodeClassifier:
        shape = (features, channels, classes, method, layers, heads)
        return NodeClassifier(*shape, batch_norm=deep, linear_skip=deep, label_input=label_input)

    return fit_width(model, budget)


def build(run: Run) -> "tuple[NodeClassifier, NodeTask]":
    """The model of a run with its initial weights, which depend on seed and split, and what it is trained on."""
    import torch

    from mimogc.models import NodeClassifier
    from mimogc.nn import Coefficients, calibrate

    values = dict(run.hparams)
    found = task(run.dataset, bool(values["undirected"]))
    layers, heads = int(values["layers"]), int(values["heads"])
    features, classes = found.data.num_features, found.data.num_classes
    channels, deep, told = int(values.get("channels", 0)), run.variant == DEEP, bool(values.get("labels"))
    channels = channels or width(features, classes, run.method, layers, heads, int(values["budget"]), deep, told)
    torch.manual_seed(1000 * run.seed + run.split)
    combine, gain = "mean" if run.variant == AVERAGED else "sum", values.get("gain", "auto")
    shape = (features, channels, classes, run.method, layers, heads, float(values["dropout"]))
    start = None if gain == "none" else gain
    beyond: Any = {"batch_norm": deep, "linear_skip": deep, "label_input": told}
    model = NodeClassifier(*shape, not values["no_self_loops"], combine, start, **beyond)
    if methods.method(run.method).calibrated or values.get("calibrate"):
        usual = QUIET if values.get("start") == QUIET_START else 1.0
        scale = float(values.get("branch_scale", usual))
        calibrate(model, found.x, found.graph, only=Coefficients, scale=scale)
    return model, found


def train_run(
    run: Run, model: "NodeClassifier", task: "NodeTask", context: Context, done: int = 0, runs: int = 1
) -> Outcome:
    """Train one of several runs, of which some are done."""
    from mimogc.models import num_parameters
    from mimogc.training import large, nodes

    values, metric = dict(run.hparams), task.data.metric
    lr, epochs = float(values["lr"]), int(values["epochs"])

    def tell(epoch: int, history: "History") -> None:
        if epoch % 10 == 0:
            context.progress((done + epoch / epochs) / runs, {"val": history.best[1]})

    if run.variant == DEEP:
        how: dict[str, Any] = {
            name: values[name] for name in ("score_lr", "cosine", "hide", "labels") if name in values
        }
        history = large.train(model, task, run.split, lr, epochs, context.folder / f"{run.id}.pt", tell, **how)
    else:
        history = nodes.train(model, task, run.split, lr, epochs, tell)
    train_score, val, test = history.best
    seconds = sum(history.times)
    return Outcome(
        metrics={
            f"test_{metric}": test,
            f"val_{metric}": val,
            f"train_{metric}": train_score,
            "best_epoch": history.best_epoch,
            "epochs": len(history.losses),
            "parameters": num_parameters(model),
            "channels": model.encoder.weight.size(1),
            "seconds_per_epoch": seconds / len(history.losses),
        },
        curves=thinned(CURVE_POINTS, **{"loss": history.losses, f"val_{metric}": history.vals}),
        seconds=seconds,
        status="diverged" if history.diverged else "done",
    )
