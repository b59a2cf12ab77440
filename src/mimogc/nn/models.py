"""The two models of the paper's experiments, one backbone for every method, and the width that fits a budget."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

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

METHODS = ("gatv2", "fagcn", "acm", "gin", "lmgc", "gcn", "mlp")
SUMMED = ("lmgc", "gatv2")  # those that sum over a number of graphs which one may choose
BOND_METHODS = ("lmgc", "gatv2", "fagcn")  # those with a score that a bond type can add to
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
    ) -> None:
        super().__init__()
        if combine != "sum" and method not in SUMMED:
            raise ValueError(f"combine: {method} allows 'sum' only, got {combine!r}")
        self.dropout = dropout
        self.encoder = Encoder(in_channels, channels)
        self.layers = torch.nn.ModuleList(
            convolution(method, channels, heads, True, add_self_loops, combine=combine) for _ in range(layers)
        )
        self.decoder = torch.nn.Linear(channels, classes)

    def forward(self, x: Tensor | SparseFeatures, graph: Graph) -> Tensor:
        """[N, classes] scores before the softmax."""
        h = self._activated(self.encoder(x))
        for layer in self.layers:
            h = self._activated(layer(h, graph) + h)
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
        if residual:
            _start_as_mean(self.layers)
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
                out = layer.from_table(self.embedding.weight, batch.atom, graph)
            else:
                out = layer(h, graph)
            out = out if isinstance(layer, LMGConv) and layer.act else F.gelu(norm(out))
            h = out + h if self.residual else out
            outputs.append(h)
        return torch.stack(outputs).amax(0) if self.jumping_knowledge else h

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

    Added to their inputs, sums of K graphs would grow from layer to layer: with 10 layers of LMGC the first
    predictions would be off by 10⁴. With batch norm, which brings the sums back to scale, smaller scores still help:
    tanh is not saturated at the start. Without residual connections the same start would make the signal vanish, since
    the coefficients tanh(…) are small where the features are.
    """
    with torch.no_grad():
        for layer in layers:
            conv = layer.conv if isinstance(layer, BondConv) else layer
            if isinstance(conv, LMGConv):
                conv.lin.weight.div_(conv.heads)


def num_parameters(model: torch.nn.Module) -> int:
    """The number of learnable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def fit_width(build: Callable[[int], torch.nn.Module], budget: int = 100_000) -> int:
    """The largest width whose model ``build(width)`` has at most `budget` learnable parameters.

    Models are built without memory for their weights, and the random state is left as it was. A width that
    ``build`` refuses with a ValueError counts as too small.
    """

    def size(width: int) -> int:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return num_parameters(build(width))

    def fits(width: int) -> bool:
        try:
            return size(width) <= budget
        except ValueError:
            return True

    low, high = 0, 1
    while fits(high) and high <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if fits(high):
        size(high)  # no width can be built: let the model say why
    with suppress(ValueError):
        if low and size(low) <= budget:
            return low
    raise ValueError(f"budget: {budget} parameters are too few for a model of any width")
