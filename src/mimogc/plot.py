"""Figures as functions: each draws one thing on matplotlib axes, new ones unless given, and returns the axes.

They take what the library returns: a Fourier basis, an amplification, curves of a depth study, a layer, stored runs.
The report, the figures of the studies and the page of `mimogc explore` are drawn with them.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from mimogc.graph import Graph
    from mimogc.runs.run import Record

__all__ = ["amplification", "coefficients", "filter_response", "graph", "layout", "predicted_line", "rank_over_depth"]
__all__ += ["training_curves"]
Array = NDArray[Any]
Values = Any  # a tensor, an array or numbers
Color = str | tuple[float, ...]
INK, FAINT, BLUE, ACCENT = "#222222", "#8a8a8a", "#2b6cb0", "#b5385a"
DIVERGING = "RdBu_r"  # red and blue of equal lightness steps can be told apart without red-green vision
FLOOR = 1e-16  # below it distances are rounding
CYCLE: tuple[Color, ...] = (ACCENT, BLUE, "#d97706", "#2f855a", "#7b4ea3", FAINT, "#0f766e", INK)
AXES = ("epoch", "step")  # names of curves that count
GROUPS = ("method", "dataset", "variant", "seed", "split", "study")  # of a run, that can give a colour
ERRORS = ("loss", "mse", "mae", "error", "distance")  # words in the names of curves that are seen on a logarithmic axis


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt  # so that a notebook shows it

    return plt.subplots(figsize=(4.6, 3.2), layout="constrained")[1]


def _array(values: Any) -> Array:
    """Of a tensor, an array or a list."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def filter_response(
    eigenvalues: Values, response: Values, *, ax: Axes | None = None, color: Color = BLUE, marked: int | None = None
) -> Axes:
    """What a filter does to each component: its response over the eigenvalues λ of A_sym, or over any places.

    Args:
        eigenvalues: [N], such as ``fourier_basis(graph).adjacency_values``.
        response: [N].
        ax: axes to draw on.
        color: of the stems.
        marked: a component to show larger.
    """
    axes, places, heights = _axes(ax), _array(eigenvalues), _array(response)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.vlines(places, 0, heights, color=color, linewidth=0.9, alpha=0.55)
    axes.plot(places, heights, "o", color=color, markersize=3)
    if marked is not None:
        axes.plot(places[marked], heights[marked], "o", color=ACCENT, markersize=7)
    if ax is None:
        axes.set(xlabel="eigenvalue λ of $A_{sym}$", ylabel="filter")
    return axes


