"""Labels of training nodes as inputs: of some while those of the others are asked, of all when the model is judged.

Masked label prediction (Shi et al., 2021): what is asked is never told, so that a model can learn to use the labels of
other nodes, and each step asks for others.
"""

import torch
from torch import Tensor


class ToldLabels:
    """Draws which of the labels of training nodes are told and which are asked.

    In every step a share of them between none and `most` is told; at least one is asked.

    Args:
        y: ``[N]`` the labels of all nodes; those outside `train` are not read.
        train: ``[N]`` bool, the training nodes.
        most: the largest share, in (0, 1].
    """

    def __init__(self, y: Tensor, train: Tensor, most: float) -> None:
        if isinstance(most, bool) or not 0 < most <= 1:
            raise ValueError(f"labels: expected a share in (0, 1], got {most!r}")
        if not bool(train.any()):
            raise ValueError("labels: expected training nodes, got none")
        self.most, self.rows = most, train.nonzero().flatten()
        #: [N] the labels of all training nodes, -1 for the others
        self.all = torch.where(train, y, -1)

    def draw(self) -> tuple[Tensor, Tensor]:
        """The labels [N] that are told, -1 for all other nodes, and the training nodes that are asked."""
        share = self.most * torch.rand(())
        order = self.rows[torch.randperm(self.rows.numel())]
        asked = order[int(share * order.numel()) :]  # torch.rand is below one, so that one remains
        return self.all.index_fill(0, asked, -1), asked
