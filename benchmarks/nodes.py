"""An epoch of node classification on Squirrel and Texas: LMGC, the naive layer and PyG's GATv2Conv.

python benchmarks/nodes.py       # needs the data sets: MIMOGC_MIRROR, MIMOGC_DATA or a download
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv
from torch_geometric.utils import add_self_loops, remove_self_loops

from mimogc.bench.naive import NaiveLMGC
from mimogc.data import DataError, NodeDataset
from mimogc.models import NodeClassifier
from mimogc.studies.heterophilic_models import task, width
from mimogc.training.nodes import train

LAYERS, HEADS, BUDGET, LR, DROPOUT = 2, 4, 100_000, 0.003, 0.25
EPOCHS = {"texas": 50, "squirrel": 2}  # of one turn
ROUNDS = 5  # turns of each after a first one to warm up
BARS = {"squirrel": ("naive", "GATv2Conv"), "texas": ("GATv2Conv",)}  # what LMGC is compared with

Turn = Callable[[int], None]  # trains so many epochs


class PlainClassifier(torch.nn.Module):
    """`NodeClassifier` as one would first write it with PyG: dense features, any message-passing layer."""

    def __init__(self, in_channels: int, channels: int, classes: int, kind: str) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(in_channels, channels)
        self.layers = torch.nn.ModuleList(_layer(kind, channels) for _ in range(LAYERS))
        self.decoder = torch.nn.Linear(channels, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(F.relu(self.encoder(x)), DROPOUT, self.training)
        for layer in self.layers:
            h = F.dropout(F.relu(layer(h, edge_index) + h), DROPOUT, self.training)
        out: Tensor = self.decoder(h)
        return out


def _layer(kind: str, channels: int) -> torch.nn.Module:
    if kind == "naive":
        return NaiveLMGC(channels, channels, HEADS)
    # The loops are in the edge list already, as for the naive layer.
    layer: torch.nn.Module = GATv2Conv(channels, channels, HEADS, concat=False, add_self_loops=False)
    return layer


def plain_epochs(model: PlainClassifier, data: NodeDataset, edge_index: Tensor, epochs: int) -> float:
    """Training steps with Adam on the first split, each followed by an evaluation; the last training loss."""
    optimiser = torch.optim.Adam(model.parameters(), lr=LR)
    masks = [data.train_mask[:, 0], data.val_mask[:, 0], data.test_mask[:, 0]]
    loss = torch.zeros(())
    for _ in range(epochs):
        model.train()
        optimiser.zero_grad()
        loss = F.cross_entropy(model(data.x, edge_index)[masks[0]], data.y[masks[0]])
        torch.autograd.backward(loss)
        optimiser.step()
        model.eval()
        with torch.no_grad():
            right = model(data.x, edge_index).argmax(1) == data.y
            [right[mask].float().mean().item() for mask in masks]
    return loss.item()


def with_loops(data: NodeDataset) -> Tensor:
    """[2, E] the edges with exactly one self-loop at every node, as `LMGConv` has them."""
    edge_index: Tensor = add_self_loops(remove_self_loops(data.edge_index)[0], num_nodes=data.num_nodes)[0]
    return edge_index


def _turns(dataset: str) -> dict[str, Turn]:
    found = task(dataset, False)
    data = found.data
    channels = width(data.num_features, data.num_classes, "lmgc", LAYERS, HEADS, BUDGET)
    loops = with_loops(data)
    torch.manual_seed(0)
    ours = NodeClassifier(data.num_features, channels, data.num_classes, "lmgc", LAYERS, HEADS, DROPOUT)
    turns: dict[str, Turn] = {"lmgc": lambda epochs: _discard(train(ours, found, 0, LR, epochs))}
    for kind in BARS[dataset]:
        plain = PlainClassifier(data.num_features, channels, data.num_classes, kind)
        turns[kind] = lambda epochs, plain=plain: _discard(plain_epochs(plain, data, loops, epochs))  # type: ignore[misc]
    return turns


def _discard(result: object) -> None:
    del result


def seconds_per_epoch(dataset: str, rounds: int = ROUNDS, epochs: int = 0) -> dict[str, float]:
    """Median time of an epoch, training step and evaluation, the models taking turns."""
    turns, epochs = _turns(dataset), epochs or EPOCHS[dataset]
    times: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name, turn in turns.items():
            start = time.perf_counter()
            turn(epochs)
            if number:
                times[name].append((time.perf_counter() - start) / epochs)
    return {name: statistics.median(values) for name, values in times.items()}


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Milliseconds per epoch and the ratios; a dataset that cannot be had is left out."""
    say(
        f"node classification: an epoch (training step and evaluation), {LAYERS} layers, at most {BUDGET:,} "
        f"parameters, {torch.get_num_threads()} threads"
    )
    document: dict[str, Any] = {}
    for dataset in BARS:
        try:
            seconds = seconds_per_epoch(dataset)
        except DataError as error:
            say(f"  {dataset} left out: {error}")
            continue
        for name, value in seconds.items():
            ratio = value / seconds["lmgc"]
            say(f"  {dataset:8s} {name:10s} {1000 * value:9.2f} ms  {ratio:6.2f}")
        document[dataset] = {name: value / seconds["lmgc"] for name, value in seconds.items()}
    return document


if __name__ == "__main__":
    run(print)
