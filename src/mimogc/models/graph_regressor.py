"""The model of the molecule experiments, one backbone for every method."""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.methods import METHODS, Method
from mimogc.methods import method as record_of
from mimogc.models.gain import checked_gain
from mimogc.models.laplacian_encoder import ENCODED, LaplacianEncoder
from mimogc.models.typed_edges import BondConv, TypedGraph
from mimogc.models.typed_stack import stacked_types
from mimogc.nn.coefficients.base import has_hooks
from mimogc.nn.conv import LMGConv
from mimogc.nn.stack import LMGCStack, stacked
from mimogc.ops import activate

ATOM_TYPES, BOND_TYPES = 28, 4  # ZINC; type 0 of an edge is the self-loop


class Batch(Protocol):
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
        method: a record of `mimogc.methods`, its name, or one's own as ``package.module:NAME``.
        layers: number of message-passing layers.
        heads: number K of computational graphs, where the method does not fix it.
        encoding: ``"lappe"`` concatenates 8 channels made of the Laplacian eigenpairs to the embedding,
            ``"rwse"`` as many made of the return probabilities; ``"none"``.
        steps: number of return probabilities with ``"rwse"``.
        jumping_knowledge: pool the channel-wise maximum over the outputs of all layers instead of the last.
        residual: add the input of every layer to its activated output.
        gain: what that output is multiplied by before.
        learn_gain: whether that is one learnt number per layer, which starts at `gain`.
        batch_norm: normalise the output of every layer before its activation (beyond the paper).
        edge_types: number of the edge types that add to scores and messages (beyond the paper), where the method has a
            score: `BOND_TYPES`, or ``table.types`` for molecules `with_rings`. None: edges are all alike.
    """

    def __init__(
        self,
        channels: int,
        method: str | Method = "lmgc",
        layers: int = 6,
        heads: int = 4,
        encoding: str = "none",
        steps: int = 20,
        jumping_knowledge: bool = False,
        residual: bool = False,
        batch_norm: bool = False,
        edge_types: int | None = None,
        gain: float = 1.0,
        learn_gain: bool = False,
    ) -> None:
        super().__init__()
        if encoding not in ("none", "lappe", "rwse"):
            raise ValueError(f"encoding: expected none, lappe or rwse, got {encoding!r}")
        if encoding != "none" and channels <= ENCODED:
            raise ValueError(f"channels: expected more than the {ENCODED} of the encoding, got {channels}")
        record = record_of(method)
        self.jumping_knowledge = jumping_knowledge
        self.batch_norm = batch_norm
        self.residual = residual
        self.add_self_loops = record.self_loops  # whether the batches' graphs should have loops
        self.embedding = torch.nn.Embedding(ATOM_TYPES, channels - (ENCODED if encoding != "none" else 0))
        self.encoder: torch.nn.Module | None = None
        if encoding == "lappe":
            self.encoder = LaplacianEncoder()
        elif encoding == "rwse":
            # Return probabilities of long walks are small and vary little: each is brought to unit scale first.
            self.encoder = torch.nn.Sequential(torch.nn.BatchNorm1d(steps), torch.nn.Linear(steps, ENCODED))
        between = (
            residual or jumping_knowledge or batch_norm or edge_types
        )  # whether something comes between the layers
        self.layers: torch.nn.ModuleList | LMGCStack
        if record.stacks and record is METHODS.get(record.name) and not between:  # one's own may build other layers
            self.layers = LMGCStack(channels, channels, layers, heads, record.name)
        else:
            self.layers = torch.nn.ModuleList(
                _layer(record, channels, heads, residual, edge_types) for _ in range(layers)
            )
            if residual and not record.calibrated:
                _start_as_mean(self.layers)
        self.gain = 1.0 if (checked := checked_gain(gain, 1.0)) is None else checked
        if not residual and (learn_gain or self.gain != 1.0):
            raise ValueError(f"gain: expected 1 in a model without residual connections, got {gain!r}")
        self.gains = torch.nn.Parameter(torch.full((layers,), self.gain)) if learn_gain else None
        self.norms = torch.nn.ModuleList(
            torch.nn.BatchNorm1d(channels) if batch_norm else torch.nn.Identity() for _ in range(layers)
        )
        self.edge_types = edge_types
        self.hidden = torch.nn.Linear(channels, channels)
        self.last = torch.nn.Linear(channels, 1)

    def forward(self, batch: Batch) -> Tensor:
        """[B] predictions."""
        h = self._last_layer(batch)
        pooled = h.new_zeros(batch.num_graphs, h.size(1)).index_add_(0, batch.owner, h)
        predicted: Tensor = self.last(F.gelu(self.hidden(pooled)))
        return predicted.squeeze(1)

    def _last_layer(self, batch: Batch) -> Tensor:
        """[N, channels] of the last layer, or the maximum over the layers."""
        if isinstance(self.layers, LMGCStack):
            table = self.encoder is None and not has_hooks(self.embedding)
            given = (self.embedding.weight, batch.graph, batch.atom) if table else (self._embedded(batch), batch.graph)
            last: Tensor = self.layers(*given)
            return last
        between = self.batch_norm or self.edge_types or self.gains is not None
        if not between:  # what the layers have between them is part of one function
            table = self.encoder is None and not has_hooks(self.embedding)
            h, index = (self.embedding.weight, batch.atom) if table else (self._embedded(batch), None)
            gain = self.gain if self.residual else None
            return stacked(self.layers, h, batch.graph, index, gain, self.jumping_knowledge)
        h = self._embedded(batch)
        graph: Graph | TypedGraph = batch.graph
        if self.edge_types:
            graph = TypedGraph.of(batch.graph, batch.bond, self.edge_types, h.dtype)
            if self.gains is None and not self.jumping_knowledge:
                together = stacked_types(self.layers, self.norms, h, graph, self.gain if self.residual else None)
                if together is not None:
                    return together
        best: Tensor | None = None
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            y = norm(layer(h, graph))
            if self.gains is None:
                h, best = activate(y, h if self.residual else None, self.gain, best)
            else:
                h = torch.addcmul(h, activate(y)[0], self.gains[number])
                best = best if best is None else torch.maximum(best, h)
            best = h if self.jumping_knowledge and best is None else best
        return h if best is None else best

    def _embedded(self, batch: Batch) -> Tensor:
        h: Tensor = self.embedding(batch.atom)
        if self.encoder is None:
            return h
        if batch.encoding is None:
            raise ValueError("batch.encoding: the model was built with an encoding, got none")
        if isinstance(self.encoder, LaplacianEncoder):
            return torch.cat([h, self.encoder(batch.encoding, batch.owner, batch.num_graphs)], dim=1)
        return torch.cat([h, self.encoder(batch.encoding)], dim=1)


def _layer(record: Method, channels: int, heads: int, residual: bool, types: int | None) -> torch.nn.Module:
    if types:
        return BondConv.around(record.build(channels, heads, residual, edge_dim=types, bias=False), types)
    return record.build(channels, heads, residual)


def _start_as_mean(layers: Iterable[torch.nn.Module]) -> None:
    """Divide the initial W^(k) by K, so that the sum over the graphs starts at the scale of their mean.

    For the baselines, which are not calibrated: added to their inputs, sums of K graphs would grow from layer to layer.
    """
    with torch.no_grad():
        for layer in layers:
            conv = layer.conv if isinstance(layer, BondConv) else layer
            if isinstance(conv, LMGConv):
                conv.lin.weight.div_(conv.heads)
