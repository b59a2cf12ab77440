"""The figures by name: what they show, how their numbers are measured, how they are drawn."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mimogc.experiments.figures import measure
from mimogc.experiments.figures.measure import Numbers, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# λ of the synthetic graph of the filter figures.
_SAMPLE = "Eigenvalues of a connected Erdős–Rényi graph, n = 64, p = 0.1."


@dataclass(frozen=True)
class Figure:
    """One figure. `numbers` may take minutes, `plot` is quick and needs nothing else."""

    title: str
    caption: str
    numbers: Callable[[Progress], Numbers]
    plot: str  # module:function in this package, imported when a figure is drawn
    dataset: str = "synthetic"


def draw(name: str, folder: Path | str, numbers: Mapping[str, list[float]] | None = None) -> list[Path]:
    """Draw one figure as FOLDER/NAME.svg and NAME.png; from stored numbers where given, else measured now."""
    from matplotlib import pyplot as plt

    from mimogc.experiments.figures import style

    if name not in FIGURES:
        raise ValueError(f"name: expected one of {', '.join(FIGURES)}, got {name!r}")
    values = dict(numbers) if numbers is not None else FIGURES[name].numbers(lambda fraction: None)
    with plt.rc_context(style.STYLE):
        return style.save(picture(name, values), name, Path(folder))


def picture(name: str, numbers: Numbers) -> "Canvas":
    """The figure with its caption, ready to be saved."""
    import importlib

    from mimogc.experiments.figures import style

    figure = FIGURES[name]
    module, _, function = figure.plot.partition(":")
    plot = getattr(importlib.import_module(f"mimogc.experiments.figures.{module}"), function)
    canvas: Canvas = plot(numbers)
    style.add_caption(canvas, f"{figure.title}. {figure.caption}")
    return canvas


def _depth(dataset: str, layers: int, progress: Progress) -> Numbers:
    if dataset == "synthetic":
        import torch

        graph = measure.synthetic_graph(64, 0.1)
        x = torch.randn(64, measure.DEPTH_WIDTH, generator=torch.Generator().manual_seed(0))
    else:
        from mimogc.data import load_nodes

        found = load_nodes(dataset)
        graph, x = found.graph(undirected=True), found.x
    return measure.depth(graph, x, layers, progress)


def _depth_figure(dataset: str, layers: int, where: str) -> Figure:
    return Figure(
        f"Depth on {where}",
        f"Effective rank and distance to rank one of the features after up to {layers} random layers of "
        f"each method, {measure.DEPTH_WIDTH} channels, self-loops added, features rescaled after every "
        "layer. With one graph (blue), or several whose weights a softmax normalises (orange), features approach "
        "rank one. For the GCN theory gives the rate, from the spectral gap of the graph. Graphs that share one "
        "eigenbasis (purple) approach it too, more slowly. Several graphs with weights of their own (green, red), "
        "the exact MIMO-GC (black) and GIN (grey), which is not linear, keep more than one direction. One random "
        "draw per method.",
        functools.partial(_depth, dataset, layers),
        "plots:depth",
        dataset,
    )


def _scales(dataset: str, progress: Progress) -> Numbers:
    from mimogc.experiments.figures import scales

    return scales.measure(dataset, progress)


def _scale_figure(dataset: str, where: str) -> Figure:
    return Figure(
        f"Scales over depth on {where}",
        "Standard deviation of the features after up to 64 layers at the start of training, and the gradient at the "
        "first layer relative to that at the last, from random features and a random gradient; 64 channels, "
        "self-loops, GELU between the layers, no residual connections, no norm. The band is a factor of ten. The "
        "paper's eq. 12 grows without bound; LMGC with its offset holds the scale that `calibrate` gives it. GATv2, "
        "GIN and GCN are as usual.",
        functools.partial(_scales, dataset),
        "scales:plot",
        dataset,
    )


def _fixed(numbers: Callable[[], Numbers]) -> Callable[[Progress], Numbers]:
    return lambda progress: numbers()


FIGURES = {
    "random-filters": Figure(
        "Random filters of the general graph convolution",
        f"Each of the n components has a free factor F(θ). {_SAMPLE}",
        _fixed(measure.random_filters),
        "plots:filters",
    ),
    "chebyshev-filters": Figure(
        "Chebyshev filters",
        "F(θ) = Σ w_k T_k(λ) with random w and degree K: a polynomial of the eigenvalue, so neighbours on "
        f"the axis are amplified alike. {_SAMPLE}",
        _fixed(measure.chebyshev_filters),
        "plots:filters",
    ),
    "gcn-filters": Figure(
        "GCN filters",
        "F(θ) = w·λ: whatever w, the components keep their proportions. In the MIMO case this holds for "
        f"each pair of channels, which is shared component amplification. {_SAMPLE}",
        _fixed(measure.gcn_filters),
        "plots:filters",
    ),
    "repeated-gcn": Figure(
        "Repeated GCN filters",
        "The product of k filters w·λ with random w: the component of largest |λ| dominates all others. "
        f"{_SAMPLE}",
        _fixed(measure.repeated_gcn),
        "plots:filters",
    ),
    "special-cases": Figure(
        "The map of special cases",
        "The paper's figure 1 as the code contains it: yellow was there before, pink is the paper's. An "
        "arrow leads to a special case. The two sides of each were computed by different code on a random "
        "graph, and the largest difference is written beside it; for Definition 1, an LMGC on the "
        "complete graph with weights U_ik U_jk.",
        _fixed(measure.special_cases),
        "overview:special_cases",
    ),
    "amplification": Figure(
        "What one random layer does to each Fourier component",
        "Columns are pairs of input and output channel, rows are components from smooth (λ = 1) to rough. "
        "Equal columns mean shared component amplification: operator rank 1 (red). Coupling is the part "
        "of the layer that moves energy between components and is not in the picture. "
        "Erdős–Rényi graph, n = 24, four channels, no self-loops.",
        measure.amplification,
        "plots:amplification",
    ),
    "depth-synthetic": _depth_figure("synthetic", 128, "a connected Erdős–Rényi graph, n = 64, p = 0.1"),
    "depth-texas": _depth_figure("texas", 128, "Texas, made undirected"),
    "depth-chameleon": _depth_figure("chameleon", 64, "Chameleon, made undirected"),
    "scale-synthetic": _scale_figure("synthetic", "a connected Erdős–Rényi graph, n = 64, p = 0.1"),
    "scale-zinc12k": _scale_figure("zinc12k", "a batch of 32 molecules of ZINC12k"),
    "scale-squirrel": _scale_figure("squirrel", "Squirrel"),
}
