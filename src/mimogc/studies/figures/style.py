"""One look for all figures: fonts, colours, captions, and how a figure becomes files."""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

EXISTING, DERIVED = "#fdf3d0", "#fbdfe3"  # the paper's yellow and pink, paler
WIDTH = 9.0  # inches
STYLE: Any = matplotlib.rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)

_PAPER = "#0d1117"  # of dark pages
DARK: Any = {"figure.facecolor": _PAPER, "axes.facecolor": _PAPER, "savefig.facecolor": _PAPER, "text.color": "#e6edf3"}
DARK |= {f"{axis}tick.{part}": "#e6edf3" for axis in "xy" for part in ("color", "labelcolor")}
DARK |= {"axes.labelcolor": "#e6edf3", "axes.edgecolor": "#8b949e", "grid.color": "#30363d"}


def canvas(rows: int, columns: int, height: float, **options: Any) -> tuple[Canvas, Any]:
    """A figure of the common width and its axes, as a 2-d array; `height` in inches is that of the axes alone."""
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, height), squeeze=False, layout="constrained", **options)
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
