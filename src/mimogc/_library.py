"""Finds and loads the compiled kernels: plain C functions, one shared library per instruction-set level.

The lowest layer of the package. Nothing here knows what the kernels compute; `graph` and `ops` do.
"""

import hashlib
import os
import re
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

# What torch calls a capability → the microarchitecture levels that may run there, best first.
_LEVELS = {"AVX512": ("x86_64_v4", "x86_64_v3", "x86_64_v2"), "AVX2": ("x86_64_v3", "x86_64_v2")}
_BASELINE = ("x86_64_v2", "generic")
_MANY_BYTES = 2**24  # below, small pages are quick enough
_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


class Library(NamedTuple):
    """The kernels for this processor."""

    path: Path
    ffi: Any  # makes structs
    kernels: Any  # the functions and constants of mimogc.h


def _folders() -> list[Path]:
    """Where an installed or an editable package keeps its libraries."""
    return [Path(folder) / "ops" for folder in sys.modules["mimogc"].__path__]


def wanted_backend() -> str:
    """What MIMOGC_BACKEND asks for; without it `"native"`."""
    wanted = os.environ.get("MIMOGC_BACKEND", "native")
    if wanted not in ("native", "reference", "triton"):
        raise ValueError(f"MIMOGC_BACKEND: expected 'native', 'reference' or 'triton', got {wanted!r}")
    return wanted


@cache
def library() -> Library | None:
    """The kernels for this processor, or None where there are none (said once, as a warning).

    `MIMOGC_BACKEND=reference` asks for plain torch without a warning.
    """
    if wanted_backend() == "reference":
        return None
    levels = _LEVELS.get(torch.backends.cpu.get_cpu_capability(), _BASELINE)
    names = [f"libmimogc_{level}{_SUFFIX}" for level in levels]
    path = _first(names)
    if path is None:
        reason = "mimogc was installed without compiled kernels (no C++ compiler was found)"
        warnings.warn(f"{reason}; using plain torch, which gives the same results more slowly", RuntimeWarning, 2)
        return None
    found = _loaded(path)
    if found is None:
        reason = f"{path} was compiled from other sources than these"
        warnings.warn(f"{reason}; using plain torch. Install mimogc again", RuntimeWarning, 2)
    return found


def _first(names: list[str]) -> Path | None:
    paths = (folder / name for name in names for folder in _folders())
    return next((path for path in paths if path.exists()), None)


def _loaded(path: Path) -> Library | None:
    """The library, if it was compiled from the header beside this file."""
    from cffi import FFI

    header = _first(["csrc/mimogc.h"])
    if header is None:
        return None
    text = header.read_bytes()
    ffi = FFI()
    ffi.cdef(_declarations(text.decode()))
    # torch is imported by now, so that both share one OpenMP runtime and one pool of threads.
    kernels = ffi.dlopen(str(path))
    if not hasattr(kernels, "mimogc_interface"):
        return None
    compiled = ffi.string(ffi.cast("char*", kernels.mimogc_interface()))
    return Library(path, ffi, kernels) if compiled.decode() == hashlib.sha256(text).hexdigest() else None


def _declarations(header: str) -> str:
    """What cffi reads of mimogc.h: without the preprocessor's lines, and with addresses of arrays as numbers.

    A number is what `Tensor.data_ptr` gives, and costs nothing to convert.
    """
    plain = re.sub(r"^#.*$", "", header, flags=re.MULTILINE)
    return re.sub(r"\b(const )?(void|char|int32_t|int64_t)\*", "intptr_t", plain)


def run(kernel: str, *arguments: Any) -> int:
    """What a function of mimogc.h returns; a MemoryError that names it where it could not get its memory."""
    kernels: Any = library().kernels  # type: ignore[union-attr]
    result: int = getattr(kernels, kernel)(*arguments)
    if result < 0 and result == kernels.MIMOGC_NO_MEMORY:
        raise MemoryError(f"{kernel}: not enough memory for what the kernel keeps while it computes")
    return result


def on_huge_pages(fresh: torch.Tensor) -> torch.Tensor:
    """The same new tensor, which nothing has been written to yet, on huge pages where it is large and there are some.

    Gathers from anywhere in gigabytes miss the processor's table of small pages at every step.
    """
    size = fresh.numel() * fresh.element_size()
    if size >= _MANY_BYTES and fresh.is_cpu and library() is not None:
        run("mimogc_huge_pages", fresh.data_ptr(), size)
    return fresh
