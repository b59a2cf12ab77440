"""What can be known of Minesweeper's cells, against counting all boards."""

import itertools

import pytest
import torch
from benchmarks.minesweeper_limit import clues_of, log_odds
from torch import Tensor


def counted(prior: Tensor, edge_index: Tensor, count: Tensor, visible: Tensor, largest: int) -> Tensor:
    """The probabilities of mines, from all boards that the clues allow."""
    mines = torch.zeros_like(prior)
    total = 0.0
    for board in itertools.product((0.0, 1.0), repeat=prior.numel()):
        own = torch.tensor(board, dtype=prior.dtype)
        around = torch.zeros_like(own).index_add(0, edge_index[1], own[edge_index[0]]).clamp(max=largest)
        if bool((around == count)[visible].all()):
            weight = float(torch.where(own > 0, prior, 1 - prior).prod())
            mines, total = mines + weight * own, total + weight
    return mines / total


@pytest.mark.parametrize("visible", [[0], [2], [0, 5], [1, 4], [6], []])
@pytest.mark.parametrize("seed", range(3))
def test_belief_propagation_is_exact_where_clues_form_a_tree(visible: list[int], seed: int) -> None:
    # Two stars that share a leaf: the centres 0 and 4 have 3 and 4 leaves.
    edges = torch.tensor([[0, 0, 0, 4, 4, 4, 4], [1, 2, 3, 3, 5, 6, 7]])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    edge_index = edge_index[:, torch.randperm(14, generator=torch.Generator().manual_seed(seed))]
    draw = torch.Generator().manual_seed(seed)
    prior = 0.1 + 0.5 * torch.rand(8, generator=draw, dtype=torch.float64)
    mine = (torch.rand(8, generator=draw) < 0.5).double()
    count = torch.zeros(8).double().index_add(0, edge_index[1], mine[edge_index[0]]).clamp(max=2).long()
    shown = torch.zeros(8, dtype=torch.bool)
    shown[visible] = True
    odds = log_odds(prior, clues_of(edge_index, count, shown, largest=2))
    expected = counted(prior, edge_index, count, shown, largest=2)
    torch.testing.assert_close(torch.sigmoid(odds), expected, atol=1e-6, rtol=0)
