"""The figures by name: what they show, how their numbers are measured, how they are drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mimogc._loading import load_object
from mimogc._texts import read_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Numbers = dict[str, list[float]]
Progress = Callable[[float], None]
DEPTH_WIDTH = 16  # channels of the layers in figures over depth
TEXTS = read_texts(Path(__file__).with_name("texts.md"))


@dataclass(frozen=True)
class Figure:
    """One figure. `numbers` may take minutes, `plot` is quick and needs nothing else."""

    title: str
    caption: str
    numbers: Callable[[Progress], Numbers]
    plot: str  # module:function in this package, imported when a figure is drawn
    dataset: str = "synthetic"
    dark: bool = False  # whether there is also one for dark pages, NAME-dark.svg, and no caption in the picture


def draw(name: str, folder: Path | str, numbers: Mapping[str, list[float]] | None = None) -> list[Path]:
    """Draw one figure as FOLDER/NAME.svg and NAME.png; from stored numbers where given, else measured now."""
    from matplotlib import pyplot as plt

    from mimogc.studies.figures import style

    if name not in FIGURES:
        raise ValueError(f"name: expected one of {', '.join(FIGURES)}, got {name!r}")
    values = dict(numbers) if numbers is not None else FIGURES[name].numbers(lambda fraction: None)
    with plt.rc_context(style.STYLE):
        files = style.save(picture(name, values), name, Path(folder))
        if FIGURES[name].dark:
            plt.rcParams.update(style.DARK)
            files += style.save(picture(name, values), f"{name}-dark", Path(folder))
    return files


def picture(name: str, numbers: Numbers) -> "Canvas":
    """The figure with its caption, ready to be saved."""
    from mimogc.studies.figures import style

    figure = FIGURES[name]
    canvas: Canvas = load_object("plot", f"mimogc.studies.figures.{figure.plot}")(numbers)
    if not figure.dark:
        style.add_caption(canvas, f"{figure.title}. {figure.caption}")
    return canvas


def _measured(name: str, progress: Progress) -> Numbers:
    """The numbers of a function of `measure`, which is imported when it is needed."""
    found: Numbers = load_object("numbers", f"mimogc.studies.figures.measure:{name}")(progress)
    return found


def _depth(dataset: str, layers: int, progress: Progress) -> Numbers:
    from mimogc.studies.figures import measure

    if dataset == "synthetic":
        import torch

        graph = measure.synthetic_graph(64, 0.1)
        x = torch.randn(64, DEPTH_WIDTH, generator=torch.Generator().manual_seed(0))
    else:
        from mimogc.data import load_nodes

        found = load_nodes(dataset)
        graph, x = found.graph(undirected=True), found.x
    return measure.depth(graph, x, layers, progress)


def _scales(dataset: str, progress: Progress) -> Numbers:
    from mimogc.studies.figures import scales

    return scales.measure(dataset, progress)


def _figure(
    key: str,
    plot: str,
    numbers: Callable[[Progress], Numbers],
    dataset: str = "synthetic",
    dark: bool = False,
    **fields: object,
) -> Figure:
    """A figure with the texts of `key`, whose fields are filled in."""
    title, caption = (text.format(width=DEPTH_WIDTH, **fields) for text in TEXTS[key])
    return Figure(title, caption, numbers, plot, dataset, dark)


_FIXED = {
    "random-filters": ("plots:filters", partial(_measured, "random_filters")),
    "chebyshev-filters": ("plots:filters", partial(_measured, "chebyshev_filters")),
    "gcn-filters": ("plots:filters", partial(_measured, "gcn_filters")),
    "repeated-gcn": ("plots:filters", partial(_measured, "repeated_gcn")),
    "special-cases": ("overview:special_cases", partial(_measured, "special_cases")),
    "amplification": ("plots:amplification", partial(_measured, "amplification")),
}
_RANDOM = "a connected Erdős–Rényi graph, n = 64, p = 0.1"
_DEPTHS = [
    ("synthetic", 128, _RANDOM),
    ("texas", 128, "Texas, made undirected"),
    ("chameleon", 64, "Chameleon, made undirected"),
]
_SCALES = [("synthetic", _RANDOM), ("zinc12k", "a batch of 32 molecules of ZINC12k"), ("squirrel", "Squirrel")]
FIGURES = {
    "rank": _figure("rank", "plots:rank", partial(_depth, "synthetic", 128), dark=True),
    **{key: _figure(key, *how) for key, how in _FIXED.items()},
    **{
        f"depth-{data}": _figure("depth", "plots:depth", partial(_depth, data, n), data, layers=n, where=where)
        for data, n, where in _DEPTHS
    },
    **{
        f"scale-{data}": _figure("scale", "scales:plot", partial(_scales, data), data, where=where)
        for data, where in _SCALES
    },
}
