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
from mimogc.spectral.measures import dirichlet_energy, effective_rank, mean_average_distance, rank_one_distance
from mimogc.spectral.polynomial import (
    gcn_filter,
    polynomial_filter,
    polynomial_response,
    theta_from_gcn,
    theta_from_polynomial,
)

__all__ = ["FourierBasis", "fourier_basis"]
__all__ += ["amplification_rank", "component_amplification", "coupling", "graph_gram", "operator_rank"]
__all__ += ["mimo_channel_pairs", "mimo_convolution", "mimo_graphs", "mimo_kronecker", "mimo_pairwise"]
__all__ += ["pairwise_maps", "siso_convolution"]
__all__ += ["dirichlet_energy", "effective_rank", "mean_average_distance", "rank_one_distance"]
__all__ += ["gcn_filter", "polynomial_filter", "polynomial_response", "theta_from_gcn", "theta_from_polynomial"]
