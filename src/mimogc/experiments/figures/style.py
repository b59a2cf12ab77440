"""One look for all figures: fonts, colours, captions, and how a figure becomes files."""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

INK, FAINT, ACCENT = "#222222", "#8a8a8a", "#b5385a"
EXISTING, DERIVED = "#fdf3d0", "#fbdfe3"  # the paper's yellow and pink, paler
WIDTH = 9.0  # inches
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "svg.hashsalt": "mimogc",  # so that the same numbers give the same file
}


def canvas(rows: int, columns: int, height: float, **options: Any) -> tuple[Canvas, Any]:
    """A figure of the common width and its axes, as a 2-d array; `height` in inches is that of the axes alone."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, height), squeeze=False, layout="constrained", **options
    )
    return figure, axes


def heading(axes: Axes, text: str) -> None:
    """A panel's title, at its left edge."""
    axes.set_title(text, loc="left", fontweight="bold")


def add_caption(figure: Canvas, caption: str) -> None:
    """Make room below the panels and write the caption there."""
    lines = textwrap.wrap(caption, 144)
    height = figure.get_figheight()
    strip = 0.17 * len(lines) + 0.12
    figure.set_figheight(height + strip)
    engine: Any = figure.get_layout_engine()
    share = strip / (height + strip)
    engine.set(rect=(0, share, 1, 1 - share), w_pad=0.08, h_pad=0.08)
    top = share - 0.08 / (height + strip)
    figure.text(0.012, top, "\n".join(lines), va="top", fontsize=8, color="#555555")


def save(figure: Canvas, name: str, folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.png, and close the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=200)
    plt.close(figure)
    return paths
