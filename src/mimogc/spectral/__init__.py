"""The spectral side: the Fourier basis, convolutions and filters in it, and what a layer does there."""

from mimogc.spectral.amplification import (
    amplification_rank,
    component_amplification,
    coupling,
    graph_gram,
    operator_rank,
)
from mimogc.spectral.basis import FourierBasis, fourier_basis
from mimogc.spectral.convolution import (
    mimo_channel_pairs,
    mimo_convolution,
    mimo_graphs,
    mimo_kronecker,
    mimo_pairwise,
    pairwise_maps,
    siso_convolution,
)
from mimogc.spectral.measures import (
    dirichlet_energy,
    effective_rank,
    mean_average_distance,
    rank_one_distance,
)
from mimogc.spectral.polynomial import (
    gcn_filter,
    polynomial_filter,
    polynomial_response,
    theta_from_gcn,
    theta_from_polynomial,
)

__all__ = [
    "FourierBasis",
    "amplification_rank",
    "component_amplification",
    "coupling",
    "dirichlet_energy",
    "effective_rank",
    "fourier_basis",
    "gcn_filter",
    "graph_gram",
    "mean_average_distance",
    "mimo_channel_pairs",
    "mimo_convolution",
    "mimo_graphs",
    "mimo_kronecker",
    "mimo_pairwise",
    "operator_rank",
    "pairwise_maps",
    "polynomial_filter",
    "polynomial_response",
    "rank_one_distance",
    "siso_convolution",
    "theta_from_gcn",
    "theta_from_polynomial",
]
