"""The model of the node classification experiments, one backbone for every method."""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from mimogc.graph import Graph
from mimogc.methods import Method
from mimogc.methods import method as record_of
from mimogc.models.batch_norm import normalised
from mimogc.models.gain import checked_gain
from mimogc.models.sparse_features import Encoder, SparseFeatures


class NodeClassifier(torch.nn.Module):
    """Encoder, ReLU, dropout; residual message passing, each layer with ReLU and dropout; linear decoder.

    Args:
        in_channels: number of node features F.
        channels: width of every hidden layer.
        classes: number of classes.
        method: a record of `mimogc.methods`, its name, or one's own as ``package.module:NAME``.
        layers: number of message-passing layers.
        heads: number K of computational graphs, where the method does not fix it.
        dropout: probability of dropping a hidden channel in training.
        add_self_loops: replace self-loops by exactly one per node (not for gin, which adds the node itself).
        combine: ``"sum"`` (the paper) or ``"mean"`` over the graphs, where their number is free.
        gain: where the learnt number starts that the output of each layer is multiplied by before it is added to its
            input; None for no such number. ``"auto"`` is 0 for lmgc and lmgc-sym, whose layers are calibrated, and
            none for the others: where neighbours mislead, a model that starts without them learns how much it needs.
        batch_norm: normalise the sum of input and output of every layer before its activation (beyond the paper);
            on a graph in parts with the mean and the variance of all of them.
        linear_skip: add the output of a layer to a learnt affine map of its input in place of the input itself (beyond
            the paper): a node can be told from its neighbours at any depth.
        recompute: compute the inside of every layer again in the backward pass, and keep nothing of it meanwhile.
        label_input: take labels of nodes as input, too (beyond the paper): what is known of some helps with the others.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        classes: int,
        method: str | Method = "lmgc",
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        combine: str = "sum",
        gain: float | str | None = "auto",
        batch_norm: bool = False,
        recompute: bool = False,
        linear_skip: bool = False,
        label_input: bool = False,
    ) -> None:
        super().__init__()
        record = record_of(method)
        if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise ValueError(f"dropout: expected a probability in [0, 1), got {dropout!r}")
        self.dropout = float(dropout)
        self.encoder = Encoder(in_channels, channels)
        self.layers = torch.nn.ModuleList(
            record.build(channels, heads, residual=True, add_self_loops=add_self_loops, combine=combine)
            for _ in range(layers)
        )
        start = checked_gain(gain, 0.0 if record.calibrated else None)
        self.gains = None if start is None else torch.nn.Parameter(torch.full((layers,), start))
        self.batch_norm, self.recompute = batch_norm, recompute
        self.norms = torch.nn.ModuleList(
            torch.nn.BatchNorm1d(channels) if batch_norm else torch.nn.Identity() for _ in range(layers)
        )
        self.skips = torch.nn.ModuleList(
            torch.nn.Linear(channels, channels) if linear_skip else torch.nn.Identity() for _ in range(layers)
        )
        self.decoder = torch.nn.Linear(channels, classes)
        self.label_encoder = torch.nn.Linear(classes, channels, bias=False) if label_input else None

    def forward(self, x: Tensor | SparseFeatures, graph: Graph, labels: Tensor | None = None) -> Tensor:
        """[N, classes] scores before the softmax.

        `labels` [N] int64, for models with `label_input`: those that are known, -1 for all other nodes; None: none are.
        """
        out: Tensor = self.decoder(self.embed(x, graph, labels))
        return out

    def embed(self, x: Tensor | SparseFeatures, graph: Graph, labels: Tensor | None = None) -> Tensor:
        """[N, channels], of which the decoder makes the scores; arguments as for the call."""
        _check_graph(graph)
        h = self.encoder(x)
        h = self._activated(h if labels is None else h + self._encoded(labels, h))
        for number, layer in enumerate(self.layers):
            if self.recompute and torch.is_grad_enabled():
                branch = checkpoint(layer, h, graph, use_reentrant=False)
            else:
                branch = layer(h, graph)
            kept = self.skips[number](h)
            added = kept + branch if self.gains is None else torch.addcmul(kept, branch, self.gains[number])
            h = self._activated(normalised(added, self.norms[number], graph))
        return h

    def _encoded(self, labels: Tensor, h: Tensor) -> Tensor:
        """[N, channels] of the labels, zero for nodes without one."""
        if self.label_encoder is None:
            raise ValueError("labels: expected none, since the model was built without label_input=True")
        classes = self.label_encoder.in_features
        if not isinstance(labels, Tensor):
            raise TypeError(f"labels: expected a tensor, got {type(labels).__name__}")
        if labels.dtype != torch.int64 or labels.shape != h.shape[:1]:
            found = f"{labels.dtype} {list(labels.shape)}"
            raise ValueError(f"labels: expected torch.int64 [{h.size(0)}], got {found}")
        # Looking at values would end a compiled graph.
        if not torch.compiler.is_compiling() and labels.numel() and not (labels.min() >= -1 and labels.max() < classes):
            least, largest = int(labels.min()), int(labels.max())
            raise ValueError(f"labels: expected -1 to {classes - 1}, got {least} to {largest}")
        known = labels.unsqueeze(1) == torch.arange(classes, device=labels.device)
        encoded: Tensor = self.label_encoder(known.to(h.dtype))
        return encoded

    def _activated(self, h: Tensor) -> Tensor:
        return dropout(F.relu(h), self.dropout) if self.training and self.dropout > 0 else F.relu(h)


def _check_graph(graph: object) -> None:
    if not isinstance(graph, Graph):
        advice = "Graph.from_edge_index(edge_index, num_nodes) makes one"
        raise TypeError(f"graph: expected a Graph, got {type(graph).__name__}; {advice}")


def dropout(h: Tensor, p: float) -> Tensor:
    """Dropout that draws one random byte per entry where that is exact, else four, for p to 2⁻³² near.

    torch's draws a whole number each, which takes more time than a layer.
    """
    bits, kind = (8, torch.uint8) if (256 * p).is_integer() else (32, torch.int32)
    values = 1 << bits
    dropped = round(values * p)  # of so many
    if h.device.type != "cpu" or dropped == values:
        return F.dropout(h, p)
    words = torch.empty((h.numel() * bits + 63) // 64, dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(kind)[: h.numel()].view(h.shape) >= dropped + torch.iinfo(kind).min
    return h * kept.to(h.dtype).mul_(values / (values - dropped))
