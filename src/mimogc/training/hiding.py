"""Features hidden in training and asked back: every node with features then teaches, also those without a label."""

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.data import NodeDataset


def check_features(data: NodeDataset) -> None:
    """Refuse features that are no shares."""
    if data.x.numel() == 0 or not bool((data.x >= 0).all()):
        least = f"{float(data.x.min()):g}" if data.x.numel() else "none"
        raise ValueError(f"hide: expected features that are not negative, got {least} in {data.name}")


class Hiding(torch.nn.Module):
    """Hides the features of nodes drawn at random, and measures how well they are read off the last layer.

    In every step a share of the nodes between none and `most` is drawn. Their rows become that of a node of which
    nothing is known: zeros, or what the dataset writes for it. Features that are not negative are read as shares of
    their row, so that what is asked back is one distribution per node.

    Args:
        data: the dataset; nodes of which nothing is known are not drawn.
        channels: width of what the features are read off.
        most: the largest share, in (0, 1].
    """

    def __init__(self, data: NodeDataset, channels: int, most: float) -> None:
        super().__init__()
        if isinstance(most, bool) or not 0 < most <= 1:
            raise ValueError(f"hide: expected a share in (0, 1], got {most!r}")
        check_features(data)
        self.most, self.x = most, data.x
        self.unknown = torch.zeros(data.num_features)
        known = data.x.any(1)
        if data.unknown is not None:
            self.unknown[data.unknown] = 1
            known &= data.x[:, data.unknown] == 0
        self.known = known.nonzero().flatten()
        self.decoder = torch.nn.Linear(channels, data.num_features)

    def draw(self) -> tuple[Tensor, Tensor]:
        """The features [N, F] with some rows hidden, and which."""
        share = self.most * torch.rand(())
        rows = self.known[torch.rand(self.known.numel()) < share]
        return self.x.index_copy(0, rows, self.unknown.expand(rows.numel(), -1)), rows

    def forward(self, h: Tensor, rows: Tensor) -> Tensor:
        """The cross entropy of the hidden features, read off the last layer's h [N, C]."""
        asked = self.x[rows]
        loss = F.cross_entropy(self.decoder(h[rows]), asked / asked.sum(1, keepdim=True), reduction="sum")
        return loss / max(1, rows.numel())
