"""The views are the library's own numbers, functions of the choice alone, and say why where there are none."""

import copy
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mimogc.explore import choices, views
from mimogc.explore.choices import Choice, NotShownError, given_graph, random_layer
from mimogc.methods import METHODS, names
from mimogc.nn import LMGConv
from mimogc.spectral import component_amplification, coupling, fourier_basis, operator_rank
from mimogc.theory import check_injectivity, collapse_rate, depth_study

SMALL = Choice(nodes=16, depth=12, seed=3)


def test_amplification_is_that_of_a_layer_made_from_the_seed() -> None:
    view = views.amplification(replace(SMALL, heads=3))
    graph = given_graph(SMALL)
    basis = fourier_basis(graph.with_self_loops())
    torch.manual_seed(3)
    x = torch.randn(16, 4).double()
    layer = LMGConv(4, 4, 3, "eq12", bias=False).double()
    assert torch.equal(view.diagonal, component_amplification(layer, x, graph, basis))
    assert view.operator_rank == operator_rank(layer, x, graph) == 3
    assert view.coupling == coupling(layer, x, graph, basis)
    assert torch.equal(view.values, basis.adjacency_values)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize(("method", "rank"), [("gcn", 1), ("acm", 2), ("chebyshev", 3), ("mimogc", 16)])
def test_methods_of_one_eigenbasis_couple_nothing(method: str, rank: int, loops: bool) -> None:
    view = views.amplification(replace(SMALL, method=method, loops=loops))
    assert view.operator_rank == view.amplification_rank == rank
    assert view.coupling < 1e-12


@pytest.mark.parametrize("heads", [1, 2, 5])
@pytest.mark.parametrize("method", names(lambda record: record.free_heads))
def test_k_is_the_operator_rank_where_it_is_free(method: str, heads: int) -> None:
    assert views.amplification(replace(SMALL, method=method, heads=heads)).operator_rank == heads


def test_the_filter_of_a_mimo_gc_is_its_amplification() -> None:
    choice = Choice(method="mimogc", nodes=8)
    view, graph = views.amplification(choice), given_graph(choice)
    torch.manual_seed(0)
    x = torch.randn(8, 4).double()
    layer = random_layer(choice, 4)
    basis = fourier_basis(graph.with_self_loops())
    assert torch.allclose(view.diagonal, component_amplification(layer, x, graph, basis), atol=1e-12)
    assert view.operator_rank == operator_rank(layer, x, graph)
    assert coupling(layer, x, graph, basis) < 1e-12


def test_depth_is_the_depth_study_of_random_layers_from_the_seed() -> None:
    view, graph = views.depth(SMALL), given_graph(SMALL)
    torch.manual_seed(3)
    start = torch.randn(16, 16).double()
    layer = LMGConv(16, 16, coefficients="eq12", bias=False).double()
    layers = []
    for _ in range(12):
        layer.reset_parameters()
        layers.append(copy.deepcopy(layer))
    assert len({float(layer.lin.weight.detach().sum()) for layer in layers}) == 12
    study = depth_study(lambda level: layers[level - 1], start, graph, 12)
    assert torch.equal(view.effective_rank, study.effective_rank)
    assert torch.equal(view.rank_one_distance, study.rank_one_distance)
    assert view.predicted_rate is None
    assert "GCN only" in view.why_not_predicted


def test_the_gcn_falls_as_predicted() -> None:
    excess = []
    for seed in range(8):
        choice = Choice(method="gcn", depth=64, seed=seed)
        view = views.depth(choice)
        values = fourier_basis(given_graph(choice).with_self_loops()).adjacency_values
        assert view.predicted_rate == collapse_rate(values, 16)
        assert view.measured_rate is not None
        assert view.why_not_predicted == ""
        excess.append(view.measured_rate - view.predicted_rate)
    # Of 64 random layers the rate is known to about 0.06 only.
    assert abs(statistics.mean(excess)) < 0.05
    assert max(map(abs, excess)) < 0.2


