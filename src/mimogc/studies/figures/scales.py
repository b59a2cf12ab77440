"""The scale of features and gradients over depth, at the start of training: numbers and picture."""

import math
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure as Canvas
from torch import Tensor
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.methods import method
from mimogc.nn import calibrate
from mimogc.plot import ACCENT, FAINT
from mimogc.studies.figures.catalog import Numbers, Progress
from mimogc.studies.figures.measure import synthetic_graph
from mimogc.studies.figures.style import canvas, heading

WIDTH, SEEDS, MOLECULES = 64, 3, 32
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
# Label → method, and colour, dashes and width of its line; the first is calibrated
CALIBRATED = "LMGC, calibrated"
LINES: dict[str, tuple[str, str, Any, float]] = {
    CALIBRATED: ("lmgc", ACCENT, "-", 2.4),
    "LMGC": ("lmgc", ACCENT, (0, (4, 1.5)), 1.6),
    "eq. 12": ("eq12", "#2f855a", "-", 1.4),
    "GATv2": ("gatv2", "#d97706", "-", 1.4),
    "GIN": ("gin", "#8a8a8a", "-", 1.4),
    "GCN": ("gcn", "#2b6cb0", "-", 1.4),
}


class Stack(torch.nn.Module):
    """Layers with GELU between them; `outputs` keeps what each layer gave in the last pass."""

    def __init__(self, label: str, depth: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(method(LINES[label][0]).build(WIDTH) for _ in range(depth))
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        self.outputs = []
        for layer in self.layers:
            self.outputs.append(layer(x, graph))
            x = F.gelu(self.outputs[-1])
        return x


def scales(label: str, depth: int, graph: Graph, seed: int) -> tuple[float, float]:
    """The std of the features after `depth` layers, and the gradient at the first layer relative to that at the last.

    Features start as N(0, 1) and so does the gradient at the end; gradients are those to the layers' outputs, as root
    mean squares.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.randn(graph.num_nodes, WIDTH)
        model = Stack(label, depth)
        if label == CALIBRATED:
            calibrate(model, x, graph)
        end = model(x, graph)
        ends = (model.outputs[0], model.outputs[-1])
        first, last = torch.autograd.grad(end, ends, torch.randn_like(end))
    ratio = first.double().square().mean() / last.double().square().mean()
    return float(end.detach().std()), math.sqrt(float(ratio))


def graph_of(dataset: str) -> Graph:
    """A random graph, a batch of molecules, or a dataset's graph."""
    if dataset == "synthetic":
        return synthetic_graph(64, 0.1)
    from mimogc.data import load_molecules, load_nodes

    if dataset != "zinc12k":
        return load_nodes(dataset).graph()
    molecules = load_molecules(dataset)
    return next(iter(molecules.batches(molecules.split("train")[:MOLECULES], MOLECULES, False))).graph


def measure(dataset: str, progress: Progress) -> Numbers:
    """For every method and depth the geometric mean over the seeds."""
    graph = graph_of(dataset).with_self_loops()
    numbers: Numbers = {"depth": [float(depth) for depth in DEPTHS]}
    seeds = 1 if graph.num_edges > 100_000 else SEEDS
    for done, label in enumerate(LINES):
        features, gradients = [], []
        for place, depth in enumerate(DEPTHS):
            pairs = [scales(label, depth, graph, seed) for seed in range(seeds)]
            features.append(_geometric_mean([pair[0] for pair in pairs]))
            gradients.append(_geometric_mean([pair[1] for pair in pairs]))
            progress((done + (place + 1) / len(DEPTHS)) / len(LINES))
        numbers[f"{label} features"], numbers[f"{label} gradients"] = features, gradients
    return numbers


def _geometric_mean(values: list[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    return math.exp(sum(math.log(max(value, 1e-300)) for value in values) / len(values))


def plot(numbers: Numbers) -> Canvas:
    """Features on the left, gradients on the right, with the band of a factor of ten."""
    figure, axes = canvas(1, 2, 3.2)
    panels = {"features": "scale of the features", "gradients": "gradient at the first layer ÷ at the last"}
    for panel, (key, title) in zip(axes[0], panels.items(), strict=True):
        panel.axhspan(0.1, 10, color="#f3f3f3", zorder=0)
        panel.axhline(1, color=FAINT, linewidth=0.8)
        for label, (_, colour, dashes, width) in LINES.items():
            values = np.clip(np.array(numbers[f"{label} {key}"]), 1e-14, 1e14)
            panel.plot(numbers["depth"], values, color=colour, linestyle=dashes, linewidth=width, label=label)
        heading(panel, title)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_ylim(1e-10, 1e10)
        panel.set_xticks(numbers["depth"], [f"{depth:g}" for depth in numbers["depth"]])
        panel.set_xlabel("layers")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=6, fontsize=8)
    return figure