def amplification(
    diagonal: Values, eigenvalues: Values, *, ax: Axes | None = None, limit: float | None = None, ticks: int = 5
) -> Axes:
    """What a layer does to each component: a heat map, components × channel pairs, each pair scaled to length 1.

    Equal columns are shared component amplification. ``axes.images[0]`` is the map, for a colour bar.

    Args:
        diagonal: [N, C, F] of `mimogc.spectral.component_amplification`, or [N, C·F].
        eigenvalues: [N] λ of A_sym.
        ax: axes to draw on.
        limit: the value of the strongest colour; by default the largest one there is.
        ticks: how many components are named by their λ.
    """
    axes, values = _axes(ax), _array(eigenvalues)
    matrix = scaled(_array(diagonal).reshape(len(values), -1))
    largest = float(np.abs(matrix).max()) if limit is None else limit
    axes.imshow(matrix, cmap=DIVERGING, vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    axes.grid(False)
    places = np.linspace(0, len(values) - 1, ticks).round().astype(int)
    axes.set_yticks(places, [decimal(float(values[place])) for place in places])
    if ax is None:
        axes.set(xlabel="channel pairs", ylabel="component, by its λ", xticks=[])
    return axes


def scaled(matrix: Array) -> Array:
    """Components × channel pairs with each pair scaled to length 1 and its largest entry positive."""
    leading = matrix[np.abs(matrix).argmax(0), np.arange(matrix.shape[1])]
    norm = np.linalg.norm(matrix, axis=0)
    return np.asarray(matrix / np.where(norm > 0, norm, 1) * np.sign(leading))


def rank_over_depth(
    curves: Mapping[str, Values],
    *,
    ax: Axes | None = None,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    distance: bool = False,
) -> Axes:
    """A measure of rank after 0, 1, 2, … layers, a line for each method, on a logarithmic axis.

    Args:
        curves: label → [depth + 1], such as ``depth_study(...).effective_rank``.
        ax: axes to draw on.
        styles: label → what matplotlib's ``plot`` takes.
        distance: whether the curves are distances to rank one rather than ranks.
    """
    axes = _axes(ax)
    for place, (label, curve) in enumerate(curves.items()):
        style = {"color": CYCLE[place % len(CYCLE)], "linewidth": 1.6, "label": label, **(styles or {}).get(label, {})}
        axes.plot(np.maximum(_array(curve), FLOOR), **style)
        axes.set_xlim(0, len(_array(curve)) - 1)
    if distance:
        axes.set_yscale("log")
    else:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("layers")
    if ax is None:
        axes.set_ylabel("distance to rank one" if distance else "effective rank")
        axes.legend(frameon=False)
    return axes


def predicted_line(curve: Values, rate: float, floor: float = FLOOR) -> tuple[Array, Array]:
    """Layers and values of a line with slope `rate` of the logarithm, through the curve at a quarter of the depth."""
    values = _array(curve)
    level, start = np.arange(len(values)), len(values) // 4
    line = values[start] * np.exp(rate * (level - start))
    return level[line > floor], line[line > floor]


def graph(
    graph: "Graph",
    values: Values | None = None,
    *,
    ax: Axes | None = None,
    edges: Values | None = None,
    positions: Array | None = None,
) -> Axes:
    """A graph, its nodes coloured by a signal and its edges by weights: red above zero, blue below.

    Args:
        graph: to draw; a few hundred nodes can be seen.
        values: [N] of the nodes.
        ax: axes to draw on.
        edges: [E] of the edges, in the graph's order.
        positions: [N, 2]; by default a force layout, which is the same every time.
    """
    axes = _axes(ax)
    place = layout(graph) if positions is None else positions
    apart = _array(graph.src != graph.dst)
    lines = LineCollection(list(place[_array(graph.edge_index).T[apart]]), linewidths=0.7, zorder=1)
    if edges is None:
        lines.set_color("#c4c4c4")
    else:
        weights = _array(edges)[apart]
        largest = float(np.abs(weights).max(initial=0)) or 1.0
        lines.set(array=weights, cmap=DIVERGING, clim=(-largest, largest), linewidth=1.4)
    axes.add_collection(lines)
    dots: dict[str, Any] = {"s": max(10, 2200 / len(place)), "edgecolors": INK, "linewidths": 0.6, "zorder": 2}
    if values is None:
        dots |= {"color": INK if edges is None else "#ffffff"}
    else:
        signal = _array(values)
        largest = float(np.abs(signal).max())
        dots |= {"c": signal, "cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    axes.scatter(place[:, 0], place[:, 1], **dots)
    axes.margins(0.06)
    axes.axis("off")
    return axes


def coefficients(
    layer: "torch.nn.Module",
    x: "torch.Tensor",
    graph: "Graph",
    head: int = 0,
    *,
    ax: Axes | None = None,
    positions: Array | None = None,
) -> Axes:
    """The edge weights α of one of a layer's K computational graphs, on the drawn graph.

    Args:
        layer: with ``operator(x, graph)``, as `mimogc.nn.LMGConv` has.
        x: [N, F] features, on which the weights depend.
        graph: of the features.
        head: which of the K graphs.
        ax: axes to draw on.
        positions: [N, 2] of the nodes.
    """
    operator = cast(Any, layer).operator(x, graph)
    heads = operator.alpha.size(1)
    if not 0 <= head < heads:
        raise ValueError(f"head: expected 0 to {heads - 1}, got {head}")
    place = layout(graph) if positions is None else positions
    axes = _graph(operator.graph, None, ax=ax, edges=operator.alpha[:, head], positions=place)
    if ax is None:
        axes.set_title(f"α of graph {head + 1} of {heads}")
    return axes


_graph = graph  # whose name is that of an argument there


@functools.lru_cache(maxsize=8)
def layout(graph: "Graph") -> Array:
    """[N, 2]: where nodes are drawn, by a force layout."""
    import networkx

    drawn = networkx.Graph(graph.edge_index.T.tolist())
    drawn.add_nodes_from(range(graph.num_nodes))
    found = networkx.spring_layout(drawn, seed=0)
    return np.array([found[node] for node in range(graph.num_nodes)])


def training_curves(
    records: "Iterable[Record]",
    metric: str,
    *,
    ax: Axes | None = None,
    by: str = "method",
    colors: Mapping[str, Color] | None = None,
) -> Axes:
    """A metric over the epochs or steps of stored runs, a line for each run; of errors on logarithmic axes.

    Args:
        records: such as ``Store(path).records("zinc12k")``; those without the curve are left out.
        metric: the name of the curve, such as ``"val_mae"``.
        ax: axes to draw on.
        by: what of a run gives the colour: "method", "dataset", "variant", "seed" or "split".
        colors: of each.
    """
    records = list(records)
    if by not in GROUPS:
        raise ValueError(f"by: expected one of {', '.join(GROUPS)}, got {by!r}")
    known = sorted({name for record in records for name in record.outcome.curves} - set(AXES))
    if not records:
        raise ValueError("records: expected at least one run, got none")
    if metric not in known:
        raise ValueError(f"metric: expected a curve that the runs have ({', '.join(known) or 'none'}), got {metric!r}")
    logarithmic = any(word in metric for word in ERRORS)
    axes, seen = _axes(ax), dict[str, Color]()
    for record in records:
        found = record.outcome.curves
        over = next((name for name in AXES if name in found), "")
        if metric not in found:
            continue
        series = str(getattr(record.run, by))
        x: Sequence[float] | range = found[over] if over else range(len(found[metric]))
        y: Sequence[float] = found[metric]
        if logarithmic:
            x, y = visible(x, y)
        color = (colors or {}).get(series) or seen.get(series) or CYCLE[len(seen) % len(CYCLE)]
        axes.plot(x, y, color=color, linewidth=1.2, alpha=0.85, label=None if series in seen else series)
        seen[series] = color
        axes.set_xlabel(over)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    if ax is None:
        axes.set_ylabel(metric.replace("_", " "))
        axes.legend(frameon=False)
    return axes


def visible(x: Sequence[float] | range, y: Sequence[float]) -> tuple[list[float], list[float]]:
    """The points that logarithmic axes can show."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if np.isfinite(b) and b > 0]
    return [a for a, _ in points], [b for _, b in points]


def decimal(value: float, digits: int = 2) -> str:
    """With a minus sign in place of a hyphen."""
    return f"{value:.{digits}f}".replace("-", "−")
