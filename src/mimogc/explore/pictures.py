"""The pictures of the page, each drawn from a view alone, as PNG."""

import base64
import functools
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import networkx
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from mimogc.experiments.figures.style import ACCENT, FAINT, INK, STYLE, heading
from mimogc.explore.choices import METHODS, Choice, given_graph
from mimogc.explore.views import Amplification, Depth
from mimogc.graph import Graph
from mimogc.spectral import FourierBasis

Array = NDArray[np.float64]

BLUE = "#2b6cb0"
DIVERGING = "RdBu_r"  # red and blue of equal lightness steps can be told apart without red-green vision
_FLOOR = 1e-16  # below it distances are rounding
_lock = threading.Lock()  # matplotlib's settings are those of the whole process


def spectrum(choice: Choice, basis: FourierBasis | None, component: int) -> str:
    """The graph, coloured by one of its components, and its eigenvalues; without a basis the graph alone."""
    with _canvas() as canvas:
        left, right = canvas.add_axes((0.0, 0.02, 0.44, 0.89)), canvas.add_axes((0.56, 0.16, 0.43, 0.75))
        colours = None if basis is None else basis.vectors[:, component].numpy()
        _draw_graph(left, choice, colours)
        if basis is None:
            right.set_visible(False)
            return _png(canvas)
        heading(left, f"component {component + 1}, λ = {_signed(float(basis.adjacency_values[component]))}")
        values = basis.adjacency_values.numpy()
        place = np.arange(1, len(values) + 1)
        right.axhline(0, color=FAINT, linewidth=0.8)
        right.vlines(place, 0, values, color=BLUE, linewidth=0.9, alpha=0.5)
        right.plot(place, values, "o", color=BLUE, markersize=3)
        right.plot(place[component], values[component], "o", color=ACCENT, markersize=7)
        heading(right, "spectrum")
        right.set(xlabel="component, smooth to rough", ylabel="eigenvalue λ", ylim=(-1.08, 1.08))
        right.set_yticks([-1, -0.5, 0, 0.5, 1])
        return _png(canvas)


