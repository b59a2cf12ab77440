"""Finds and loads the compiled kernels: plain C functions, one shared library per instruction-set level.

The lowest layer of the package. Nothing here knows what the kernels compute; `graph` and `ops.native` do.
"""

import ctypes
import hashlib
import os
import sys
import warnings
from functools import cache
from pathlib import Path

import torch

# What torch calls a capability → the microarchitecture levels that may run there, best first.
_LEVELS = {
    "AVX512": ("x86_64_v4", "x86_64_v3", "x86_64_v2"),
    "AVX2": ("x86_64_v3", "x86_64_v2"),
}
_BASELINE = ("x86_64_v2", "generic")
_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def _folders() -> list[Path]:
    """Where an installed or an editable package keeps its libraries."""
    return [Path(folder) / "ops" for folder in sys.modules["mimogc"].__path__]


@cache
def library() -> ctypes.CDLL | None:
    """The kernels for this processor, or None where there are none (said once, as a warning).

    `MIMOGC_BACKEND=reference` asks for plain torch without a warning.
    """
    wanted = os.environ.get("MIMOGC_BACKEND", "native")
    if wanted not in ("native", "reference"):
        raise ValueError(f"MIMOGC_BACKEND: expected 'native' or 'reference', got {wanted!r}")
    if wanted == "reference":
        return None
    levels = _LEVELS.get(torch.backends.cpu.get_cpu_capability(), _BASELINE)
    for level in levels:
        for folder in _folders():
            path = folder / f"libmimogc_{level}{_SUFFIX}"
            if path.exists():
                # torch is imported by now, so that both share one OpenMP runtime and one pool of threads.
                found = ctypes.CDLL(str(path))
                if _fits(found):
                    return found
                warnings.warn(
                    f"{path} was compiled from other sources than these; using plain torch. Install mimogc again",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return None
    warnings.warn(
        "mimogc was installed without compiled kernels (no C++ compiler was found); using plain torch, "
        "which gives the same results more slowly",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _fits(found: ctypes.CDLL) -> bool:
    """Whether a library has the interface of the sources beside this file; an installed package has none."""
    headers = [folder / "csrc" / "mimogc.h" for folder in _folders()]
    header = next((path for path in headers if path.exists()), None)
    if header is None:
        return True
    if not hasattr(found, "mimogc_interface"):
        return False
    found.mimogc_interface.restype = ctypes.c_char_p
    compiled: bytes = found.mimogc_interface()
    return compiled.decode() == hashlib.sha256(header.read_bytes()).hexdigest()


def backend() -> str:
    """Which implementation runs on CPU tensors: `"native"` (compiled kernels) or `"reference"` (plain torch)."""
    return "reference" if library() is None else "native"
