"""What every rank of test_ranks.py does: each case on its part of a graph and on the whole, and how far they differ.

Rank 0 writes {case: difference} as JSON to the file that is named.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, distributed
from torch.nn import functional as F

from mimogc import Graph
from mimogc.distributed import PartitionedGraph, cut, group, sum_gradients
from mimogc.distributed.group import rank, size
from mimogc.models import NodeClassifier
from mimogc.nn import ACMConv, GINLayer, LMGConv, PolynomialConv, calibrate
from mimogc.nn.coefficients import GATv2

NODES = 60
# By the number of ranks: uneven; the last nodes have no edges into them; of four ranks, one has no nodes.
BOUNDS = {1: [0, 60], 2: [0, 45, 60], 3: [0, 5, 45, 60], 4: [0, 5, 45, 45, 60]}
PRESETS = ("lmgc", "eq12", "gcn", "gat", "gatv2", "fagcn", "acm", "gated", "sheaf", "lmgc-sym")
Layer = Callable[[], torch.nn.Module]


def edges_of(nodes: int, count: int, targets: int) -> Tensor:
    """Directed, with loops and duplicates; hubs among the sources."""
    src = (torch.rand(count).pow(2) * nodes).long()
    return torch.stack([src, torch.randint(0, targets, (count,))])


def on_both(
    make: Layer, edges: Tensor, bounds: Tensor, features: int, dtype: torch.dtype = torch.float64, **attributes: Tensor
) -> float:
    """The largest difference of outputs, gradients to x and gradients of the parameters."""
    nodes, (first, last) = int(bounds[-1]), bounds[rank() : rank() + 2].tolist()
    torch.manual_seed(1)
    layer = make().to(dtype)
    x, g = torch.randn(nodes, features, dtype=dtype), torch.randn(nodes, 1, dtype=dtype)
    mine = (edges[1] >= first) & (edges[1] < last)
    own = {name: value[mine] for name, value in attributes.items()}
    part = PartitionedGraph.from_edge_index(edges[:, mine], bounds, own.get("edge_attr"))
    whole = Graph.from_edge_index(edges, nodes, attributes.get("edge_attr"))
    found = []
    for graph, rows in ((whole, slice(0, nodes)), (part, slice(first, last))):
        layer.zero_grad()
        leaf = x[rows].clone().requires_grad_()
        out = layer(leaf, graph)
        (out * g[rows]).sum().backward()
        if graph is part:
            sum_gradients(layer.parameters())
        found.append([out.detach(), leaf.grad, *[p.grad.clone() for p in layer.parameters() if p.grad is not None]])
    (out, grad, *others), (own_out, own_grad, *own_others) = found
    pairs = [(out[first:last], own_out), (grad[first:last], own_grad), *zip(others, own_others, strict=True)]
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1)) if a.numel() else 0.0 for a, b in pairs)


def second_derivative(edges: Tensor, bounds: Tensor) -> float:
    nodes, (first, last) = int(bounds[-1]), bounds[rank() : rank() + 2].tolist()
    torch.manual_seed(2)
    layer = LMGConv(6, 6).double()
    x, v = torch.randn(nodes, 6, dtype=torch.float64), torch.randn(nodes, 6, dtype=torch.float64)
    mine = (edges[1] >= first) & (edges[1] < last)
    part, whole = PartitionedGraph.from_edge_index(edges[:, mine], bounds), Graph.from_edge_index(edges, nodes)
    found = []
    for graph, rows in ((whole, slice(0, nodes)), (part, slice(first, last))):
        leaf = x[rows].clone().requires_grad_()
        (once,) = torch.autograd.grad(layer(leaf, graph).square().sum(), leaf, create_graph=True)
        found.append(torch.autograd.grad((once * v[rows]).sum(), leaf)[0])
    a, b = found[0][first:last], found[1]
    return float((a - b).abs().max() / found[0].abs().max()) if b.numel() else 0.0


def training(method: str, edges: Tensor, bounds: Tensor, batch_norm: bool = False) -> float:
    """Ten steps of a model of two layers, calibrated where that is usual: losses, parameters, buffers and scores."""
    nodes, (first, last) = int(bounds[-1]), bounds[rank() : rank() + 2].tolist()
    torch.manual_seed(3)
    x, y = torch.randn(nodes, 9, dtype=torch.float64), torch.randint(0, 3, (nodes,))
    gain = 0.5 if method == "lmgc" else "auto"
    start = NodeClassifier(9, 8, 3, method, gain=gain, batch_norm=batch_norm).double().state_dict()
    mine = (edges[1] >= first) & (edges[1] < last)
    part, whole = PartitionedGraph.from_edge_index(edges[:, mine], bounds), Graph.from_edge_index(edges, nodes)
    ends = []
    for graph, rows in ((whole, slice(0, nodes)), (part, slice(first, last))):
        model = NodeClassifier(9, 8, 3, method, gain=gain, batch_norm=batch_norm).double()
        model.load_state_dict(start)
        if method == "lmgc":
            calibrate(model, x[rows], graph)
        # The biases in front of a batch norm have no gradient but rounding, which Adam divides by its eps.
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-5 if batch_norm else 1e-8)
        losses = []
        for _ in range(10):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(x[rows], graph), y[rows], reduction="sum") / nodes
            loss.backward()
            if graph is part:
                sum_gradients(model.parameters())
            optimiser.step()
            losses.append(graph.total(loss))
        with torch.no_grad():
            scores = model.eval()(x[rows], graph)
        kept = [value.detach().double() for value in model.state_dict().values()]
        ends.append([torch.stack(losses).detach(), *kept, scores if graph is part else scores[first:last]])
    assert float(ends[0][0][-1]) < float(ends[0][0][0])
    return max(float((a - b).abs().max()) if a.numel() else 0.0 for a, b in zip(*ends, strict=True))


def bytes_exchanged(edges: Tensor, bounds: Tensor) -> float:
    """Sent and received of a layer with x in both directions, and of one with h, against the cut; 0 where equal."""
    first, last = bounds[rank() : rank() + 2].tolist()
    mine = (edges[1] >= first) & (edges[1] < last)
    rows = cut(edges, bounds)
    received, sent = int(rows[rank()].sum()), int(rows[:, rank()].sum())
    wrong = 0
    # 5 features and 24 numbers of h: x is fetched. 40 features and 8 of h: h is. Forward and backward move the same.
    for features, channels, width in ((5, 6, 5), (40, 2, 8)):
        part = PartitionedGraph.from_edge_index(edges[:, mine], bounds)
        x = torch.randn(last - first, features, requires_grad=True)
        LMGConv(features, channels)(x, part).sum().backward()
        expected = (0, 0) if size() == 1 else (4 * width * (sent + received),) * 2
        wrong += (part.traffic.sent, part.traffic.received) != expected
        wrong += size() > 1 and part.predicted_bytes(width, torch.float32) != (4 * width * sent, 4 * width * received)
    return float(wrong)


def cases() -> Iterator[tuple[str, Callable[[], float]]]:
    bounds = torch.tensor(BOUNDS[size()])
    torch.manual_seed(0)
    edges, weight, features = edges_of(NODES, 400, 45), torch.rand(400).double() + 0.1, torch.randn(400, 3).double()
    many = edges_of(18_000, 180_000, 17_000)  # so large that rows of x are gathered, and not of h
    for name in PRESETS:
        yield name, lambda name=name: on_both(lambda: LMGConv(5, 6, coefficients=name), edges, bounds, 5)
        yield (
            f"{name} fetching h",
            lambda name=name: on_both(lambda: LMGConv(40, 2, coefficients=name), edges, bounds, 40),
        )
    for name in ("lmgc", "gatv2"):
        yield (
            f"{name} with edge features",
            lambda name=name: on_both(
                lambda: LMGConv(5, 6, coefficients=name, edge_dim=3), edges, bounds, 5, edge_attr=features
            ),
        )
    for name in ("gcn", "acm"):
        yield (
            f"{name} with weights",
            lambda name=name: on_both(lambda: LMGConv(5, 6, coefficients=name), edges, bounds, 5, edge_attr=weight),
        )
    layers: dict[str, Layer] = {
        "without loops": lambda: LMGConv(5, 6, add_self_loops=False),
        "mean and residual": lambda: LMGConv(5, 6, combine="mean", residual=True, affine=True),
        "concat": lambda: LMGConv(5, 6, combine="concat"),
        "pair": lambda: LMGConv((5, 5), 6),
        "gatv2 of two maps": lambda: LMGConv(5, 6, coefficients=GATv2(5, 6, share_weights=False)),
        "gin": lambda: GINLayer(5, 6),
        "gated acm": lambda: ACMConv(5, 6),
        "chebyshev": lambda: PolynomialConv(5, 6, 3, "chebyshev"),
    }
    for name, make in layers.items():
        yield name, lambda make=make: on_both(make, edges, bounds, 5)
    yield "second derivative", lambda: second_derivative(edges, bounds)
    for method in ("lmgc", "gcn", "gin", "gatv2"):
        yield f"training {method}", lambda method=method: training(method, edges, bounds)
    yield "training with batch norm", lambda: training("lmgc", edges, bounds, batch_norm=True)
    yield "bytes", lambda: bytes_exchanged(edges, bounds)
    wide = bounds * 300
    yield "large", lambda: on_both(lambda: LMGConv(32, 64), many, wide, 32)
    yield "large float32", lambda: on_both(lambda: LMGConv(32, 64), many, wide, 32, torch.float32)


def main(path: Path) -> None:
    torch.set_num_threads(1)
    with group():
        found = {}
        for name, differ in cases():
            worst = torch.tensor([differ()])
            if size() > 1:
                distributed.all_reduce(worst, distributed.ReduceOp.MAX)
            found[name] = float(worst)
        if rank() == 0:
            path.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