def amplification(view: Amplification) -> str:
    """Components × channel pairs; each pair is scaled to length 1, with its largest entry positive."""
    with _canvas() as canvas:
        axes, legend = canvas.add_axes((0.12, 0.15, 0.71, 0.82)), canvas.add_axes((0.85, 0.15, 0.025, 0.82))
        matrix = view.diagonal.flatten(1).numpy()  # [N, C·F]
        leading = matrix[np.abs(matrix).argmax(0), np.arange(matrix.shape[1])]
        norm = np.linalg.norm(matrix, axis=0)
        matrix = matrix / np.where(norm > 0, norm, 1) * np.sign(leading)
        limit = np.abs(matrix).max()
        image = axes.imshow(
            matrix, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        axes.grid(False)
        ticks = np.linspace(0, len(matrix) - 1, 5).round().astype(int)
        axes.set_yticks(ticks, [_signed(float(view.values[tick])) for tick in ticks])
        outputs, inputs = view.diagonal.shape[1:]
        centres = inputs * np.arange(outputs) + (inputs - 1) / 2
        axes.set_xticks(centres, [f"output {output + 1}" for output in range(outputs)])
        for edge in inputs * np.arange(1, outputs) - 0.5:
            axes.axvline(edge, color=INK, linewidth=0.6)
        axes.set(xlabel=f"channel pairs: {inputs} inputs for each output", ylabel="component, by its λ")
        canvas.colorbar(image, cax=legend, label="amplification, scaled")
        return _png(canvas)


def depth(choice: Choice, view: Depth, reference: Depth) -> str:
    """Effective rank and distance to rank one over depth, with the GCN as reference and its predicted slope."""
    with _canvas() as canvas:
        left, right = canvas.add_axes((0.06, 0.16, 0.39, 0.75)), canvas.add_axes((0.58, 0.16, 0.41, 0.75))
        for axes, curve, other in (
            (left, view.effective_rank, reference.effective_rank),
            (right, view.rank_one_distance, reference.rank_one_distance),
        ):
            if choice.method != "gcn":
                axes.plot(other.clamp(min=_FLOOR), color=FAINT, linewidth=1.4, linestyle="--", label="GCN")
            axes.plot(curve.clamp(min=_FLOOR), color=BLUE, linewidth=2.2, label=METHODS[choice.method])
            axes.set(xlabel="layers", xlim=(0, choice.depth))
        if reference.predicted_rate is not None:
            _predicted(right, reference, reference.predicted_rate)
        left.set_yscale("log", base=2)
        left.set_ylim(0.9, 17)
        left.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        right.set_yscale("log")
        right.set_ylim(top=2)
        right.minorticks_off()
        right.yaxis.set_major_formatter(lambda value, _: _power_of_ten(value))
        heading(left, "effective rank")
        heading(right, "distance to rank one")
        right.legend(loc="lower left", fontsize=8)
        return _png(canvas)


def _predicted(axes: Axes, reference: Depth, rate: float) -> None:
    """The slope predicted for the GCN, through its curve at a quarter of the depth."""
    curve = reference.rank_one_distance.numpy()
    level, start = np.arange(len(curve)), len(curve) // 4
    line = curve[start] * np.exp(rate * (level - start))
    seen = line > _FLOOR
    axes.plot(level[seen], line[seen], color=ACCENT, linewidth=1.2, linestyle=":", label="predicted for GCN")


@contextmanager
def _canvas() -> Iterator[Canvas]:
    """An empty picture in the look of all figures; places are given, since finding them takes most of the time."""
    with _lock, rc_context({**STYLE, "axes.titley": 1.0}):
        yield Canvas(figsize=(5.6, 2.9))


def _draw_graph(axes: Axes, choice: Choice, colours: Array | None) -> None:
    """Nodes and edges; colours: [N] or none."""
    graph = given_graph(choice)
    place = positions(choice.graph, graph)
    edges = graph.edge_index[:, graph.src != graph.dst].T.numpy()
    axes.add_collection(LineCollection(place[edges], colors="#c4c4c4", linewidths=0.7, zorder=1))
    dots: dict[str, Any] = {
        "s": max(10, 2200 / len(place)),
        "edgecolors": INK,
        "linewidths": 0.6,
        "zorder": 2,
    }
    if colours is None:
        axes.scatter(place[:, 0], place[:, 1], color=INK, **dots)
    else:
        limit = float(np.abs(colours).max())
        axes.scatter(place[:, 0], place[:, 1], c=colours, cmap=DIVERGING, vmin=-limit, vmax=limit, **dots)
    axes.set_aspect("equal" if choice.graph in ("ring", "one-way ring", "grid") else "auto")
    axes.margins(0.06)
    axes.axis("off")


@functools.lru_cache(maxsize=8)
def positions(kind: str, graph: Graph) -> Array:
    """[N, 2] where nodes are drawn: on a circle, on a grid, or by a force layout."""
    n = graph.num_nodes
    if kind in ("ring", "one-way ring"):
        angle = 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if kind == "grid":
        width = n // int(np.sqrt(n))
        return np.stack([np.arange(n) % width, -(np.arange(n) // width)], axis=1).astype(float)
    drawn = networkx.Graph(graph.edge_index.T.tolist())
    drawn.add_nodes_from(range(n))
    found = networkx.spring_layout(drawn, seed=0)
    return np.array([found[node] for node in range(n)])


def _power_of_ten(value: float) -> str:
    """As 10⁻³, without matplotlib's own typesetting, which takes as long as the rest of the picture."""
    return "10" + str(round(np.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _png(canvas: Canvas) -> str:
    """The picture as a data URI."""
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", dpi=180)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
