"""Loss curves as SVG that takes its colours from the page, so that one drawing serves light and dark."""

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from mimogc.experiments.run import Record
from mimogc.report.names import PAPER_METHODS, label

# Stand-ins that are replaced in the SVG: the colour of the text, of the grid, and of the methods in order.
INK, GRID = "#010203", "#010204"
SERIES = tuple(f"#0102{10 + i:02x}" for i in range(8))
COLORS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    **{color: f"var(--series-{i})" for i, color in enumerate(SERIES)},
}


@dataclass(frozen=True, slots=True)
class Line:
    """One run."""

    series: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing for the page: an ``<svg>`` element, its title, and the series it shows with their numbers."""

    title: str
    svg: str
    series: tuple[tuple[str, int], ...]


def universality(selected: Sequence[Record]) -> list[Figure]:
    """For each setting the error over the steps, every method at its best learning rate, one line per seed."""
    titles = {"n64": "n = 64", "n64-decay": "n = 64, learning rate decay", "n16": "n = 16"}
    panels = {title: _lines(selected, variant, "step", "mse") for variant, title in titles.items()}
    return loss_curves(
        panels, ("gatv2", "fagcn", "acm", "gin", "lmgc", "mimogc"), "step", "mean squared error"
    )


def by_dataset(selected: Sequence[Record]) -> list[Figure]:
    """For each dataset the training loss over the epochs on the first split, one line per repeat."""
    first = [record for record in selected if record.run.split == 0]
    methods = dict.fromkeys(record.run.method for record in first)
    order = (*PAPER_METHODS, *sorted(methods.keys() - set(PAPER_METHODS)))
    panels: dict[str, list[Line]] = {}
    for record in first:
        panels.setdefault(label(record.run.dataset), []).extend(
            _lines([record], record.run.variant, "epoch", "loss")
        )
    return loss_curves(panels, order, "epoch", "training loss")


def by_variant(selected: Sequence[Record]) -> list[Figure]:
    """For each variant the validation error over the epochs, one line per seed."""
    panels: dict[str, list[Line]] = {}
    for record in selected:
        title = f"{label(record.run.dataset)}, {record.run.variant}"
        panels.setdefault(title, []).extend(_lines([record], record.run.variant, "epoch", "val_mae"))
    return loss_curves(panels, PAPER_METHODS, "epoch", "mean absolute error")


def standalone(figure: Figure) -> str:
    """The drawing as a file of its own, with its title, the names of the series and the page's light colours."""
    style = Path(__file__).with_name("templates").joinpath("style.css").read_text(encoding="utf-8")
    light = style[: style.index("}") + 1]
    lines = [(figure.title, "--ink"), *((label(name), f"--series-{i}") for name, i in figure.series)]
    names = "".join(
        f'<text x="21%" y="{58 + 5 * place}%" '
        f'style="font: 600 10px var(--sans); fill: var({color})">{_attribute(text)}</text>'
        for place, (text, color) in enumerate(lines)
    )
    head, _, rest = figure.svg.partition(">")
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    body = rest.removesuffix("</svg>")
    return f"{head}><style>{light.replace('light dark', 'light')}</style>{ground}{body}{names}</svg>\n"


def _lines(records: Iterable[Record], variant: str, x: str, y: str) -> list[Line]:
    return [
        Line(record.run.method, record.outcome.curves[x], record.outcome.curves[y])
        for record in records
        if record.run.variant == variant and {x, y} <= record.outcome.curves.keys()
    ]


def loss_curves(panels: Mapping[str, Sequence[Line]], order: Sequence[str], x: str, y: str) -> list[Figure]:
    """A figure for each panel that has lines, on logarithmic axes with one common vertical range.

    Args:
        panels: title and lines of each; lines of the same series share a colour.
        order: of the series, which decides the colours.
        x: label of the horizontal axis.
        y: label of the vertical axis.
    """
    points = {title: [(line.series, _visible(line)) for line in lines] for title, lines in panels.items()}
    heights = [b for lines in points.values() for _, line in lines for _, b in line]
    figures = []
    for title, lines in points.items():
        if not lines or not heights:
            continue
        canvas = Canvas(figsize=(4.4, 3.2), layout="constrained")
        axes = canvas.add_subplot()
        _frame(axes, x, y)
        axes.set_ylim(min(heights) / 3, max(heights) * 3)
        for series, line in sorted(lines, key=lambda line: order.index(line[0])):
            color = SERIES[order.index(series) % len(SERIES)]
            axes.plot(*zip(*line, strict=True), color=color, linewidth=1.2, alpha=0.85)
        present = {series for series, _ in lines}
        numbered = tuple((name, i % len(SERIES)) for i, name in enumerate(order) if name in present)
        figures.append(Figure(title, _svg(canvas, title), numbered))
    return figures


def _visible(line: Line) -> list[tuple[float, float]]:
    """The points that a logarithmic axis can show."""
    return [(a, b) for a, b in zip(line.x, line.y, strict=True) if math.isfinite(b) and b > 0]


def _frame(axes: Axes, x: str, y: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.tick_params(which="both", colors=INK, labelsize=9, length=0)
    axes.spines[:].set_visible(False)


def _svg(canvas: Canvas, title: str) -> str:
    """The drawing as an inline element: text stays text, colours are the page's, ids are unlike those of others."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Only ids that something refers to, which hashsalt makes unique: a page has several drawings.
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if f"#{match[1]}" in svg else "", svg)
    for stand_in, color in COLORS.items():
        svg = svg.replace(stand_in, color)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px var(--sans)", svg)
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{_attribute(title)}" ', 1)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
