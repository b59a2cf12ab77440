"""A small ogbn-arxiv in the layout of its files, and a process of its own that trains on it and is killed.

python large_process.py FOLDER: dies with signal 9 after the fourth epoch; a checkpoint was written after the third.
"""

import gzip
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from mimogc.data import ogb
from mimogc.runs.study import Options, complete
from mimogc.studies import large
from mimogc.training import large as training
from mimogc.training.nodes import History

NODES, EDGES, FEATURES, CLASSES = 120, 500, 6, 3


def write_arxiv(root: Path) -> ogb.Source:
    """Files below `root`, the cache, of a graph whose features tell the label; what is to be said of them."""
    drawn = random.Random(0)
    label = [node % CLASSES for node in range(NODES)]
    ends = [drawn.randrange(NODES) for _ in range(EDGES)]
    rows = {
        "raw/edge": [[end, (end + CLASSES * drawn.randrange(1, 9)) % NODES] for end in ends],  # between alike nodes
        "raw/node-feat": [[drawn.gauss(float(at == y), 0.5) for at in range(FEATURES)] for y in label],
        "raw/node-label": [[y] for y in label],
        "split/time/train": [[node] for node in range(60)],
        "split/time/valid": [[node] for node in range(60, 90)],
        "split/time/test": [[node] for node in range(90, NODES)],
    }
    for name, lines in rows.items():
        path = root / "ogb" / "ogbn_arxiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            file.writelines(",".join(map(str, line)) + "\n" for line in lines)
    return ogb.SOURCES["ogbn-arxiv"]._replace(nodes=NODES, edges=EDGES, features=FEATURES)


def trained(
    folder: Path, method: str = "lmgc", tell: Callable[[int], None] = lambda epoch: None, **options: bool
) -> tuple[History, list[torch.Tensor]]:
    """Six epochs with dropout and batch norm, a checkpoint after each: what happened, and the weights."""
    given = Options(datasets=("ogbn-arxiv",), methods=(method,), seeds=1, extras=(("epochs", 6), *options.items()))
    (run,) = large.STUDY.runs(complete(large.STUDY, given))
    model, task = large.build(run)
    history = training.train(
        model, task, 0, 0.01, 6, folder / "last.pt", lambda epoch, history: tell(epoch), checkpoint_seconds=0.0
    )
    return history, [value.clone() for value in model.state_dict().values()]


if __name__ == "__main__":

    def die(epoch: int) -> None:
        if epoch == 4:  # the checkpoint follows the word about an epoch
            os.kill(os.getpid(), signal.SIGKILL)

    ogb.SOURCES["ogbn-arxiv"] = write_arxiv(Path(os.environ["MIMOGC_DATA"]))
    trained(Path(sys.argv[1]), tell=die)
