"""Every coefficient function of the study `instantiations` is what it says, starts at scale, and can be trained."""

from pathlib import Path

import pytest
import torch
from benchmarks.instantiations import BUDGET, FORMS, HEADS, STUDY
from torch import Tensor

from harness import Watch
from mimogc import Graph
from mimogc.models import num_parameters
from mimogc.nn import LMGConv, calibrate
from mimogc.nn.coefficients import Coefficients
from mimogc.runs import driver
from mimogc.runs.study import Options, complete


@pytest.fixture
def graph() -> Graph:
    return Graph.from_edge_index(torch.randint(0, 20, (2, 60)), 20, add_self_loops=True)


def score(conv: LMGConv, x: Tensor, graph: Graph) -> Tensor:
    """[E, K]: b + s + t, edge by edge."""
    h = torch.nn.functional.leaky_relu(conv.lin(x), 0.2)
    own = conv.coefficients
    both = torch.cat([h[graph.dst], h[graph.src]], dim=1)
    to_target, to_source = own.att.chunk(2)
    return own.offset + both @ torch.cat([to_target, to_source], dim=1).t()


def expected(name: str, conv: LMGConv, x: Tensor, graph: Graph) -> Tensor:
    h, own = conv.lin(x).view(20, HEADS, -1), conv.coefficients
    source, target = h[graph.src], h[graph.dst]
    same = graph.dst.unsqueeze(1) == graph.dst  # [E, E]: of one target
    match name:
        case "sigmoid":
            return torch.sigmoid(score(conv, x, graph))
        case "identity":
            return score(conv, x, graph)
        case "softmax" | "softmax-degree":
            weight = torch.nn.functional.leaky_relu(score(conv, x, graph), 0.2).exp()
            found = weight / (same.to(weight.dtype) @ weight)
            return found * same.sum(1, keepdim=True) if name == "softmax-degree" else found
        case "cosine":
            return torch.nn.functional.cosine_similarity(source, target, dim=-1)
        case "dynamic":
            return torch.tanh(own.offset + (own.att * torch.nn.functional.leaky_relu(source + target, 0.2)).sum(-1))
        case "mixed":
            degree = same.sum(1).to(x.dtype)
            of_source = torch.stack([degree[graph.dst == node].mean() for node in graph.src])
            fixed = torch.stack([(degree * of_source).pow(-0.5), (graph.src == graph.dst).to(x.dtype)], dim=1)
            return torch.cat([fixed, torch.tanh(score(conv, x, graph))], dim=1)
    a, b = own.att.chunk(2)
    return torch.tanh(own.offset + x[graph.dst] @ a.t() + x[graph.src] @ b.t())


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ("gate", "eq12")])
def test_coefficients(name: str, graph: Graph) -> None:
    conv, x = FORMS[name].build(8).double(), torch.randn(20, 8).double()
    assert isinstance(conv, LMGConv)
    if name == "mixed":
        loops = torch.bincount(graph.dst[graph.src == graph.dst], minlength=20)
        assert (loops == 1).all()
    alpha, _, own = conv.parts(x, graph)
    torch.testing.assert_close(alpha, expected(name, conv, x, own))


@pytest.mark.parametrize("name", FORMS)
def test_all_start_at_unit_scale(name: str, graph: Graph) -> None:
    model, x = FORMS[name].build(8), 3 * torch.randn(20, 8)
    calibrate(model, x, graph, only=Coefficients)
    assert isinstance(model, LMGConv)
    assert model.linear(x, graph).square().mean().sqrt().item() == pytest.approx(1.0, abs=0.01)


def test_widths_fill_the_budget(datasets: Path) -> None:
    for run in STUDY.runs(complete(STUDY, Options(seeds=1, quick=True))):
        if run.split == 0:
            model = STUDY.regressor(run) if run.dataset == "zinc12k" else STUDY.classifier(run)
            assert 0.95 * BUDGET < num_parameters(model) <= BUDGET, (run.method, run.dataset)


def test_from_the_options_to_the_cells(tmp_path: Path, datasets: Path) -> None:
    names = ("gate", "eq12", "softmax-degree", "mixed", "per-channel")
    extras = (("epochs", 1), ("molecules", 64))
    for dataset in ("zinc12k", "texas"):
        options = Options(methods=names, datasets=(dataset,), seeds=1, quick=True, extras=extras)
        summary = driver.reproduce(STUDY, options, tmp_path / "runs.db", Watch())
        assert {record.status for record in summary.records} == {"done"}
        cells = STUDY.aggregate(summary.records)
        assert {cell.method for cell in cells} == set(names)
