"""Prints what limits the gradient of deep plain stacks: calibrated LMGC, without its scores, and a bare sum A x.

python benchmarks/gradient_limit.py      # a minute; root mean square of the gradient at the first layer over the last

All three keep features at unit scale in every layer. The second has fixed signed sums in the place of gates; the third
has no maps and no activation, so that what is left is the graph.
"""

import torch
from torch import Tensor

from mimogc import Graph
from mimogc.bench.ablation import changed
from mimogc.nn.coefficients import lmgc
from mimogc.ops import propagate
from mimogc.studies.figures.scales import CALIBRATED, WIDTH, graph_of, scales

DEPTHS = (4, 16, 64)


def of_the_sum(graph: Graph, depth: int) -> float:
    """The same ratio for x ← A x, divided by its root mean square after every layer."""
    torch.manual_seed(0)
    ones = graph.ones(torch.float64)

    def layer(x: Tensor) -> Tensor:
        out = propagate(ones, x[:, None], graph)
        return out / out.detach().square().mean().sqrt()

    first = out = layer(torch.randn(graph.num_nodes, WIDTH, dtype=torch.float64, requires_grad=True))
    for _ in range(depth - 1):
        out = layer(out)
    g = torch.randn_like(out)
    (at_first,) = torch.autograd.grad(out, first, g)
    return float(at_first.square().mean().sqrt() / g.square().mean().sqrt())


def row(dataset: str, title: str, ratios: list[float]) -> None:
    shown = (f"{depth} layers {ratio:.3g}" for depth, ratio in zip(DEPTHS, ratios, strict=True))
    print(f"{dataset:10s} {title:18s}", ", ".join(shown), flush=True)


def main() -> None:
    for dataset in ("synthetic", "zinc12k", "squirrel"):
        graph = graph_of(dataset).with_self_loops()
        for title, total in {"LMGC, calibrated": lmgc.SCORES, "without scores": 1e-6}.items():
            with changed(lmgc, "SCORES", total):
                row(dataset, title, [scales(CALIBRATED, depth, graph, 0)[1] for depth in DEPTHS])
        row(dataset, "the bare sum", [of_the_sum(graph, depth) for depth in DEPTHS])


if __name__ == "__main__":
    main()
