"""The Triton kernels without a GPU: every form compiles without spills, in each number type for one of three GPUs.

`benchmarks/gpu_kernels.py` compiles all of them for all three, which takes three times as long.
"""

import inspect
import os

import pytest
import torch

pytest.importorskip("triton")

from benchmarks.gpu_kernels import TARGETS, described, usage

from mimogc.ops._triton._launch import TYPES, variants

pytestmark = pytest.mark.kernels  # once, whatever the backend is


# A kernel for any addresses loads fewer numbers at a time: one type of them is enough.
TYPES_IN_TURN = sorted(TYPES, key=lambda dtype: dtype == torch.float64)  # that has fewer forms than the other three
CASES = [*((dtype, True) for dtype in TYPES_IN_TURN), (torch.float32, False)]


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter does not compile")
@pytest.mark.parametrize("turn", range(len(TARGETS)))
@pytest.mark.parametrize("case", range(len(CASES)), ids=[*map(str, TYPES_IN_TURN), "any"])
def test_every_variant_fits_its_registers(case, turn):
    dtype, aligned = CASES[case]
    of_type = [each for each in variants() if each.dtype == dtype]
    assert len(of_type) == (26 if dtype == torch.float64 else 30)
    for each in of_type[turn :: len(TARGETS)]:
        # Three types begin with another GPU each, so that every form comes to all of them.
        target = list(TARGETS)[(case + turn) % len(TARGETS)]
        found = usage(each, target, aligned)
        assert 0 < found.registers <= 255
        assert (found.spilled, found.local) == (0, 0), f"{each.kernel.__name__} {described(each)}, {target}: {found}"


def test_every_backend_offers_what_the_protocol_says():
    from mimogc.ops import _backends, _native, _plain, _triton

    wanted = {name: value for name, value in vars(_backends.Backend).items() if inspect.isfunction(value)}
    wanted = {name: value for name, value in wanted.items() if not name.startswith("_")}
    assert len(wanted) == 10
    for kernels in (_native, _plain, _triton):
        assert isinstance(kernels.NAME, str)
        for name, function in wanted.items():
            found = list(inspect.signature(getattr(kernels, name)).parameters)
            assert ["self", *found] == list(inspect.signature(function).parameters)


def test_chosen_by_device_and_type():
    from mimogc.ops import _backends, _plain

    assert _backends._of("cuda", torch.bfloat16).NAME == "triton"
    assert _backends._of("cpu", torch.bfloat16) is _plain
    assert _backends._of("xpu", torch.float32) is _plain
