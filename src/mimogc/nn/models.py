"""The two models of the paper's experiments, one backbone for every method."""

import math
from collections.abc import Iterable
from typing import Protocol, SupportsFloat

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.nn.bonds import BondConv, TypedGraph
from mimogc.nn.chaining import chain
from mimogc.nn.coefficients import ACM
from mimogc.nn.conv import LMGConv
from mimogc.nn.features import LAPLACIAN, Encoder, LaplacianEncoder, SparseFeatures
from mimogc.nn.inputs import has_hooks
from mimogc.nn.nonlinear import GINLayer
from mimogc.ops.readout import readout

METHODS = ("gatv2", "fagcn", "acm", "gin", "lmgc", "eq12", "gcn", "mlp")
SUMMED = ("lmgc", "eq12", "gatv2")  # those that sum over a number of graphs which one may choose
BOND_METHODS = (*SUMMED, "fagcn")  # those with a score that a bond type can add to
ATOM_TYPES, BOND_TYPES = 28, 4  # ZINC; bond type 0 is the self-loop


class _NoMessages(torch.nn.Module):
    """The layer of the MLP row: a linear map that looks at no neighbour."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, channels)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        out: Tensor = self.lin(x)
        return out


def convolution(
    method: str,
    channels: int,
    heads: int = 4,
    residual: bool = False,
    add_self_loops: bool = True,
    bonds: bool = False,
    combine: str = "sum",
    act: str | None = None,
) -> torch.nn.Module:
    """One message-passing layer of a method, `channels` in and out, as the paper's section 6.1 writes it.

    ACM has the identity as its third graph where the model is residual. GIN and the MLP take the graph as it is.
    Those that are an `LMGConv` activate their output with `act`, the others do not.
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    if bonds and method not in BOND_METHODS:
        raise ValueError(f"method: edge features need one of {', '.join(BOND_METHODS)}, got {method!r}")
    if method == "mlp":
        return _NoMessages(channels)
    if method == "gin":
        return GINLayer(channels, channels)
    heads = heads if method in SUMMED else 1
    if bonds:
        return BondConv(channels, channels, BOND_TYPES, heads, method, add_self_loops)
    if method == "acm":
        bank = ACM(identity=residual)
        return LMGConv(channels, channels, coefficients=bank, add_self_loops=add_self_loops, act=act)
    return LMGConv(channels, channels, heads, method, combine, add_self_loops=add_self_loops, act=act)


