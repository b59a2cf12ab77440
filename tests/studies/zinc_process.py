"""One process of a training that tests start on their own: it is killed, or is one rank of two.

python zinc_process.py killed FOLDER     dies after the third epoch, a checkpoint being written after each
torchrun ... zinc_process.py ranks FILE  trains with the other ranks and writes what rank 0 has at the end
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch

from mimogc.data import laplacian_encoding, load_molecules
from mimogc.models import GraphRegressor
from mimogc.runs import ranks
from mimogc.training.graphs import BATCH_SIZE, FlatAdamW, History, MoleculeTask, TrainedRegressor, train, train_epoch

EPOCHS = 6


def small_task(size: int, encoding: bool = False) -> MoleculeTask:
    molecules = load_molecules("zinc12k")
    return MoleculeTask.of(molecules, laplacian_encoding(molecules) if encoding else None, size)


def resumable(folder: Path, die_after: int | None = None) -> tuple[TrainedRegressor, list[torch.Tensor]]:
    """A training with every kind of state: random signs of LapPE, batch norm, AdamW, shuffles."""
    torch.manual_seed(0)
    model = GraphRegressor(12, "lmgc", 2, encoding="lappe", residual=True, batch_norm=True)

    def progress(epoch: float, history: History) -> None:
        if die_after is not None and epoch == die_after + 1:  # the checkpoint follows the word about an epoch
            os._exit(9)

    task = small_task(100, encoding=True)
    trained = train(model, task, 0.01, EPOCHS, 0, folder / "last.pt", progress, checkpoint_seconds=0.0)
    return trained, [tensor.clone() for tensor in model.state_dict().values()]


def shared(batches: tuple[int, ...] = (BATCH_SIZE, 7, 1)) -> dict[str, Any]:
    """The gradient and the loss of single batches, the last two smaller than usual, and a short training."""
    task = small_task(BATCH_SIZE * 2 + 5)
    found: dict[str, Any] = {"gradients": [], "losses": []}
    for size in batches:
        torch.manual_seed(1)
        model = GraphRegressor(12, "lmgc", 2)
        optimiser = FlatAdamW(model, 0.01)
        whole: torch.nn.Module = model
        if ranks.size() > 1:
            whole = torch.nn.parallel.DistributedDataParallel(model)
        found["losses"].append(train_epoch(whole, optimiser, task, task.train[:size], model.add_self_loops))
        found["gradients"].append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    torch.manual_seed(2)
    trained = train(GraphRegressor(12, "lmgc", 2), task, 0.01, 3, 0, Path("nowhere") / "last.pt")
    return {**found, "vals": trained.history.vals, "test": trained.test, "train": trained.history.losses}


if __name__ == "__main__":
    kind, path = sys.argv[1], Path(sys.argv[2])
    if kind == "killed":  # with as many threads as the test has, on which the last bits depend
        resumable(path, die_after=3)
    else:
        torch.set_num_threads(1)
        with ranks.group():
            result = shared()
        if ranks.rank() == 0:
            torch.save(result, path)
