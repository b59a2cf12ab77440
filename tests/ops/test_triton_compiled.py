"""The Triton kernels without a GPU: each compiles for three, without spills; and machines without Triton."""

import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")

from mimogc.bench.gpu_kernels import TARGETS, described, usage
from mimogc.ops._triton._launch import TYPES, variants

pytestmark = pytest.mark.kernels  # once, whatever the backend is


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter does not compile")
@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "any"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_variant_fits_its_registers(dtype, target, aligned):
    of_type = [each for each in variants() if each.dtype == dtype]
    assert len(of_type) == (23 if dtype == torch.float64 else 27)
    for each in of_type:
        found = usage(each, target, aligned)
        assert 0 < found.registers <= 255
        assert (found.spilled, found.local) == (0, 0), f"{each.kernel.__name__} {described(each)}: {found}"


def _python(code, **environment):
    given = {name: value for name, value in os.environ.items() if name not in ("MIMOGC_BACKEND", "TRITON_INTERPRET")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=given | environment, timeout=300
    )


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # which makes importing it an ImportError
import torch
from mimogc import Graph, ops
from mimogc.nn import LMGConv
from mimogc.ops import _backends, _functions, _plain, reference
print(ops.backend(), ops.backend("cuda"))
assert _backends._of("cuda", torch.float32) is _plain
layer = LMGConv(4, 4, coefficients="gatv2")
layer(torch.randn(6, 4), torch.randint(0, 6, (2, 20))).sum().backward()
assert "mimogc.ops._triton" not in sys.modules
"""


def test_a_machine_without_triton():
    found = _python(WITHOUT_TRITON)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[1] == "reference"
    found = _python(WITHOUT_TRITON, MIMOGC_BACKEND="triton", TRITON_INTERPRET="1")
    assert "ValueError: MIMOGC_BACKEND: expected Triton to be installed for 'triton'" in found.stderr


def test_cpu_tensors_need_the_interpreter():
    found = _python("import mimogc.ops; mimogc.ops.backend()", MIMOGC_BACKEND="triton")
    assert "ValueError: MIMOGC_BACKEND: expected TRITON_INTERPRET=1 beside 'triton'" in found.stderr
    code = "import mimogc.ops; print(mimogc.ops.backend(), mimogc.ops.backend('cuda'))"
    assert _python(code).stdout.split()[1] == "triton"
    assert _python(code, MIMOGC_BACKEND="reference").stdout.split() == ["reference", "reference"]
    assert _python(code, MIMOGC_BACKEND="triton", TRITON_INTERPRET="1").stdout.split() == ["triton", "triton"]


def test_chosen_by_device_and_type():
    from mimogc.ops import _backends, _plain

    assert _backends._of("cuda", torch.bfloat16).NAME == "triton"
    assert _backends._of("cpu", torch.bfloat16) is _plain
    assert _backends._of("xpu", torch.float32) is _plain
