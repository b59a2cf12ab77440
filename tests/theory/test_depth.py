"""Rank collapse as a measured rate: the slopes agree with the theory, ACM collapses, LMGC does not."""

import math

import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.nn import LMGConv
from mimogc.spectral import fourier_basis
from mimogc.theory import collapse_rate, decay_rate, depth_study

N, WIDTH = 20, 4


@pytest.fixture(scope="module")
def graph():
    """Connected and, with the layers' self-loops, not bipartite."""
    torch.manual_seed(0)
    ring = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])
    edges = torch.cat([ring, erdos_renyi_graph(N, 0.15)], dim=1)
    return Graph.from_edge_index(edges, N).to_undirected()


def random_layers(method, width, initialise=None, heads=4):
    def build(level):
        layer = LMGConv(width, width, heads=heads, coefficients=method, bias=False).double()
        if initialise is not None:
            initialise(layer.lin.weight)
        return layer

    return build


def distances(graph, build, width, depth, seed):
    torch.manual_seed(seed)
    return depth_study(build, torch.randn(N, width).double(), graph, depth).rank_one_distance


def test_orthogonal_weights_collapse_at_the_ratio_of_eigenvalues(graph):
    predicted = collapse_rate(fourier_basis(graph.with_self_loops()).adjacency_values)
    build = random_layers("gcn", WIDTH, torch.nn.init.orthogonal_)
    for seed in range(3):
        assert decay_rate(distances(graph, build, WIDTH, 90, seed)) == pytest.approx(predicted, abs=2e-3)
    assert predicted < -0.1


def test_gaussian_weights_collapse_faster_by_the_digamma_term(graph):
    values = fourier_basis(graph.with_self_loops()).adjacency_values
    predicted = collapse_rate(values, WIDTH)
    build = random_layers("gcn", WIDTH, torch.nn.init.normal_)
    measured = torch.tensor([decay_rate(distances(graph, build, WIDTH, 60, seed)) for seed in range(30)])
    assert float(measured.mean()) == pytest.approx(predicted, abs=0.06)
    assert predicted < collapse_rate(values) - 0.15  # so the two predictions are told apart


def test_acm_collapses_and_equation_12_does_not(graph):
    width, depth = 8, 256
    for seed in range(3):
        acm = distances(graph, random_layers("acm", width), width, depth, seed)
        lmgc = distances(graph, random_layers("eq12", width), width, depth, seed)
        assert acm[-1] < 1e-4
        assert lmgc[-1] > 0.02
    one = distances(graph, random_layers("eq12", width, heads=1), width, depth, 0)
    assert one[-1] < 1e-10


def test_gaussian_correction():
    values = torch.tensor([1.0, -0.5, 0.25])
    assert collapse_rate(values) == pytest.approx(math.log(0.5))
    # ψ(2) − ψ(3/2) = (1 − γ) − (2 − γ − 2 log 2)
    assert collapse_rate(values, 4) == pytest.approx(math.log(0.5) - (2 * math.log(2) - 1) / 2)
    assert collapse_rate(torch.tensor([1.0, 0.0])) == -math.inf


def test_decay_rate_of_a_known_slope():
    level = torch.arange(200).double()
    assert decay_rate(torch.exp(-0.3 * level).clamp(min=1e-16)) == pytest.approx(-0.3)
    noisy_start = torch.exp(-0.3 * level) * torch.where(level < 10, 5.0, 1.0)
    assert decay_rate(noisy_start) == pytest.approx(-0.3)


def test_rescaling_prevents_underflow_and_changes_nothing_else(graph):
    def shrinking(level):
        return lambda x, graph: 1e-30 * x

    x = torch.randn(N, 3)
    study = depth_study(shrinking, x, graph, 40)
    for measure in vars(study).values():
        assert measure.shape == (41,)
        torch.testing.assert_close(measure, measure[:1].expand(41), atol=1e-6, rtol=0)
    dead = depth_study(lambda level: lambda x, graph: 0 * x, x, graph, 2)
    assert dead.rank_one_distance[1:].tolist() == [0, 0]


def test_wrong_arguments(graph):
    with pytest.raises(ValueError, match="depth: expected at least 1 layer, got 0"):
        depth_study(random_layers("gcn", 3), torch.randn(N, 3), graph, 0)
    with pytest.raises(ValueError, match="distance: expected at least 3 values above floor"):
        decay_rate(torch.tensor([1.0, 1e-12]))
    with pytest.raises(ValueError, match="eigenvalues: expected a vector of at least 2"):
        collapse_rate(torch.tensor([1.0]))
    with pytest.raises(ValueError, match="width: expected at least 2 channels, got 1"):
        collapse_rate(torch.tensor([1.0, 0.5]), 1)
