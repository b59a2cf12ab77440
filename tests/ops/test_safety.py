"""The kernels among threads and processes: repeatable, honouring torch's thread count, safe under fork."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from graphs import INTERPRETED, random_edges
from mimogc import Graph, ops
from mimogc.nn import LMGConv

kernels = pytest.mark.kernels
# What is true of every kernel is tested with those of a GPU, too.
any_kernels = pytest.mark.skipif(os.environ.get("MIMOGC_BACKEND") == "reference", reason="about kernels")


@pytest.fixture
def threads():
    """Sets torch's number of threads and puts it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def _step(seed=0, nodes=60 if INTERPRETED else 3000, edges=600 if INTERPRETED else 60_000, width=16):
    torch.manual_seed(seed)
    layer = LMGConv(width, 24)
    x = torch.randn(nodes, width, requires_grad=True)
    layer(x, random_edges(nodes, edges, seed)).square().sum().backward()
    return [x.grad, *(parameter.grad for parameter in layer.parameters())]


@any_kernels
@pytest.mark.parametrize("width", [16, 40])  # with torch's products and with those of the kernel
@pytest.mark.parametrize("count", [1, 2, 3])
def test_bitwise_repeatable_for_a_thread_count(threads, count, width):
    threads(count)
    first = _step(width=width)
    for _ in range(3):
        for one, other in zip(first, _step(width=width), strict=True):
            assert torch.equal(one, other)


@kernels
@pytest.mark.parametrize("width", [16, 40])
def test_thread_counts_agree_up_to_rounding(threads, width):
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(_step(width=width))
    for one, *others in zip(*results, strict=True):
        for other in others:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(one.abs().max()))


@kernels
def test_one_thread_enters_no_parallel_region():
    # A process that never had a second thread still has one after the kernels ran with one thread.
    code = """
import os, torch
torch.set_num_threads(1)
from mimogc import Graph, ops
graph = Graph.from_edge_index(torch.randint(0, 5000, (2, 200_000)), 5000)
before = len(os.listdir("/proc/self/task"))
h, alpha = torch.randn(5000, 4, 32, requires_grad=True), torch.randn(200_000, 4, requires_grad=True)
out = ops.propagate(alpha, h, graph)
after = len(os.listdir("/proc/self/task"))
torch.set_num_threads(2)
ops.propagate(alpha, h, graph)
both = len(os.listdir("/proc/self/task"))
print(ops.backend(), after - before, both - after)
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("threads of a process are counted through /proc")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.split() == ["native", "0", "1"]


class _Batches(torch.utils.data.Dataset):
    def __init__(self, layer):
        self.layer = layer

    def __len__(self):
        return 6

    def __getitem__(self, index):
        torch.manual_seed(index)
        with torch.no_grad():
            return self.layer(torch.randn(2000, 16), random_edges(2000, 40_000, index))


@kernels
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forked_workers_after_the_parent_used_threads(threads):
    threads(2)
    torch.manual_seed(0)
    data = _Batches(LMGConv(16, 24))
    here = [data[index] for index in range(len(data))]  # the parent's pool of threads exists now
    loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60)
    for expected, found in zip(here, loader, strict=True):
        torch.testing.assert_close(found, expected)


@any_kernels
@pytest.mark.skipif(INTERPRETED, reason="the interpreter runs one kernel at a time")
def test_concurrent_python_threads(threads):
    threads(2)
    graph = Graph.from_edge_index(random_edges(2000, 40_000), 2000)
    torch.manual_seed(0)
    alpha, h = torch.randn(40_000, 4), torch.randn(8, 2000, 4, 16)
    expected = [ops.propagate(alpha, part, graph) for part in h]
    found = [None] * 8

    def work(index):
        for _ in range(20):
            found[index] = ops.propagate(alpha, h[index], graph)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
        assert not worker.is_alive()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@kernels
def test_reference_is_one_environment_variable_away():
    code = "import mimogc.ops; print(mimogc.ops.backend())"
    for wanted in ("native", "reference"):
        environment = os.environ | {"MIMOGC_BACKEND": wanted}
        found = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
        assert found.stdout.strip() == wanted, found.stderr
    environment = os.environ | {"MIMOGC_BACKEND": "fast"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert "MIMOGC_BACKEND: expected 'native', 'reference' or 'triton', got 'fast'" in found.stderr


@kernels
@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_every_instruction_set_level_this_processor_has(capability):
    # torch reports a lower capability on request, and the library follows it
    code = """
