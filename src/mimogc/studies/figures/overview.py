"""The map of special cases, the paper's figure 1 drawn from what the code contains."""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from mimogc.nn.coefficients import BY_NAME
from mimogc.plot import ACCENT, FAINT, INK
from mimogc.studies.figures.catalog import Numbers
from mimogc.studies.figures.style import DERIVED, EXISTING, canvas

_WIDTH, _HEIGHT = 2.35, 0.86  # of a box, in the units of the axes


@dataclass(frozen=True)
class Box:
    """A form of the convolution: where it is on the map, its formula, and its name in the code."""

    x: float
    y: float
    formula: str
    code: str
    derived: bool = False  # by the paper, in contrast to what was there before


_MAP = json.loads(Path(__file__).with_name("special_cases.json").read_text(encoding="utf-8"))
BOXES = {name: Box(**box) for name, box in _MAP["boxes"].items()}
ARROWS: dict[str, str] = _MAP["arrows"]


def special_cases(numbers: Numbers) -> Canvas:
    """Boxes are forms of the convolution, arrows lead to their special cases, with the measured difference."""
    figure, axes = canvas(1, 1, 4.9)
    sheet: Axes = axes[0][0]
    sheet.set_xlim(0, 9.5)
    sheet.set_ylim(-0.05, 5.15)
    sheet.axis("off")
    for x, title in ((1.45, "graph convolution"), (4.75, "polynomials"), (8.05, "message passing")):
        sheet.text(x, 4.95, title, ha="center", va="center", fontweight="bold")
    for name, text in ARROWS.items():
        _arrow(sheet, name, f"{text}\n{_difference(numbers[name][0])}")
    _equal(sheet, numbers["siso → channel pairs"][0])
    for box in BOXES.values():
        _box(sheet, box)
    sheet.text(0.06, 4.1, "SISO", rotation=90, ha="center", va="center", color=FAINT, fontweight="bold")
    sheet.text(0.06, 1.8, "MIMO", rotation=90, ha="center", va="center", color=FAINT, fontweight="bold")
    names = textwrap.fill(f"coefficients: {', '.join(BY_NAME)}", 36)
    sheet.text(8.05, 0.46, names, ha="center", va="top", fontsize=7.5, color=INK)
    return figure


def _box(sheet: Axes, box: Box) -> None:
    corner, shape = (box.x - _WIDTH / 2, box.y - _HEIGHT / 2), "round,pad=0.02,rounding_size=0.14"
    face, edge = (DERIVED, ACCENT) if box.derived else (EXISTING, "#d8c48a")
    sheet.add_patch(FancyBboxPatch(corner, _WIDTH, _HEIGHT, boxstyle=shape, facecolor=face, edgecolor=edge))
    sheet.text(box.x, box.y + 0.13, box.formula, ha="center", va="center", fontsize=10)
    sheet.text(box.x, box.y - 0.26, box.code, ha="center", va="center", fontsize=7.5, family="monospace")


def _arrow(sheet: Axes, name: str, text: str) -> None:
    source, target = (BOXES[end] for end in name.split(" → "))
    right = (target.x > source.x) - (target.x < source.x)
    up = (target.y > source.y) - (target.y < source.y)
    slanted = bool(right and up)
    start = (source.x + right * _WIDTH / 2, source.y + (0 if right else up * _HEIGHT / 2))
    stop = (target.x - right * _WIDTH / 2, target.y - (0 if right and not slanted else up * _HEIGHT / 2))
    if slanted:
        start, stop = (source.x + _WIDTH / 2, source.y + 0.2), (target.x - 0.4, target.y - _HEIGHT / 2)
    colour = ACCENT if source.derived else INK
    look: Any = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.4, "shrinkA": 2, "shrinkB": 2}
    sheet.add_patch(FancyArrowPatch(start, stop, color=colour, **look))
    middle = ((start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2)
    if right and not up:
        sheet.text(middle[0], middle[1] + 0.06, text, ha="center", va="bottom", fontsize=7, color=colour)
    else:
        middle = (middle[0] + 0.36, middle[1] - 0.06) if slanted else (middle[0] + 0.12, middle[1])
        sheet.text(middle[0], middle[1], text, ha="left", va="center", fontsize=7, color=colour)


def _equal(sheet: Axes, difference: float) -> None:
    x, y = BOXES["mimo-gc"].x, (BOXES["mimo-gc"].y + BOXES["channel pairs"].y) / 2
    sheet.text(x, y, "=", ha="center", va="center", fontsize=15, color=ACCENT)
    sheet.text(x + 0.2, y, f"Theorem 1\n{_difference(difference)}", va="center", fontsize=7, color=ACCENT)


def _difference(value: float) -> str:
    return "exact" if value == 0 else f"differs by {value:.0e}"
