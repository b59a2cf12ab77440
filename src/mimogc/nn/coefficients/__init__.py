"""Edge coefficients α of the K computational graphs: one small class per published method.

A new method is a subclass of :class:`Coefficients` that returns ``alpha [E, K]``; the kernels, gradients, theory
checks and tables come with the layer.
"""

from typing import Any

from mimogc.nn.coefficients.attention import FAGCN, GAT, LMGC, GATv2
from mimogc.nn.coefficients.base import Channels, Coefficients, Pair
from mimogc.nn.coefficients.structural import ACM, GCN, Free
from mimogc.nn.coefficients.transports import Gated, Sheaf

__all__ = [
    "ACM",
    "BY_NAME",
    "FAGCN",
    "GAT",
    "GCN",
    "LMGC",
    "Channels",
    "Coefficients",
    "Free",
    "GATv2",
    "Gated",
    "Pair",
    "Sheaf",
]

BY_NAME: dict[str, Any] = {  # name → class, called as (in_channels, out_channels, **options it knows)
    "lmgc": LMGC,
    "gcn": GCN,
    "gat": GAT,
    "gatv2": GATv2,
    "fagcn": FAGCN,
    "acm": ACM,
    "gated": Gated,
    "sheaf": Sheaf,
    "free": Free,
}
