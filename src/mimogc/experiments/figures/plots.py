"""How the figures are drawn, each from its numbers alone."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from mimogc.experiments.figures.measure import AMPLIFICATION_WIDTH, LABELS, Numbers
from mimogc.experiments.figures.style import ACCENT, FAINT, INK, canvas, heading

# Methods by what their graphs have in common: colour is the family, dashes tell its members apart.
FAMILIES = {
    "one graph": ("#2b6cb0", ("gcn", "fagcn", "lmgc1")),
    "softmax heads": ("#d97706", ("gat", "gatv2")),
    "one eigenbasis": ("#7b4ea3", ("acm", "chebyshev")),
    "not linear": ("#8a8a8a", ("gin",)),
    "graphs of their own": ("#2f855a", ("gated", "sheaf")),
    "LMGC": (ACCENT, ("lmgc",)),
    "all components": (INK, ("mimogc",)),
}
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


def filters(numbers: Numbers) -> Canvas:
    """Three filters over the eigenvalues of A_sym, one panel each."""
    names = [name for name in numbers if name != "lambda"]
    figure, axes = canvas(1, len(names), 2.4, sharex=True)
    for panel, name in zip(axes[0], names, strict=True):
        panel.axhline(0, color=FAINT, linewidth=0.8)
        panel.vlines(numbers["lambda"], 0, numbers[name], color="#2b6cb0", linewidth=0.9, alpha=0.55)
        panel.plot(numbers["lambda"], numbers[name], "o", color="#2b6cb0", markersize=3)
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
    image = None
    for panel, method in zip(axes.flat, methods, strict=False):
        shape = (len(values), AMPLIFICATION_WIDTH**2)
        matrix = np.array(numbers[f"{method} amplification"]).reshape(shape)
        leading = matrix[np.abs(matrix).argmax(0), np.arange(shape[1])]
        matrix = matrix / np.linalg.norm(matrix, axis=0) * np.sign(leading)
        image = panel.imshow(
            matrix, cmap="RdBu_r", vmin=-0.6, vmax=0.6, aspect="auto", interpolation="nearest"
        )
        rank, _, coupled = numbers[f"{method} ranks and coupling"]
        panel.set_title(
            f"{LABELS[method]}\nrank {rank:.0f}, coupling {coupled:.2f}",
            loc="left",
            fontsize=8.5,
            color=ACCENT if rank == 1 else INK,
        )
        panel.grid(False)
        panel.set_xticks([])
        ticks = [0, len(values) // 2, len(values) - 1]
        panel.set_yticks(ticks, [f"{values[tick]:.2f}".replace("-", "−") for tick in ticks])
    for panel in axes.flat[len(methods) :]:
        panel.set_visible(False)
    for panel in axes[:, 0]:
        panel.set_ylabel("component, by its λ")
    for panel in axes[1]:
        panel.set_xlabel("16 channel pairs")
    if image is not None:
        figure.colorbar(
            image, ax=axes, shrink=0.6, aspect=30, label="amplification, each channel pair scaled to length 1"
        )
    return figure


def depth(numbers: Numbers) -> Canvas:
    """Effective rank and rank-one distance against depth."""
    figure, axes = canvas(1, 2, 3.4)
    quantities = {"effective rank": "effective rank", "rank-one distance": "distance to rank one"}
    for panel, (key, title) in zip(axes[0], quantities.items(), strict=True):
        for colour, members in FAMILIES.values():
            for dashes, method in zip(DASHES, members, strict=False):
                curve = np.array(numbers[f"{method} {key}"])
                width = 2.2 if method in ("lmgc", "mimogc") else 1.3
                panel.plot(np.maximum(curve, 1e-16), color=colour, linestyle=dashes, linewidth=width)
        heading(panel, title)
        panel.set_xlabel("layers")
        panel.set_xlim(0, len(curve) - 1)
    _predicted(axes[0][1], numbers)
    axes[0][0].set_yscale("log", base=2)
    axes[0][0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[0][1].set_yscale("log")
    axes[0][1].set_ylim(bottom=1e-18)  # room for the note below the rounding errors
    _legend(figure)
    return figure


def _predicted(panel: Axes, numbers: Numbers) -> None:
    """A line of the slope predicted for the GCN, through its curve at a quarter of the depth."""
    curve, rate = numbers["gcn rank-one distance"], numbers["gcn predicted rate"][0]
    start = len(curve) // 4
    level = np.arange(len(curve))
    line = curve[start] * np.exp(rate * (level - start))
    seen = line > 1e-16
    panel.plot(level[seen], line[seen], color=INK, linewidth=0.8, linestyle=(0, (6, 3)))
    panel.text(
        0.02, 0.03, f"thin line: predicted for GCN, {rate:.3f} per layer".replace("-", "−"),
        transform=panel.transAxes, fontsize=8, color="#555555",
    )  # fmt: skip


def _legend(figure: Canvas) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dashes, linewidth=2.2 if method in ("lmgc", "mimogc") else 1.3,
               label=LABELS[method])
        for colour, members in FAMILIES.values()
        for dashes, method in zip(DASHES, members, strict=False)
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=6, fontsize=8, handlelength=2.6)