class NodeClassifier(torch.nn.Module):
    """Encoder, ReLU, dropout; residual message passing, each layer with ReLU and dropout; linear decoder.

    Args:
        in_channels: number of node features F.
        channels: width of every hidden layer.
        classes: number of classes.
        method: one of `METHODS`.
        layers: number of message-passing layers.
        heads: number K of computational graphs of lmgc and gatv2; the other methods fix it.
        dropout: probability of dropping a hidden channel in training.
        add_self_loops: replace self-loops by exactly one per node (not for gin, which adds the node itself).
        combine: ``"sum"`` (the paper) or ``"mean"`` over the graphs of lmgc and gatv2.
        gain: where the learnt number starts that the output of each layer is multiplied by before it is added to its
            input; None for no such number. ``"auto"`` is 0 for lmgc, and none for the other methods: where
            neighbours mislead, a model that starts without them learns how much of them it needs.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        classes: int,
        method: str = "lmgc",
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        combine: str = "sum",
        gain: float | str | None = "auto",
    ) -> None:
        super().__init__()
        if combine != "sum" and method not in SUMMED:
            raise ValueError(f"combine: {method} allows 'sum' only, got {combine!r}")
        self.dropout = dropout
        self.encoder = Encoder(in_channels, channels)
        self.layers = torch.nn.ModuleList(
            convolution(method, channels, heads, True, add_self_loops, combine=combine) for _ in range(layers)
        )
        start = _gain(gain, 0.0 if method == "lmgc" else None)
        self.gains = None if start is None else torch.nn.Parameter(torch.full((layers,), start))
        self.decoder = torch.nn.Linear(channels, classes)

    def forward(self, x: Tensor | SparseFeatures, graph: Graph) -> Tensor:
        """[N, classes] scores before the softmax."""
        h = self._activated(self.encoder(x))
        for number, layer in enumerate(self.layers):
            branch = layer(h, graph)
            added = h + branch if self.gains is None else torch.addcmul(h, branch, self.gains[number])
            h = self._activated(added)
        out: Tensor = self.decoder(h)
        return out

    def _activated(self, h: Tensor) -> Tensor:
        return dropout(F.relu(h), self.dropout) if self.training and self.dropout > 0 else F.relu(h)


def dropout(h: Tensor, p: float) -> Tensor:
    """Dropout that draws one random byte per entry where that is exact; torch's draws a whole number each."""
    threshold = 256 * p
    if h.device.type != "cpu" or not threshold.is_integer():
        return F.dropout(h, p)
    words = torch.empty((h.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.uint8)[: h.numel()].view(h.shape) >= int(threshold)
    return h * kept.to(h.dtype).mul_(1 / (1 - p))


class Molecules(Protocol):
    """What `GraphRegressor` reads of a batch; `mimogc.data.MoleculeBatch` is one."""

    @property
    def atom(self) -> Tensor: ...  # [N] int64
    @property
    def graph(self) -> Graph: ...
    @property
    def owner(self) -> Tensor: ...  # [N] int64
    @property
    def bond(self) -> Tensor: ...  # [E] int64
    @property
    def encoding(self) -> Tensor | None: ...  # [N, 8, 2] or [N, k]
    @property
    def num_graphs(self) -> int: ...


class GraphRegressor(torch.nn.Module):
    """Embedded atoms, message passing with GELU, sum over the atoms, two-layer MLP: one number per molecule.

    Args:
        channels: width of every hidden layer.
        method: one of `METHODS`.
        layers: number of message-passing layers.
        heads: number K of computational graphs of lmgc and gatv2; the other methods fix it.
        encoding: ``"lappe"`` concatenates 8 channels made of the Laplacian eigenpairs to the embedding,
            ``"rwse"`` as many made of the return probabilities; ``"none"``.
        steps: number of return probabilities with ``"rwse"``.
        jumping_knowledge: pool the channel-wise maximum over the outputs of all layers instead of the last.
        residual: add the input of every layer to its activated output.
        gain: what that output is multiplied by before.
        learn_gain: whether that is one learnt number per layer, which starts at `gain`.
        batch_norm: normalise the output of every layer before its activation (beyond the paper).
        bonds: let the bond types add to scores and messages (beyond the paper; see `BOND_METHODS`).
    """

    def __init__(
        self,
        channels: int,
        method: str = "lmgc",
        layers: int = 6,
        heads: int = 4,
        encoding: str = "none",
        steps: int = 20,
        jumping_knowledge: bool = False,
        residual: bool = False,
        batch_norm: bool = False,
        bonds: bool = False,
        gain: float = 1.0,
        learn_gain: bool = False,
    ) -> None:
        super().__init__()
        if encoding not in ("none", "lappe", "rwse"):
            raise ValueError(f"encoding: expected none, lappe or rwse, got {encoding!r}")
        if encoding != "none" and channels <= LAPLACIAN:
            raise ValueError(f"channels: expected more than the {LAPLACIAN} of the encoding, got {channels}")
        self.jumping_knowledge = jumping_knowledge
        self.residual = residual
        self.add_self_loops = method not in ("gin", "mlp")  # whether the batches' graphs should have loops
        self.embedding = torch.nn.Embedding(ATOM_TYPES, channels - (LAPLACIAN if encoding != "none" else 0))
        self.encoder: torch.nn.Module | None = None
        if encoding == "lappe":
            self.encoder = LaplacianEncoder()
        elif encoding == "rwse":
            # Return probabilities of long walks are small and vary little: each is brought to unit scale first.
            self.encoder = torch.nn.Sequential(torch.nn.BatchNorm1d(steps), torch.nn.Linear(steps, LAPLACIAN))
        self.layers = torch.nn.ModuleList(
            convolution(method, channels, heads, residual, bonds=bonds, act=None if batch_norm else "gelu")
            for _ in range(layers)
        )
        if residual and method != "lmgc":
            _start_as_mean(self.layers)
        self.gain = 1.0 if (checked := _gain(gain, 1.0)) is None else checked
        if not residual and (learn_gain or self.gain != 1.0):
            raise ValueError(f"gain: expected 1 in a model without residual connections, got {gain!r}")
        self.gains = torch.nn.Parameter(torch.full((layers,), self.gain)) if learn_gain else None
        self.norms = torch.nn.ModuleList(
            torch.nn.BatchNorm1d(channels) if batch_norm else torch.nn.Identity() for _ in range(layers)
        )
        self.bonds = bonds
        self.hidden = torch.nn.Linear(channels, channels)
        self.last = torch.nn.Linear(channels, 1)

    def forward(self, batch: Molecules) -> Tensor:
        """[B] predictions."""
        h = self._last_layer(batch)
        hidden, last = self.hidden, self.last
        if has_hooks(hidden) or has_hooks(last):
            pooled = h.new_zeros(batch.num_graphs, h.size(1)).index_add(0, batch.owner, h)
            predicted: Tensor = last(F.gelu(hidden(pooled)))
            return predicted.squeeze(1)
        weights = hidden.weight, hidden.bias, last.weight, last.bias
        return readout(h, batch.owner, batch.num_graphs, *weights)

    def _last_layer(self, batch: Molecules) -> Tensor:
        """[N, channels] of the last layer, or the maximum over the layers."""
        plain = self.encoder is None and not has_hooks(self.embedding)
        # Whether nothing comes between the layers: an activated LMGConv is followed by no norm.
        chained = not (self.residual or self.jumping_knowledge) and all(
            isinstance(layer, LMGConv) and layer.act for layer in self.layers
        )
        if chained and plain:
            return chain(self.layers, self.embedding.weight, batch.graph, batch.atom)
        h = self._embedded(batch)
        if chained:
            return chain(self.layers, h, batch.graph)
        graph = TypedGraph.of(batch.graph, batch.bond, BOND_TYPES, h.dtype) if self.bonds else batch.graph
        outputs: list[Tensor] = []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            if plain and not outputs and isinstance(layer, LMGConv):
                out = chain([layer], self.embedding.weight, batch.graph, batch.atom)
            else:
                out = layer(h, graph)
            out = out if isinstance(layer, LMGConv) and layer.act else F.gelu(norm(out))
            h = self._added(h, out, len(outputs)) if self.residual else out
            outputs.append(h)
        return torch.stack(outputs).amax(0) if self.jumping_knowledge else h

    def _added(self, h: Tensor, branch: Tensor, layer: int) -> Tensor:
        if self.gains is None:
            return torch.add(h, branch, alpha=self.gain)
        return torch.addcmul(h, branch, self.gains[layer])

    def _embedded(self, batch: Molecules) -> Tensor:
        h: Tensor = self.embedding(batch.atom)
        if self.encoder is None:
            return h
        if batch.encoding is None:
            raise ValueError("batch.encoding: the model was built with an encoding, got none")
        if isinstance(self.encoder, LaplacianEncoder):
            return torch.cat([h, self.encoder(batch.encoding, batch.owner, batch.num_graphs)], dim=1)
        return torch.cat([h, self.encoder(batch.encoding)], dim=1)


def _start_as_mean(layers: Iterable[torch.nn.Module]) -> None:
    """Divide the initial W^(k) by K, so that the sum over the graphs starts at the scale of their mean.

    For the baselines, which are not calibrated: added to their inputs, sums of K graphs would grow from layer to layer.
    """
    with torch.no_grad():
        for layer in layers:
            conv = layer.conv if isinstance(layer, BondConv) else layer
            if isinstance(conv, LMGConv):
                conv.lin.weight.div_(conv.heads)


def _gain(gain: object, auto: float | None) -> float | None:
    if gain is None:
        return None
    if isinstance(gain, SupportsFloat) and not isinstance(gain, bool) and math.isfinite(float(gain)):
        return float(gain)
    if gain != "auto":
        raise ValueError(f"gain: expected a finite number, 'auto' or None, got {gain!r}")
    return auto
