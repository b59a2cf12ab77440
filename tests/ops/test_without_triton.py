"""Machines without Triton: everything computes in plain torch, its tests are skipped, and asking for it is an error."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernels  # once, whatever the backend is
HERE = Path(__file__).parent
HIDDEN = """
import sys
sys.modules["triton"] = None  # which makes importing it an ImportError
"""


def _python(code, **environment):
    given = {name: value for name, value in os.environ.items() if name not in ("MIMOGC_BACKEND", "TRITON_INTERPRET")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=given | environment, timeout=600
    )


# What a GPU would be given there, plain torch in parts, through every method; forward, backward and compiled.
COMPUTES = (
    HIDDEN
    + """
import torch
from mimogc import Graph, ops, testing
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import BY_NAME
from mimogc.ops import _backends, _plain, use_reference
print(ops.backend(), ops.backend("cuda"))
assert _backends._of("cuda", torch.float32) is _backends._of("cuda", torch.bfloat16) is _plain
_backends._of = lambda device, dtype: _plain
x, edges = torch.randn(7, 4, dtype=torch.float64), torch.randint(0, 7, (2, 20))
graph = Graph.from_edge_index(edges, 7)
for name in BY_NAME:
    layer = LMGConv(4, 4, coefficients=name).double()
    results = []
    for plain in (False, True):
        given = x.clone().requires_grad_()
        if plain:
            with use_reference():
                out = layer(given, graph)
        else:
            out = layer(given, graph)
        results.append((out, *torch.autograd.grad(out.square().sum(), [given, *layer.parameters()], allow_unused=True)))
    torch.testing.assert_close(*results)
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(x, graph), layer(x, graph))
assert "mimogc.ops._triton" not in sys.modules
print("computed")
"""
)


def test_every_method_computes_without_triton():
    found = _python(COMPUTES)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[1:] == ["reference", "computed"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_asking_for_triton_where_there_is_none_is_an_error(device):
    code = f"{HIDDEN}import mimogc.ops; mimogc.ops.backend({device!r})"
    found = _python(code, MIMOGC_BACKEND="triton", TRITON_INTERPRET="1")
    assert "ValueError: MIMOGC_BACKEND: expected Triton to be installed for 'triton'" in found.stderr


TESTED = HIDDEN + f"import pytest; sys.exit(pytest.main(['-rs', '--rootdir={HERE.parents[1]}', "


def test_its_tests_are_skipped_where_there_is_none():
    """All of `make triton`, with a sentence; without asking for it those of its kernels alone."""
    files = [str(HERE / name) for name in ("test_triton.py", "test_triton_compiled.py", "test_plain.py")]
    found = _python(f"{TESTED}*{files}]))", MIMOGC_BACKEND="triton", TRITON_INTERPRET="1")
    assert "Triton cannot be imported" in found.stdout, found.stdout
    assert not {"error", "failed", "passed"} & set(found.stdout.split()), found.stdout
    found = _python(f"{TESTED}*{files[:2]}]))")
    assert not {"error", "errors", "failed"} & set(found.stdout.split()), found.stdout


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton cannot be imported")
def test_cpu_tensors_need_the_interpreter():
    found = _python("import mimogc.ops; mimogc.ops.backend()", MIMOGC_BACKEND="triton")
    assert "ValueError: MIMOGC_BACKEND: expected TRITON_INTERPRET=1 beside 'triton'" in found.stderr
    code = "import mimogc.ops; print(mimogc.ops.backend(), mimogc.ops.backend('cuda'))"
    assert _python(code).stdout.split()[1] == "triton"
    assert _python(code, MIMOGC_BACKEND="reference").stdout.split() == ["reference", "reference"]
    assert _python(code, MIMOGC_BACKEND="triton", TRITON_INTERPRET="1").stdout.split() == ["triton", "triton"]
