"""The study of large graphs: node classification on ogbn-arxiv and ogbn-products, whole, beyond the paper."""

import functools
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mimogc import methods
from mimogc.data import load_nodes
from mimogc.runs.options import Option
from mimogc.runs.run import Outcome, Run, thinned
from mimogc.runs.study import Context
from mimogc.studies.own_methods import MethodStudy

if TYPE_CHECKING:  # what needs torch is imported by the functions that train
    from mimogc.models import NodeClassifier
    from mimogc.training.nodes import History, NodeTask

DATASETS = ("ogbn-arxiv", "ogbn-products")
CURVE_POINTS = 100


@functools.lru_cache(maxsize=1)
def task(dataset: str, undirected: bool, self_loops: bool) -> "NodeTask":
    """The dataset with its graph, sorted once and with the self-loops that the layers want."""
    from torch_geometric.utils import to_undirected

    from mimogc.graph import Graph
    from mimogc.training.nodes import NodeTask

    data = load_nodes(dataset)
    both = undirected and dataset != "ogbn-products"  # which has every edge in both directions
    edges = to_undirected(data.edge_index, num_nodes=data.num_nodes) if both else data.edge_index
    return NodeTask(data, data.x, Graph.from_edge_index(edges, data.num_nodes, add_self_loops=self_loops))


def build(run: Run) -> "tuple[NodeClassifier, NodeTask]":
    """The model of a run with its initial weights, and what it is trained on."""
    import torch

    from mimogc.models import NodeClassifier
    from mimogc.nn import Coefficients, calibrate

    values, record = dict(run.hparams), methods.method(run.method)
    found = task(run.dataset, not values["directed"], record.self_loops)
    torch.manual_seed(run.seed)
    model = NodeClassifier(
        found.data.num_features,
        int(values["channels"]),
        found.data.num_classes,
        run.method,
        int(values["layers"]),
        int(values["heads"]),
        float(values["dropout"]),
        batch_norm=not values["no_batch_norm"],
        recompute=bool(values["recompute"]),
    )
    if record.calibrated:
        with torch.no_grad():
            calibrate(model, found.x, found.graph, only=Coefficients)
    return model, found


class Large(MethodStudy):
    """Accuracy on the graphs of the Open Graph Benchmark, trained whole, on OGB's own splits (beyond the paper).

    A run writes checkpoints, and the same command goes on after the last one. `--recompute` takes less memory and more
    time. The number of threads is that of the machine.
    """

    name = "large"
    title = "Large graphs (Open Graph Benchmark)"
    datasets = DATASETS
    variants = ("whole",)
    usual: Mapping[str, tuple[str, ...]] = {"methods": ("lmgc", "gcn", "gin")}
    quick: Mapping[str, tuple[str, ...]] = {"datasets": DATASETS[:1]}
    lrs = (0.01,)
    seeds = 3
    metric = "test_accuracy"
    selects = "val_accuracy"
    higher = ("accuracy",)
    paper_hparams = False
    threads = os.cpu_count() or 1
    options = (
        Option("epochs", 300, "epochs of training", least=1, extent=True, quick=20),
        Option("layers", 3, "layers of the model", least=1),
        Option("channels", 64, "width of the model", least=1),
        Option("heads", 4, "computational graphs per layer", least=1),
        Option("dropout", 0.5, "of hidden channels", least=0, most=0.99),
        Option("no_batch_norm", False, "leave batch norm out"),
        Option("directed", False, "keep the directions of ogbn-arxiv's edges"),
        Option("recompute", False, "compute the inside of layers again in the backward pass"),
    )

    def prepare(self, runs: Sequence[Run]) -> None:
        for dataset in dict.fromkeys(run.dataset for run in runs):
            load_nodes(dataset)

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        return [train_run(run, *build(run), context) for run in batch]


def train_run(run: Run, model: "NodeClassifier", task: "NodeTask", context: Context) -> Outcome:
    """Train a run, from its checkpoint if there is one."""
    from mimogc.models import num_parameters
    from mimogc.training.large import train

    values = dict(run.hparams)
    epochs = int(values["epochs"])

    def tell(epoch: int, history: "History") -> None:
        context.progress(epoch / epochs, {"val": history.best[1], "loss": history.losses[-1]})

    history = train(model, task, run.split, float(values["lr"]), epochs, context.folder / "last.pt", tell)
    train_score, val, test = history.best
    return Outcome(
        metrics={
            "test_accuracy": test,
            "val_accuracy": val,
            "train_accuracy": train_score,
            "best_epoch": history.best_epoch,
            "epochs": len(history.losses),
            "parameters": num_parameters(model),
            "seconds_per_epoch": statistics.median(history.times),
        },
        curves=thinned(CURVE_POINTS, loss=history.losses, val_accuracy=history.vals),
        seconds=sum(history.times),
        status="diverged" if history.diverged else "done",
    )


STUDY = Large()
