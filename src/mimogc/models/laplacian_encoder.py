"""Positional encodings of molecules from the eigenpairs of their Laplacians."""

import torch
from torch import Tensor
from torch.nn import functional as F

ENCODED = 8  # channels


class LaplacianEncoder(torch.nn.Module):
    """A DeepSet over the eigenpairs of a molecule: (vector entry, eigenvalue) → 16 → 8, ReLU, summed over pairs.

    In training every eigenvector of every molecule gets a random sign, because its sign means nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(2, 2 * ENCODED)
        self.last = torch.nn.Linear(2 * ENCODED, ENCODED)

    def forward(self, pairs: Tensor, owner: Tensor, num_graphs: int) -> Tensor:
        """[N, 8] from pairs [N, 8, 2]; a pair with eigenvalue zero is padding and adds nothing."""
        vector, value = pairs.unbind(-1)
        if self.training:
            sign = torch.randint(0, 2, (num_graphs, vector.size(1)), device=pairs.device) * 2 - 1
            pairs = torch.stack([vector * sign[owner], value], dim=-1)
        rows = F.relu(self.last(F.relu(self.hidden(pairs))))
        return (rows * (value != 0).unsqueeze(-1)).sum(1)