def test_no_rate_without_a_gap_and_no_slope_of_too_few_layers() -> None:
    view = views.depth(Choice("ring", 16, loops=False, method="gcn", depth=1))  # bipartite
    assert view.predicted_rate is None
    assert "bipartite" in view.why_not_predicted
    assert view.measured_rate is None
    assert len(view.effective_rank) == 2


def test_multisets_are_those_of_the_theory() -> None:
    choice = Choice(loops=False)
    view = views.multisets(choice)
    torch.manual_seed(0)
    given = torch.randn(3, 4).double()
    layer = LMGConv(4, 4, coefficients="eq12", add_self_loops=False, bias=False).double()
    assert view.injectivity == check_injectivity(layer, torch.cat([given, 2 * given[:1]]), 3)
    assert view.injectivity.counterexample is None
    assert view.independence.counterexample is None
    collision = views.multisets(replace(choice, method="gcn")).injectivity.counterexample
    assert collision is not None
    assert len(set(collision[0].multiset)) == len(set(collision[1].multiset)) == 1  # {x} and {x, x, …}
    assert views.multisets(replace(choice, heads=1)).independence.counterexample is not None


def test_the_choice_decides_the_numbers_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = [views.amplification(SMALL).coupling, float(views.depth(SMALL).effective_rank[-1])]
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(7)
    assert one == [views.amplification(SMALL).coupling, float(views.depth(SMALL).effective_rank[-1])]
    other = replace(SMALL, seed=4)
    assert views.amplification(other).coupling != one[0]
    assert not torch.equal(views.spectrum(other).values, views.spectrum(SMALL).values)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("graph", ["random", "ring", "grid"])
def test_every_method_on_every_synthetic_graph(graph: str, method: str) -> None:
    choice = Choice(graph, 12, method=method, depth=3)
    assert views.spectrum(choice).num_nodes == 12
    assert torch.isfinite(views.depth(choice).effective_rank).all()
    if method != "gin":
        assert views.amplification(choice).diagonal.shape == (12, 4, 4)
    if not METHODS[method].one_graph:
        assert views.multisets(choice).injectivity.pairs == 9180


def test_a_directed_graph_has_depth_but_no_components() -> None:
    choice = Choice("one-way ring", 12, method="gcn", depth=4)
    assert not given_graph(choice).is_undirected
    for view in (views.spectrum, views.amplification):
        with pytest.raises(NotShownError, match="directed"):
            view(choice)
    with pytest.raises(NotShownError, match="directed"):
        views.depth(replace(choice, method="mimogc"))
    assert "undirected" in views.depth(choice).why_not_predicted


def test_what_is_not_linear_or_belongs_to_one_graph_says_so() -> None:
    with pytest.raises(NotShownError, match="GIN is not linear"):
        views.amplification(replace(SMALL, method="gin"))
    with pytest.raises(NotShownError, match="belongs to one graph"):
        views.multisets(replace(SMALL, method="mimogc"))


def test_a_dataset_that_is_not_there_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    choices._dataset.cache_clear()
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    for view in (views.spectrum, views.amplification, views.depth):
        with pytest.raises(NotShownError, match=r"Texas is not on this machine.*webkb.*downloads nothing"):
            view(Choice("texas"))
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_there(datasets: Path) -> None:
    choices._dataset.cache_clear()
    choice = Choice("texas", method="gcn", depth=8)
    assert views.spectrum(choice).num_nodes == 183
    assert views.amplification(choice).operator_rank == 1
    assert views.depth(choice).predicted_rate is not None


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"graph": "star"}, "graph: expected one of random"),
        ({"method": "sage"}, "method: expected one of gcn, gat"),
        ({"nodes": 5}, "nodes: expected 6 to 128, got 5"),
        ({"heads": 0}, "heads: expected 1 to 8, got 0"),
        ({"depth": 129}, "depth: expected 1 to 128, got 129"),
    ],
)
def test_a_choice_that_is_none(wrong: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Choice(**wrong)  # type: ignore[arg-type]
