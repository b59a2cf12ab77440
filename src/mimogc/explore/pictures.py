"""The pictures of the page, each drawn from a view alone, as PNG."""

import base64
import functools
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from mimogc import plot
from mimogc.explore.choices import Choice, given_graph
from mimogc.explore.views import Amplification, Depth
from mimogc.graph import Graph
from mimogc.methods import method as record_of
from mimogc.plot import ACCENT, BLUE, FAINT, INK, decimal
from mimogc.spectral import FourierBasis
from mimogc.studies.figures.style import STYLE, heading

Array = NDArray[np.float64]

_REFERENCE = {"color": FAINT, "linewidth": 1.4, "linestyle": "--"}
_SHOWN = {"color": BLUE, "linewidth": 2.2}
_lock = threading.Lock()  # matplotlib's settings are those of the whole process


def spectrum(choice: Choice, basis: FourierBasis | None, component: int) -> str:
    """The graph, coloured by one of its components, and its eigenvalues; without a basis the graph alone."""
    with _canvas() as canvas:
        left, right = canvas.add_axes((0.0, 0.02, 0.44, 0.89)), canvas.add_axes((0.56, 0.16, 0.43, 0.75))
        drawn = given_graph(choice)
        colours = None if basis is None else basis.vectors[:, component]
        plot.graph(drawn, colours, ax=left, positions=positions(choice.graph, drawn))
        left.set_aspect("equal" if choice.graph in ("ring", "one-way ring", "grid") else "auto")
        if basis is None:
            right.set_visible(False)
            return _png(canvas)
        heading(left, f"component {component + 1}, λ = {decimal(float(basis.adjacency_values[component]))}")
        values = basis.adjacency_values
        plot.filter_response(np.arange(1, len(values) + 1), values, ax=right, marked=component)
        heading(right, "spectrum")
        right.set(xlabel="component, smooth to rough", ylabel="eigenvalue λ", ylim=(-1.08, 1.08))
        right.set_yticks([-1, -0.5, 0, 0.5, 1])
        return _png(canvas)


def amplification(view: Amplification) -> str:
    """Components × channel pairs; each pair is scaled to length 1, with its largest entry positive."""
    with _canvas() as canvas:
        axes, legend = canvas.add_axes((0.12, 0.15, 0.71, 0.82)), canvas.add_axes((0.85, 0.15, 0.025, 0.82))
        image = plot.amplification(view.diagonal, view.values, ax=axes).images[0]
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
            label = record_of(choice.method).label
            curves = {"GCN": other, label: curve} if choice.method != "gcn" else {label: curve}
            styles = {"GCN": _REFERENCE, label: _SHOWN}
            plot.rank_over_depth(curves, ax=axes, styles=styles, distance=axes is right)
        if reference.predicted_rate is not None:
            line = plot.predicted_line(reference.rank_one_distance, reference.predicted_rate)
            right.plot(*line, color=ACCENT, linewidth=1.2, linestyle=":", label="predicted for GCN")
        left.set_ylim(0.9, 17)
        left.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        right.set_ylim(top=2)
        right.minorticks_off()
        right.yaxis.set_major_formatter(lambda value, _: _power_of_ten(value))
        heading(left, "effective rank")
        heading(right, "distance to rank one")
        right.legend(loc="lower left", fontsize=8)
        return _png(canvas)


@contextmanager
def _canvas() -> Iterator[Canvas]:
    """An empty picture in the look of all figures; places are given, since finding them takes most of the time."""
    with _lock, rc_context({**STYLE, "axes.titley": 1.0}):
        yield Canvas(figsize=(5.6, 2.9))


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
    return plot.layout(graph)


def _power_of_ten(value: float) -> str:
    """As 10⁻³, without matplotlib's own typesetting, which takes as long as the rest of the picture."""
    return "10" + str(round(np.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _png(canvas: Canvas) -> str:
    """The picture as a data URI."""
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", dpi=160, pil_kwargs={"compress_level": 1})  # quick rather than small
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
