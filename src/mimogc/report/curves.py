"""Loss curves as SVG that takes its colours from the page, so that one drawing serves light and dark."""

import html
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from mimogc import plot
from mimogc.report.names import in_order, label
from mimogc.runs.options import variant_title
from mimogc.runs.run import Record, Run
from mimogc.runs.study import Study

# Stand-ins that are replaced in the SVG: the colour of the text, of the grid, and of the methods in order.
INK, GRID = "#010203", "#010204"
SERIES = tuple(f"#0102{10 + i:02x}" for i in range(8))
COLORS = {INK: "currentColor", GRID: "var(--grid)", **{color: f"var(--series-{i})" for i, color in enumerate(SERIES)}}


@dataclass(frozen=True, slots=True)
class CurveFigure:
    """A drawing for the page: an ``<svg>`` element, its title, and the series it shows with their numbers."""

    title: str
    svg: str
    series: tuple[tuple[str, int], ...]


def universality(study: Study, selected: Sequence[Record]) -> list[CurveFigure]:
    """For each setting the error over the steps, every method at its best learning rate, one line per seed."""
    titles = {"n64": "n = 64", "n64-decay": "n = 64, learning rate decay", "n16": "n = 16"}
    titles |= {"released": "as released, n = 64", "released-n16": "as released, n = 16"}
    panels = _panels(selected, lambda run: titles.get(run.variant, run.variant))
    return loss_curves(panels, "mse", "mean squared error")


def by_dataset(study: Study, selected: Sequence[Record]) -> list[CurveFigure]:
    """For each dataset the training loss over the epochs on the first split, one line per repeat."""
    first = [record for record in selected if record.run.split == 0]
    datasets = {record.run.dataset for record in first}
    return loss_curves(_panels(first, lambda run: label(run.dataset, datasets)), "loss", "training loss")


def by_variant(study: Study, selected: Sequence[Record]) -> list[CurveFigure]:
    """For each variant the validation error over the epochs, one line per seed."""

    def title(run: Run) -> str:
        return f"{label(run.dataset)}, {variant_title(run.variant, study.unusual(run.hparams))}"

    return loss_curves(_panels(selected, title), "val_mae", "mean absolute error")


def _panels(records: Iterable[Record], title: Callable[[Run], str]) -> dict[str, list[Record]]:
    panels: dict[str, list[Record]] = {}
    for record in records:
        panels.setdefault(title(record.run), []).append(record)
    return panels


def standalone(figure: CurveFigure) -> str:
    """The drawing as a file of its own, with its title, the names of the series and the page's light colours."""
    style = Path(__file__).with_name("templates").joinpath("style.css").read_text(encoding="utf-8")
    light = style[: style.index("}") + 1]
    lines = [
        (figure.title, "--ink"),
        *((label(name, dict(figure.series)), f"--series-{i}") for name, i in figure.series),
    ]
    names = "".join(
        f'<text x="21%" y="{58 + 5 * place}%" '
        f'style="font: 600 10px var(--sans); fill: var({color})">{html.escape(text)}</text>'
        for place, (text, color) in enumerate(lines)
    )
    head, _, rest = figure.svg.partition(">")
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    body = rest.removesuffix("</svg>")
    return f"{head}><style>{light.replace('light dark', 'light')}</style>{ground}{body}{names}</svg>\n"


def loss_curves(panels: Mapping[str, Sequence[Record]], metric: str, y: str) -> list[CurveFigure]:
    """A figure for each panel that has runs with the curve, on logarithmic axes with one common vertical range.

    Args:
        panels: title and runs of each; those of one method share a colour.
        metric: the curve.
        y: label of the vertical axis.
    """
    drawn = {title: [r for r in records if _visible(r, metric)] for title, records in panels.items()}
    order = in_order(record.run.method for records in drawn.values() for record in records)
    colors = {name: SERIES[place % len(SERIES)] for place, name in enumerate(order)}
    axes = {}
    for title, records in drawn.items():
        if records:
            axes[title] = Canvas(figsize=(4.4, 3.2), layout="constrained").add_subplot()
            records = sorted(records, key=lambda record: order.index(record.run.method))
            plot.training_curves(records, metric, ax=axes[title], colors=colors)
            _frame(axes[title], y)
    heights = [height for records in drawn.values() for record in records for height in _visible(record, metric)]
    figures = []
    for title, one in axes.items():
        one.set_ylim(min(heights) / 3, max(heights) * 3)
        present = {record.run.method for record in drawn[title]}
        numbered = tuple((name, i % len(SERIES)) for i, name in enumerate(order) if name in present)
        figures.append(CurveFigure(title, _svg(one.figure, title), numbered))
    return figures


def _visible(record: Record, metric: str) -> list[float]:
    """What can be seen of a curve on a logarithmic axis."""
    curve = record.outcome.curves.get(metric, [])
    return plot.visible(range(len(curve)), curve)[1]


def _frame(axes: Axes, y: str) -> None:
    axes.xaxis.label.set_color(INK)
    axes.set_ylabel(y, color=INK)
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.tick_params(which="both", colors=INK, labelsize=9, length=0)
    axes.spines[:].set_visible(False)


def _svg(canvas: Any, title: str) -> str:
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
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)
