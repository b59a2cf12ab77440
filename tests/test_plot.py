"""Every function of `mimogc.plot` draws what it is given, on given axes or new ones, and returns them."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from mimogc import Graph, plot
from mimogc.nn import LMGConv
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.spectral import component_amplification, fourier_basis
from mimogc.theory import depth_study

GRAPH = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]]), 5).to_undirected()


def record(method: str, curves: dict[str, list[float]]) -> Record:
    run = Run("study", "data", method, "plain", hparams(lr=0.1), 0, 0)
    return Record(run, "done", Outcome({}, curves), {}, "")


@pytest.fixture(autouse=True)
def _close() -> object:
    yield
    plt.close("all")


def test_filters_and_amplification_are_drawn_over_the_components() -> None:
    basis = fourier_basis(GRAPH)
    axes = plot.filter_response(basis.adjacency_values, basis.adjacency_values**2, marked=1)
    assert np.allclose(axes.lines[1].get_ydata(), basis.adjacency_values**2)
    x = torch.randn(5, 3)
    amplified = component_amplification(LMGConv(3, 2, add_self_loops=False), x, GRAPH)
    given = Figure().add_subplot()
    assert plot.amplification(amplified, basis.adjacency_values, ax=given) is given
    shown = given.images[0].get_array()
    assert shown.shape == (5, 6)
    assert np.allclose(np.linalg.norm(shown, axis=0), 1)


def test_rank_over_depth_has_a_line_per_method() -> None:
    x = torch.randn(5, 4)
    curves = {
        name: depth_study(lambda level, name=name: LMGConv(4, 4, coefficients=name), x, GRAPH, 6)
        for name in ("gcn", "lmgc")
    }
    axes = plot.rank_over_depth({name: study.effective_rank for name, study in curves.items()})
    assert [line.get_label() for line in axes.lines] == ["gcn", "lmgc"]
    assert axes.get_ylabel() == "effective rank"
    distances = {name: study.rank_one_distance for name, study in curves.items()}
    assert plot.rank_over_depth(distances, distance=True).get_yscale() == "log"
    level, line = plot.predicted_line(np.ones(8), -0.5)
    assert np.allclose(np.log(line), -0.5 * (level - 2))


def test_a_graph_shows_its_signal_and_a_layers_coefficients() -> None:
    axes = plot.graph(GRAPH, torch.arange(5.0))
    (dots,) = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert dots.get_array().tolist() == [0, 1, 2, 3, 4]
    layer, x = LMGConv(3, 2, heads=2), torch.randn(5, 3)
    axes = plot.coefficients(layer, x, GRAPH, head=1)
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    operator = layer.operator(x, GRAPH)
    apart = operator.graph.src != operator.graph.dst
    assert np.allclose(lines.get_array(), operator.alpha[apart, 1].detach())
    with pytest.raises(ValueError, match="head: expected 0 to 1, got 2"):
        plot.coefficients(layer, x, GRAPH, head=2)


def test_training_curves_are_those_of_the_records() -> None:
    runs = [
        record("lmgc", {"epoch": [1, 2, 4], "loss": [3.0, 2.0, float("nan")]}),
        record("lmgc", {"epoch": [1, 2], "loss": [2.5, 1.5]}),
        record("gcn", {"step": [1, 2], "loss": [1.0, 0.0]}),
        record("none", {}),
    ]
    axes = plot.training_curves(runs, "loss", colors={"gcn": "#000000"})
    assert [list(line.get_ydata()) for line in axes.lines] == [[3, 2], [2.5, 1.5], [1]]
    assert axes.lines[0].get_color() == axes.lines[1].get_color() != axes.lines[2].get_color() == "#000000"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["lmgc", "gcn"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_training_curves_of_scores_are_linear_and_unknown_ones_refused() -> None:
    runs = [record("lmgc", {"epoch": [1, 2], "val_accuracy": [0.0, 50.0]})]
    axes = plot.training_curves(runs, "val_accuracy")
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert list(axes.lines[0].get_ydata()) == [0.0, 50.0]
    with pytest.raises(ValueError, match=r"metric: expected a curve that the runs have \(val_accuracy\), got 'foo'"):
        plot.training_curves(runs, "foo")
    with pytest.raises(ValueError, match="records: expected at least one run, got none"):
        plot.training_curves([], "val_accuracy")
    with pytest.raises(ValueError, match=r"by: expected one of method, .*, got 'colour'"):
        plot.training_curves(runs, "val_accuracy", by="colour")
