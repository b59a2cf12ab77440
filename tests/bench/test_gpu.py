"""The benchmark for a GPU as far as it runs without one: a clear refusal, its parts on the CPU, and its bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mimogc.bench import gpu
from mimogc.bench.layer import layers_for
from mimogc.bench.workloads import Workload, molecules
from mimogc.ops import _plain, _thresholds

TINY = Workload("four molecules", lambda: molecules(4), 8, 1, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "foo", "cuda:x"])
def test_without_a_gpu_it_says_so(device):
    command = [sys.executable, "-m", "mimogc", "bench", "--device", device]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 2
    assert "--device: expected a GPU that torch can use" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_tests_for_a_gpu_say_so_without_one():
    command = [sys.executable, "-m", "pytest", str(Path(__file__).parents[1] / "ops" / "test_triton.py")]
    environment = os.environ | {"MIMOGC_TEST_DEVICE": "cuda"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == pytest.ExitCode.USAGE_ERROR
    assert "MIMOGC_TEST_DEVICE: expected a GPU that torch can use" in found.stderr
    assert "Traceback" not in found.stdout + found.stderr


def test_every_layer_is_measured_after_it_was_verified(monkeypatch):
    monkeypatch.setattr(gpu, "WORKLOADS", {"zinc32": TINY})
    monkeypatch.setattr(gpu, "REPEATS", 1)
    said: list[str] = []
    found = gpu.measured(said.append, "zinc32", torch.device("cpu"), 1e9)
    assert list(found) == [*layers_for("zinc32"), "plain torch", "sums"]
    assert all(each["ms"] > 0 for each in found.values())
    assert "verified" in said[0]


def test_wrong_results_are_not_measured(monkeypatch):
    monkeypatch.setattr(gpu, "TOLERANCE", 0.0)
    with pytest.raises(AssertionError, match="the kernels differ from plain torch"):
        gpu.verify(TINY, torch.device("cpu"))


def test_results_are_verified_some_edges_at_a_time(monkeypatch):
    parts = []
    in_parts = _plain._parts
    monkeypatch.setattr(_plain, "_parts", lambda *given: parts.extend(in_parts(*given)) or in_parts(*given))
    monkeypatch.setattr(_thresholds, "PLAIN_NUMBERS", 1)
    gpu.verify(TINY, torch.device("cpu"))
    assert len(parts) > 100
    assert all(src.numel() == 1 for _, src, _ in parts)


COUNTED = """
from benchmarks import gpu_bytes
from mimogc.bench import gpu
operator = gpu_bytes.OPERATORS["propagate_tanh"]
total = sum(gpu_bytes.kernel_bytes(operator, 3, backward)[:2].sum() for backward in (False, True))
print(total, gpu.sums_bytes(3 * gpu_bytes.NODES, gpu_bytes.NODES, gpu_bytes.HEADS, gpu_bytes.CHANNELS))
"""


def test_the_bytes_are_those_that_the_kernels_move():
    pytest.importorskip("triton")
    environment = os.environ | {"MIMOGC_BACKEND": "triton", "TRITON_INTERPRET": "1"}
    command, root = [sys.executable, "-c", COUNTED], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr
    counted, written = map(float, done.stdout.split())
    assert counted == pytest.approx(written, rel=0.02)
