"""Prints how much belief propagation, which has the rules of the game, knows of Minesweeper's cells, without training.

    python benchmarks/minesweeper_rules.py      # a minute; ROC-AUC in percent on the test cells of each split

A visible number says how many of the cells around it are mines, the largest that so many or more are. The first column
knows these numbers and the share of mines, as models do that read the features; the second knows the labels of the
training cells, too. At least so much can be known. It is more, because on a board the numbers form loops, on which
belief propagation is not exact; it need not even settle there: how many cells still move in the last round is printed.
"""

import argparse
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mimogc.data import NodeDataset, load_nodes
from mimogc.training.nodes import roc_auc

SPLITS = 10
ROUNDS = 200
DAMPING = 0.9  # the share of the message before: with less, more messages go on changing
SUREST = 6.0  # log odds of what one clue says of a cell: on loops it hears itself, and would become too sure
MOVED = 0.01  # change of a probability in the last round that is counted


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
    cells = torch.full((count.numel(), int(around.max()) if target.numel() else 0), -1)
    cells[target, place] = source
    return Clues(cells[visible], count[visible], count[visible] == largest)


def board(data: NodeDataset) -> Clues:
    """The clues of a dataset whose features are one column for each number, and one for cells that show none."""
    if data.unknown is None:
        raise ValueError(f"data: expected a feature for cells of which nothing is known, got none in {data.name}")
    numbers = torch.cat([data.x[:, : data.unknown], data.x[:, data.unknown + 1 :]], dim=1)  # [N, 0 … largest]
    return clues_of(data.edge_index, numbers.argmax(1), data.x[:, data.unknown] == 0, numbers.size(1) - 1)


def priors(data: NodeDataset, split: int) -> tuple[Tensor, Tensor]:
    """[N] probabilities of mines without clues: the share of all cells; and with the labels of the training cells."""
    share = data.y.double().mean().expand(data.num_nodes)
    return share, torch.where(data.train_mask[:, split], data.y.double().clamp(1e-9, 1 - 1e-9), share)


class Beliefs(NamedTuple):
    odds: Tensor  # [N] log odds of each cell being a mine
    moved: int  # cells whose probability still changed in the last round


def beliefs(prior: Tensor, clues: Clues, rounds: int = ROUNDS, surest: float = SUREST) -> Beliefs:
    """What all clues say together, from prior [N] float64, the probabilities of mines without any."""
    there = clues.cells >= 0
    cells, size = clues.cells.clamp(min=0), clues.cells.size(1)
    alone = torch.logit(prior)
    said = torch.zeros(clues.cells.shape, dtype=torch.float64)  # log odds that each clue adds to each of its cells
    odds, before = alone, alone
    for _ in range(rounds):
        # What the others say of a cell is what all say without this clue.
        mine = torch.sigmoid(odds[cells] - said).where(there, 0)
        first, last = [_sure(clues)], [_sure(clues)]  # the numbers of mines among the first cells, and the last
        for slot in range(size):
            first.append(_one_more(first[-1], mine[:, slot]))
            last.append(_one_more(last[-1], mine[:, size - 1 - slot]))
        if size:
            new = torch.stack([_odds(_sum_of(first[i], last[size - 1 - i]), clues) for i in range(size)], dim=1)
            said = DAMPING * said + (1 - DAMPING) * new.clamp(-surest, surest)
        odds, before = alone.index_add(0, cells[there], said[there]), odds
    return Beliefs(odds, int(((torch.sigmoid(odds) - torch.sigmoid(before)).abs() > MOVED).sum()))


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
    as_mine, as_none = (_agree(others, clues.count - mine, clues.open) for mine in (1, 0))
    return (as_mine + 1e-12).log() - (as_none + 1e-12).log()


def _agree(others: Tensor, wanted: Tensor, more: Tensor) -> Tensor:
    """The probability of `wanted` mines among the others, or of so many or `more`."""
    number = torch.arange(others.size(1))
    fits = torch.where(more.unsqueeze(1), number >= wanted.unsqueeze(1), number == wanted.unsqueeze(1))
    return (others * fits).sum(1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    data = load_nodes("minesweeper")
    clues, rows = board(data), []
    untold = beliefs(priors(data, 0)[0], clues)
    print(f"numbers alone: {untold.moved} of {data.num_nodes:,} cells moved in the last round", flush=True)
    for split in range(SPLITS):
        test, told = data.test_mask[:, split], beliefs(priors(data, split)[1], clues)
        rows.append([100 * roc_auc(found.odds[test], data.y[test]) for found in (untold, told)])
        numbers, labels = rows[-1]
        print(
            f"split {split}: numbers {numbers:.2f}, with training labels {labels:.2f} ({told.moved} cells moved)",
            flush=True,
        )
    for title, chosen in (("first three splits", rows[:3]), ("all ten", rows)):
        numbers, labels = (statistics.mean(column) for column in zip(*chosen, strict=True))
        print(f"{title}: numbers {numbers:.2f}, with training labels {labels:.2f}")


if __name__ == "__main__":
    main()
