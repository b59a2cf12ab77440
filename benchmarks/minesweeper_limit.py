"""Prints what can be known of Minesweeper's cells by who knows the rules of the game: belief propagation, no training.

    python benchmarks/minesweeper_limit.py      # half a minute; ROC-AUC in percent on the test cells of each split

A visible number says how many of the cells around it are mines, the largest that so many or more are. The first column
knows these numbers and the share of mines, as models do that read the features; the second knows the labels of the
training cells, too. Belief propagation is exact where the numbers form a tree. On the board they form loops, so that
what it gives is near to what can be known, and not a bound.
"""

import statistics
from typing import NamedTuple

import torch
from torch import Tensor

from mimogc.data import load_nodes
from mimogc.training.nodes import roc_auc

ROUNDS, DAMPING = 200, 0.5
SPLITS = 10
CERTAIN = 30.0  # log odds of what follows from the rules: a contradiction in between must not end in infinities


class Clues(NamedTuple):
    """The numbers on the board."""

    cells: Tensor  # [M, D] the cells around each visible one, -1 where there are fewer
    count: Tensor  # [M] how many of them are mines
    open: Tensor  # [M] bool: so many, or more


def clues_of(edge_index: Tensor, count: Tensor, visible: Tensor, largest: int) -> Clues:
    """The clues of the visible cells, with edges in both directions and count [N], of which `largest` is open."""
    source, target = edge_index[:, edge_index[1].argsort(stable=True)]
    around = torch.bincount(target, minlength=count.numel())
    place = torch.arange(target.numel()) - (around.cumsum(0) - around)[target]
    cells = torch.full((count.numel(), int(around.max())), -1)
    cells[target, place] = source
    return Clues(cells[visible], count[visible], count[visible] == largest)


def log_odds(prior: Tensor, clues: Clues, rounds: int = ROUNDS, damping: float = DAMPING) -> Tensor:
    """[N]: of each cell being a mine, given all clues, from prior [N], the probabilities without any."""
    there = clues.cells >= 0
    cells, size = clues.cells.clamp(min=0), clues.cells.size(1)
    alone = torch.logit(prior)
    said = torch.zeros(clues.cells.shape, dtype=prior.dtype)  # log odds that each clue adds to each of its cells

    def together() -> Tensor:
        return alone.index_add(0, cells[there], said[there])

    for _ in range(rounds):
        # What the others say of a cell is what all say without this clue.
        mine = torch.sigmoid(together()[cells] - said).where(there, 0)
        before = [_sure(clues)]  # the distribution of the number of mines among the first cells of each clue
        after = [_sure(clues)]  # and among the last
        for slot in range(size):
            before.append(_one_more(before[-1], mine[:, slot]))
            after.append(_one_more(after[-1], mine[:, size - 1 - slot]))
        new = torch.stack([_odds(_sum_of(before[i], after[size - 1 - i]), clues) for i in range(size)], dim=1)
        said = damping * said + (1 - damping) * new.clamp(-CERTAIN, CERTAIN)
    return together()


def _sure(clues: Clues) -> Tensor:
    """[M, D + 1]: no mine among no cells."""
    none = torch.zeros((clues.cells.size(0), clues.cells.size(1) + 1), dtype=torch.float64)
    none[:, 0] = 1
    return none


def _one_more(mines: Tensor, probability: Tensor) -> Tensor:
    """The distribution of the number of mines with one more cell."""
    further = torch.zeros_like(mines)
    further[:, 1:] = mines[:, :-1]
    p = probability.unsqueeze(1)
    return mines * (1 - p) + further * p


def _sum_of(some: Tensor, others: Tensor) -> Tensor:
    """The distribution of the sum of two numbers of mines."""
    size = some.size(1)
    return torch.stack([(some[:, : n + 1] * others[:, : n + 1].flip(1)).sum(1) for n in range(size)], dim=1)


def _odds(others: Tensor, clues: Clues) -> Tensor:
    """[M]: log odds of a cell by each clue, given the distribution of the number of mines among its other cells."""
    return (_agree(others, clues.count - 1, clues.open) + 1e-12).log() - (
        _agree(others, clues.count, clues.open) + 1e-12
    ).log()


def _agree(others: Tensor, wanted: Tensor, more: Tensor) -> Tensor:
    """The probability of `wanted` mines among the others, or of so many or `more`."""
    number = torch.arange(others.size(1))
    fits = torch.where(more.unsqueeze(1), number >= wanted.unsqueeze(1), number == wanted.unsqueeze(1))
    return (others * fits).sum(1)


def main() -> None:
    data = load_nodes("minesweeper")
    unknown = int(data.unknown or 0)  # the column that says that a cell shows no number
    shown = data.x.argmax(1) - 1
    clues = clues_of(data.edge_index, shown, data.x[:, unknown] == 0, data.num_features - 2)
    share = data.y.double().mean().expand(data.num_nodes)
    found = log_odds(share, clues)
    rows = []
    for split in range(SPLITS):
        train, test = data.train_mask[:, split], data.test_mask[:, split]
        told = log_odds(torch.where(train, data.y.double().clamp(1e-9, 1 - 1e-9), share), clues)
        rows.append([100 * roc_auc(odds[test], data.y[test]) for odds in (found, told)])
        print(f"split {split}: numbers {rows[-1][0]:.2f}, numbers and training labels {rows[-1][1]:.2f}", flush=True)
    for title, chosen in (("first three splits", rows[:3]), ("all ten", rows)):
        numbers, labels = (statistics.mean(column) for column in zip(*chosen, strict=True))
        print(f"{title}: numbers {numbers:.2f}, numbers and training labels {labels:.2f}")


if __name__ == "__main__":
    main()
