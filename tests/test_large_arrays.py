"""What a large graph keeps, and on which pages its arrays are."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graphs import random_edges
from mimogc import Graph, graph
from mimogc.nn import GINLayer, LMGConv


def _edge_sized(held: Graph) -> list[object]:
    return [
        key for key, value in held._cache.items() if isinstance(value, torch.Tensor) and value.numel() >= held.num_edges
    ]


@pytest.mark.parametrize("kept", [True, False])
def test_a_large_graph_keeps_nothing_that_is_as_large_as_its_edges(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Graph.from_edge_index(random_edges(20, 300), 20, add_self_loops=True)
    monkeypatch.setattr(graph, "KEPT_EDGES", large.num_edges - (not kept))
    x = torch.randn(20, 4, requires_grad=True)
    for layer in (LMGConv(4, 4), GINLayer(4, 4), LMGConv(4, 4, coefficients="gatv2")):
        layer(x, large).sum().backward()
    assert (large.edge_index.shape, large.perm.shape) == ((2, large.num_edges), (large.num_edges,))
    assert bool(_edge_sized(large)) == kept


PAGES = """
import torch
from mimogc import Graph
from mimogc.bench.large import random_graph

graph = Graph.from_edge_index(random_graph(20_000, 1_500_000, 100), 20_000, add_self_loops=True)
middle = graph.sources.data_ptr() + 4 * graph.num_edges // 2
inside = False
for line in open("/proc/self/smaps"):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        low, high = (int(end, 16) for end in head.split("-"))
        inside = low <= middle < high
    elif inside and head == "VmFlags:":
        print("asked" if "hg" in line.split() else "not asked")
"""


@pytest.mark.kernels
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux says there which pages were asked for")
@pytest.mark.parametrize("switch", ["0", "1"])
def test_huge_pages_whatever_the_environment_says(switch: str) -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this kernel has no huge pages")
    environment = {"THP_MEM_ALLOC_ENABLE": switch, "PATH": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PAGES], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "asked\n", done.stderr
