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
        y: ``[N]`` int64, the labels of all nodes; those outside `train` are not read.
        train: ``[N]`` bool, the training nodes.
        most: the largest share, in (0, 1]; so much that one of the training nodes can be told.
    """

    def __init__(self, y: Tensor, train: Tensor, most: float) -> None:
        if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most <= 1:
            raise ValueError(f"labels: expected a share in (0, 1], got {most!r}")
        if y.dtype != torch.int64 or train.dtype != torch.bool or y.dim() != 1 or train.shape != y.shape:
            found = f"{y.dtype} {list(y.shape)} and {train.dtype} {list(train.shape)}"
            raise ValueError(f"y, train: expected torch.int64 [N] and torch.bool [N], got {found}")
        self.most, self.rows = float(most), train.nonzero().flatten()
        nodes = self.rows.numel()
        if self.most * nodes <= 1:
            raise ValueError(f"labels: expected a share with more than 1 of {nodes} training nodes, got {most}")
        #: [N] the labels of all training nodes, -1 for the others
        self.all = torch.where(train, y, -1)

    def draw(self) -> tuple[Tensor, Tensor]:
        """The labels [N] that are told, -1 for all other nodes, and the training nodes that are asked."""
        share = self.most * torch.rand(())
        order = self.rows[torch.randperm(self.rows.numel())]
        asked = order[int(share * order.numel()) :]  # torch.rand is below one, so that one remains
        return self.all.index_fill(0, asked, -1), asked

    def state_dict(self) -> dict[str, float]:
        """What a training that goes on must have in common with the one before."""
        return {"most": self.most}

    def load_state_dict(self, state: dict[str, float]) -> None:
        if state["most"] != self.most:
            raise ValueError(f"labels: expected {state['most']} as in the checkpoint, got {self.most}")
