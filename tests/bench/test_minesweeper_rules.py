"""What belief propagation knows of Minesweeper's cells, against counting all boards."""

import itertools

import pytest
import torch
from benchmarks.minesweeper_rules import beliefs, board, clues_of, priors
from torch import Tensor

from mimogc.data import NodeDataset

# Three stars in a row, each of which shares a leaf with the next: the centres are 0, 4 and 8.
STARS = torch.tensor([[0, 0, 0, 4, 4, 4, 8, 8], [1, 2, 3, 3, 5, 6, 6, 7]])
CELLS, LARGEST = 9, 2


def counts(edge_index: Tensor, mines: Tensor) -> Tensor:
    return torch.zeros_like(mines).index_add(0, edge_index[1], mines[edge_index[0]])


def counted(prior: Tensor, edge_index: Tensor, count: Tensor, visible: Tensor) -> Tensor:
    """The probabilities of mines, from all boards that the clues allow."""
    mines, total = torch.zeros_like(prior), 0.0
    for cells in itertools.product((0.0, 1.0), repeat=CELLS):
        own = torch.tensor(cells, dtype=prior.dtype)
        if bool((counts(edge_index, own).clamp(max=LARGEST) == count)[visible].all()):
            weight = float(torch.where(own > 0, prior, 1 - prior).prod())
            mines, total = mines + weight * own, total + weight
    return mines / total


def drawn(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Edges in any order, probabilities of mines, and mines."""
    draw = torch.Generator().manual_seed(seed)
    edge_index = torch.cat([STARS, STARS.flip(0)], dim=1)
    prior = 0.1 + 0.5 * torch.rand(CELLS, generator=draw, dtype=torch.float64)
    return edge_index[:, torch.randperm(16, generator=draw)], prior, (torch.rand(CELLS, generator=draw) < 0.5).double()


@pytest.mark.parametrize("visible", [[0], [2], [0, 4, 8], [1, 4], [6], []])
@pytest.mark.parametrize("seed", range(3))
def test_is_exact_where_clues_and_cells_form_a_tree(visible: list[int], seed: int) -> None:
    edge_index, prior, mine = drawn(seed)
    count = counts(edge_index, mine).clamp(max=LARGEST).long()
    shown = torch.zeros(CELLS, dtype=torch.bool).index_fill(0, torch.tensor(visible, dtype=torch.int64), True)
    found = beliefs(prior, clues_of(edge_index, count, shown, LARGEST), surest=30.0)
    expected = counted(prior, edge_index, count, shown)
    torch.testing.assert_close(torch.sigmoid(found.odds), expected, atol=1e-6, rtol=0)
    assert found.moved == 0


def dataset(seed: int, unknown: int | None) -> NodeDataset:
    """The stars as a dataset: cells 0 and 4 show their numbers; `unknown` is the column of those that show none."""
    edge_index, _, mine = drawn(seed)
    numbers = torch.nn.functional.one_hot(counts(edge_index, mine).clamp(max=LARGEST).long(), LARGEST + 1)
    shown = torch.tensor([0, 4])
    x = torch.zeros(CELLS, LARGEST + 2)
    if unknown is not None:
        x[:, unknown] = 1
        x[shown, unknown] = 0
        columns = [column for column in range(LARGEST + 2) if column != unknown]
        x[shown[:, None], torch.tensor(columns)] = numbers[shown].float()
    train = (torch.arange(CELLS) % 2 == 0).unsqueeze(1)
    return NodeDataset("stars", x, edge_index, mine.long(), train, ~train, ~train, "roc_auc", unknown)


@pytest.mark.parametrize("unknown", [0, 3])
def test_clues_are_read_off_the_features(unknown: int) -> None:
    data = dataset(1, unknown)
    clues = board(data)
    around = counts(data.edge_index, data.y)[[0, 4]]
    assert torch.equal(clues.count, around.clamp(max=LARGEST))
    assert torch.equal(clues.open, around >= LARGEST)
    assert [sorted(cells[cells >= 0].tolist()) for cells in clues.cells] == [[1, 2, 3], [3, 5, 6]]


def test_a_dataset_that_shows_all_is_refused() -> None:
    with pytest.raises(ValueError, match="data: expected a feature for cells of which nothing is known, got none in"):
        board(dataset(1, None))


def test_only_labels_of_training_cells_are_told() -> None:
    data = dataset(1, 0)
    share, told = priors(data, 0)
    train = data.train_mask[:, 0]
    assert torch.equal(share, told.where(~train, share))
    assert torch.equal(told[train] > 0.5, data.y[train] == 1)
    assert bool(((told - 0.5).abs() > 0.499)[train].all())
