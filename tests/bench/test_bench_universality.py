"""The naive loop does the same work as the batched one: each plain layer is the library's layer."""

from typing import Any

import pytest
import torch
from benchmarks.universality import Speed, measure, overall, plain_layer

from mimogc.studies.universality import STUDY, initial_layer, problem


def copy_weights(plain: Any, layer: Any, method: str) -> float:
    """Give the plain layer the weights of the library's; returns the factor between their outputs."""
    with torch.no_grad():
        if method == "gin":
            for mine, theirs in zip((plain.nn[0], plain.nn[2]), (layer.hidden, layer.last), strict=True):
                mine.load_state_dict(theirs.state_dict())
        elif method == "mimogc":
            plain.weight.copy_(layer.weight)
        elif method == "acm":
            low, high = layer.lin.weight.chunk(2)
            plain.low.weight.copy_(low)
            plain.high.weight.copy_(high)
        elif method == "gatv2":
            plain.lin_l.weight.copy_(layer.lin.weight)
            plain.att.copy_(layer.coefficients.att)
            return 4.0  # PyG takes the mean over the heads
        elif method == "fagcn":
            plain.lin.weight.copy_(layer.lin.weight)
            score = [layer.coefficients.att_dst.weight, layer.coefficients.att_src.weight]
            plain.score.weight.copy_(torch.cat(score, dim=1))
        else:
            plain.copy_from(layer)
    return 1.0


@pytest.mark.parametrize("method", STUDY.methods)
def test_plain_layers_are_the_same_methods(method: str) -> None:
    task = problem(64, 0)
    layer, plain = initial_layer(method, 64, 0), plain_layer(method, task)
    factor = copy_weights(plain, layer, method)
    found = factor * plain(task.x, task.graph.edge_index)
    torch.testing.assert_close(found, layer(task.x, task.graph), rtol=1e-4, atol=1e-5)


def test_measure_compares_run_steps_per_second() -> None:
    threads = torch.get_num_threads()
    (speed,) = measure(["acm"], steps=5, repeats=1)
    assert speed.method == "acm"
    assert speed.ratio == speed.batched / speed.naive
    assert speed.ratio > 2
    assert torch.get_num_threads() == threads


def test_overall_is_the_ratio_of_the_total_times() -> None:
    assert overall([Speed("a", 1.0, 10.0), Speed("b", 1.0, 40.0)]) == pytest.approx(2 / (1 / 10 + 1 / 40))
