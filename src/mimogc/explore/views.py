"""What the page shows, as numbers: spectrum, amplification, depth and multisets of one choice.

Each view is a function of the choice alone: random numbers are drawn from its seed. A view that a choice
does not have raises `NotShownError` with the reason.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mimogc import spectral
from mimogc.explore.choices import (
    ELEMENTS,
    TEXTS,
    Choice,
    NotShownError,
    effective_graph,
    features,
    given_graph,
    random_layer,
)
from mimogc.methods import method as record_of
from mimogc.nn import MIMOConv
from mimogc.spectral import FourierBasis, fourier_basis
from mimogc.studies.figures.catalog import DEPTH_WIDTH
from mimogc.studies.figures.measure import AMPLIFICATION_WIDTH
from mimogc.theory import check_injectivity, check_linear_independence, collapse_rate, decay_rate, depth_study
from mimogc.theory.multisets import Independence, Injectivity

MULTISET_SIZE = 3
_lock = threading.RLock()


@dataclass(frozen=True)
class Amplification:
    """What one random layer does to each component."""

    values: Tensor  # [N] λ of A_sym, descending
    diagonal: Tensor  # [N, C, F] the nearest MIMO-GC
    operator_rank: int
    amplification_rank: int
    coupling: float


@dataclass(frozen=True)
class Depth:
    """The features after 0, 1, …, depth random layers."""

    effective_rank: Tensor  # [depth + 1]
    rank_one_distance: Tensor  # [depth + 1]
    measured_rate: float | None  # the slope of log distance per layer; None where there are too few values
    predicted_rate: float | None  # what theory says it is; None where it does not say
    why_not_predicted: str


@dataclass(frozen=True)
class Multisets:
    """Which multisets a random layer confuses; positions in the evidence are those of `ELEMENTS`."""

    injectivity: Injectivity
    independence: Independence


def spectrum(choice: Choice) -> FourierBasis:
    """The Fourier basis of the graph that layers run on."""
    graph = effective_graph(choice)
    if not graph.is_undirected:
        raise NotShownError("directed")
    return fourier_basis(graph)


def amplification(choice: Choice) -> Amplification:
    """The component amplification of one random layer, its ranks, and what it leaves out."""
    basis, graph = spectrum(choice), given_graph(choice)
    with _seeded(choice):
        x = features(choice, AMPLIFICATION_WIDTH)
        layer = random_layer(choice, AMPLIFICATION_WIDTH)
        if isinstance(layer, MIMOConv):
            # Its graphs u_k u_kᵀ are orthonormal, so its filter is all there is; no derivative is needed.
            rank = spectral.amplification_rank(layer.weight.detach())
            return Amplification(basis.adjacency_values, layer.weight.detach(), rank, rank, 0.0)
        if not record_of(choice.method).linear:
            raise NotShownError("not linear", label=record_of(choice.method).label)
        diagonal = spectral.component_amplification(layer, x, graph, basis)
        ranks = spectral.operator_rank(layer, x, graph), spectral.amplification_rank(diagonal)
        return Amplification(basis.adjacency_values, diagonal, *ranks, spectral.coupling(layer, x, graph, basis))


def depth(choice: Choice) -> Depth:
    """Effective rank and distance to rank one after each of many random layers."""
    graph = given_graph(choice)
    rate, why_not = predicted_rate(choice)
    if record_of(choice.method).family == "all components":
        spectrum(choice)  # its layers need the basis
    with _seeded(choice):
        start = features(choice, DEPTH_WIDTH)
        layer: Any = random_layer(choice, DEPTH_WIDTH)

        def with_new_weights(level: int) -> Any:
            if not hasattr(layer, "reset_parameters"):
                return random_layer(choice, DEPTH_WIDTH)
            layer.reset_parameters()  # making a layer takes far longer than one pass through it
            return layer

        study = depth_study(with_new_weights, start, graph, choice.depth)
    try:
        measured = decay_rate(study.rank_one_distance)
    except ValueError:  # too few layers
        measured = None
    return Depth(study.effective_rank, study.rank_one_distance, measured, rate, why_not)


def predicted_rate(choice: Choice) -> tuple[float | None, str]:
    """The slope per layer of log rank-one distance that theory predicts, or None and the reason."""
    if choice.method != "gcn":
        return None, TEXTS["rate of the GCN only"][0]
    if not effective_graph(choice).is_undirected:
        return None, TEXTS["rate of undirected graphs only"][0]
    values = spectrum(choice).adjacency_values
    if float(values.abs().sort().values[-2]) > 1 - 1e-9:
        return None, TEXTS["no rate"][0]
    return collapse_rate(values, DEPTH_WIDTH), ""


def multisets(choice: Choice) -> Multisets:
    """Compare a random layer's outputs for all pairs of (element, multiset) of at most `MULTISET_SIZE` members."""
    if record_of(choice.method).one_graph:
        raise NotShownError("one graph", label=record_of(choice.method).label)
    with _seeded(choice):
        given = torch.randn(len(ELEMENTS) - 1, AMPLIFICATION_WIDTH).double()
        elements = torch.cat([given, 2 * given[:1]])
        layer = random_layer(choice, AMPLIFICATION_WIDTH)
        injectivity = check_injectivity(layer, elements, MULTISET_SIZE)
        return Multisets(injectivity, check_linear_independence(layer, elements, MULTISET_SIZE))


@contextmanager
def _seeded(choice: Choice) -> Iterator[None]:
    """Random numbers of the choice's seed; one view at a time, since torch has one generator for all threads."""
    with _lock, torch.random.fork_rng(devices=[]):
        torch.manual_seed(choice.seed)
        yield