import torch, mimogc._library
from mimogc import Graph, ops
from mimogc.ops import reference
torch.manual_seed(0)
graph = Graph.from_edge_index(torch.randint(0, 40, (2, 300)), 40)
for heads, channels in ((4, 48), (3, 7)):
    alpha, h = torch.randn(300, heads, requires_grad=True), torch.randn(40, heads, channels, requires_grad=True)
    out, expected = ops.propagate(alpha, h, graph), reference.propagate(alpha, h, graph, "sum")
    torch.testing.assert_close(out, expected)
    for one, other in zip(*(torch.autograd.grad(y.square().sum(), (alpha, h)) for y in (out, expected))):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)
    x, weight, att = torch.randn(40, 5), torch.randn(heads * channels, 5), torch.randn(2 * heads, heads * channels) / 20
    found = ops.lmgc(x, weight, att, graph, act="gelu")
    with ops.use_reference():
        torch.testing.assert_close(found, ops.lmgc(x, weight, att, graph, act="gelu"), rtol=1e-4, atol=1e-4)
print(mimogc._library.library().path)
"""
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert found.returncode == 0, found.stderr
    levels = {"default": ("x86_64_v2", "generic"), "avx2": ("x86_64_v2", "x86_64_v3", "generic")}
    assert any(level in found.stdout for level in levels[capability])


@kernels
def test_a_library_of_other_sources_is_not_used(tmp_path, monkeypatch):
    from mimogc import _library

    folder = tmp_path / "ops"
    (folder / "csrc").mkdir(parents=True)
    library = _library.library().path
    (folder / library.name).write_bytes(library.read_bytes())
    header = Path(_library.__file__).parent / "ops" / "csrc" / "mimogc.h"
    monkeypatch.setattr(_library, "_folders", lambda: [folder])
    (folder / "csrc" / "mimogc.h").write_bytes(header.read_bytes())
    assert _library.library.__wrapped__() is not None
    (folder / "csrc" / "mimogc.h").write_bytes(header.read_bytes() + b"// changed")
    with pytest.warns(RuntimeWarning, match="compiled from other sources than these"):
        assert _library.library.__wrapped__() is None
    (folder / "csrc" / "mimogc.h").unlink()
    with pytest.warns(RuntimeWarning, match="compiled from other sources than these"):
        assert _library.library.__wrapped__() is None


# A process with little more memory than it has already: the kernel's own memory is what does not fit any more.
NO_MEMORY = """
import resource, torch
torch.set_num_threads({threads})
from mimogc import Graph, ops
from mimogc.ops._links import links_of_layers

def mapped():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

def limited(call, megabytes):
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped() + megabytes * 2**20, before[1]))
    try:
        call()
    except MemoryError as error:
        return str(error).split(":")[0]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

NODES, EDGES = 1000, 2_000_000
edges = torch.stack([torch.randint(0, NODES, (EDGES,)), torch.zeros(EDGES, dtype=torch.long)])  # into one node
graph = Graph.from_edge_index(edges, NODES)
spread = Graph.from_edge_index(torch.randint(0, NODES, (2, EDGES)), NODES)
x, weight, att = torch.randn(NODES, 40), torch.randn(36, 40), torch.randn(24, 36)
s, h = torch.randn(NODES, 12), torch.randn(NODES, 12, 3)

def layer():
    return ops.lmgc(x.requires_grad_(), weight, att, spread)

def class_graphs():
    many = Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.long), EDGES)
    rows = torch.zeros(EDGES, dtype=torch.long)
    return many, lambda: links_of_layers(many, 2, rows, 1, True)

layer().sum().backward()  # the threads are there now
ops.propagate_tanh(s, s, h, graph)
out = layer()
many, classes = class_graphs()
cases = [
    (lambda: ops.propagate_tanh(s, s, h, graph), 30),  # a row of 2 million edges and 12 scores needs 96 MB
    (lambda: out.sum().backward(retain_graph=True), 30),  # the gradients of the scores need as much
    (lambda: Graph.from_edge_index(edges, NODES), 36),  # 32 MB that are given and 8 that are not
    (classes, 52),  # 48 MB that are given
]
for call, megabytes in cases:
    print(limited(call, megabytes))
    call()  # the process lives, and with its memory back it computes
print("alive")
"""


@kernels
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the size of a process is read through /proc")
@pytest.mark.parametrize("threads", [1, 2])
def test_no_memory_is_an_error_and_not_the_end(threads):
    code = NO_MEMORY.format(threads=threads)
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed goes back to the system
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    kernels = ["mimogc_tanh_sum", "mimogc_layer_grad", "mimogc_sort_edges", "mimogc_classes"]
    assert found.stdout.split() == [*kernels, "alive"], found.stderr
