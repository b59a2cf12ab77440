"""How the figures are drawn, each from its numbers alone."""

from collections import Counter
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Canvas

from mimogc import plot
from mimogc.plot import ACCENT, INK, decimal
from mimogc.studies.figures.catalog import Numbers
from mimogc.studies.figures.measure import AMPLIFICATION_WIDTH, shown
from mimogc.studies.figures.style import canvas, heading

# Colour is the family of a method, dashes tell its members apart.
COLOURS = {
    "one graph": "#2b6cb0",
    "softmax heads": "#d97706",
    "one eigenbasis": "#7b4ea3",
    "not linear": "#8a8a8a",
    "graphs of their own": "#2f855a",
    "LMGC": ACCENT,
    "all components": INK,
}
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


def _styles() -> dict[str, dict[str, Any]]:
    """Label and line of each method."""
    styles: dict[str, dict[str, Any]] = {}
    members = Counter[str]()
    for name, item in shown().items():
        dashes = DASHES[members[item.family] % len(DASHES)]
        width = 2.2 if item.family in ("LMGC", "all components") else 1.3
        styles[name] = {"label": item.label, "color": COLOURS[item.family], "linestyle": dashes, "linewidth": width}
        members[item.family] += 1
    return styles


def filters(numbers: Numbers) -> Canvas:
    """Three filters over the eigenvalues of A_sym, one panel each."""
    names = [name for name in numbers if name != "lambda"]
    figure, axes = canvas(1, len(names), 2.4, sharex=True)
    for panel, name in zip(axes[0], names, strict=True):
        plot.filter_response(numbers["lambda"], numbers[name], ax=panel)
        heading(panel, name)
        panel.set_xlabel("eigenvalue λ of $A_{sym}$")
        panel.set_xlim(-1.05, 1.05)
    axes[0][0].set_ylabel("filter F(θ)")
    return figure


def amplification(numbers: Numbers) -> Canvas:
    """A heat map per method: components × channel pairs, each pair scaled to unit length."""
    methods = [key.removesuffix(" amplification") for key in numbers if key.endswith(" amplification")]
    columns = (len(methods) + 1) // 2
    figure, axes = canvas(2, columns, 6.4, sharex=True, sharey=True)
    values = np.array(numbers["lambda"])
    labels = {name: item.label for name, item in shown().items()}
    image = None
    for panel, method in zip(axes.flat, methods, strict=False):
        shape = (len(values), AMPLIFICATION_WIDTH**2)
        matrix = np.array(numbers[f"{method} amplification"]).reshape(shape)
        image = plot.amplification(matrix, values, ax=panel, limit=0.6, ticks=3).images[0]
        rank, _, coupled = numbers[f"{method} ranks and coupling"]
        title = f"{labels.get(method, method)}\nrank {rank:.0f}, coupling {coupled:.2f}"
        panel.set_title(title, loc="left", fontsize=8.5, color=ACCENT if rank == 1 else INK)
        panel.set_xticks([])
    for panel in axes.flat[len(methods) :]:
        panel.set_visible(False)
    for panel in axes[:, 0]:
        panel.set_ylabel("component, by its λ")
    for panel in axes[1]:
        panel.set_xlabel("16 channel pairs")
    if image is not None:
        label = "amplification, each channel pair scaled to length 1"
        figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, label=label)
    return figure


def depth(numbers: Numbers) -> Canvas:
    """Effective rank and rank-one distance against depth."""
    figure, axes = canvas(1, 2, 3.4)
    # Stored numbers may be older than a method.
    styles = {name: style for name, style in _styles().items() if f"{name} effective rank" in numbers}
    quantities = {"effective rank": "effective rank", "rank-one distance": "distance to rank one"}
    for panel, (key, title) in zip(axes[0], quantities.items(), strict=True):
        curves = {method: numbers[f"{method} {key}"] for method in styles}
        plot.rank_over_depth(curves, ax=panel, styles=styles, distance=key == "rank-one distance")
        heading(panel, title)
    rate = numbers["gcn predicted rate"][0]
    line = plot.predicted_line(numbers["gcn rank-one distance"], rate)
    axes[0][1].plot(*line, color=INK, linewidth=0.8, linestyle=(0, (6, 3)))
    note = f"thin line: predicted for GCN, {decimal(rate, 3)} per layer"
    axes[0][1].text(0.02, 0.03, note, transform=axes[0][1].transAxes, fontsize=8, color="#555555")
    axes[0][1].set_ylim(bottom=1e-18)  # room for the note below the rounding errors
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, fontsize=8, handlelength=2.6)
    return figure


# Readable on white and on black, and apart without red-green vision
FOUR = {"lmgc": ("LMGC, four graphs", "#e0506f"), "acm": ("ACM, one eigenbasis", "#8f7bd6")}
FOUR |= {"gatv2": ("GATv2, softmax heads", "#d9862b"), "gcn": ("GCN, one graph", "#3f8fd6")}


def rank(numbers: Numbers) -> Canvas:
    """Effective rank against depth for four methods."""
    figure, axes = plt.subplots(figsize=(7.5, 2.9), layout="constrained")
    curves = {label: numbers[f"{name} effective rank"] for name, (label, _) in FOUR.items()}
    styles = {label: {"color": color, "linewidth": 1.8} for label, color in FOUR.values()}
    plot.rank_over_depth(curves, ax=axes, styles=styles)
    figure.legend(loc="outside upper center", ncols=4, fontsize=9.5, labelcolor="linecolor", handlelength=1.4)
    axes.set_ylabel("effective rank")
    axes.set_yticks([1, 2, 4, 8, 16])
    axes.set_ylim(0.93, 17)
    return figure
