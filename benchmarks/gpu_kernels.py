"""The Triton kernels, compiled here for GPUs that need not be there: registers and spills, as a table.

Run it: ``python benchmarks/gpu_kernels.py`` prints the worst of every kernel, with ``--all`` every variant.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mimogc.ops._triton._launch import TYPES, Variant, accumulated, variants

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
_INDICES = {"ptr", "nodes", "slot", "parts", "begin"}
_SUMS = {"partial", "own_partial", "att_out", "product"}
_COUNTS = {"num_rows", "num_parts", "split", "has_edge", "K", "C", "D", "stride", "modulus", "head", "width"}


_AS_TRITON = ("-lineinfo", "--regAllocOptLevel=2")  # its own options for ptxas


class Usage(NamedTuple):
    """What one compiled kernel needs of a GPU."""

    registers: int  # of a thread
    spilled: int  # bytes (NVIDIA) or registers (AMD)
    local: int  # bytes of memory of a thread's own
    shared: int  # bytes of a program


def signature(variant: Variant) -> dict[str, str]:
    """The type of each argument, as the launcher's tensors give it."""
    number, sums = TYPES[variant.dtype], TYPES[accumulated(variant.dtype)]
    found = {}
    for name in variant.kernel.arg_names:
        if name in variant.constants:
            found[name] = "constexpr"
        elif name == "leak":
            found[name] = "fp64"
        else:
            found[name] = "i32" if name in _COUNTS else "*i32" if name in _INDICES else "*" + number
            found[name] = "*" + sums if name in _SUMS else found[name]
    return found


def usage(variant: Variant, target: str, aligned: bool = True) -> Usage:
    """Compile one variant for one kind of GPU, and read what it needs.

    A launch tells the compiler which addresses are multiples of 16: those of all new tensors, and of few views.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from mimogc.ops._triton._launch import WARPS

    types = signature(variant)
    places = [(place,) for place, kind in enumerate(types.values()) if aligned and kind.startswith("*")]
    hints = {place: [["tt.divisibility", 16]] for place in places}
    source = ASTSource(variant.kernel, types, variant.constants, hints)
    compiled: Any = triton.compile(source, target=GPUTarget(*TARGETS[target]), options={"num_warps": WARPS})
    shared: int = compiled.metadata.shared
    if target == "gfx942":
        text = compiled.asm["amdgcn"]
        # Scalar registers may overflow into lanes of vector registers, which is no memory and not counted.
        names = ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size")
        registers, spilled, local = (_number(rf"\.{name}:\s+(\d+)", text) for name in names)
        return Usage(registers, spilled, local, shared)
    text = _said_by_ptxas(compiled.asm["ptx"], target)
    spilled = _number(r"(\d+) bytes spill stores", text) + _number(r"(\d+) bytes spill loads", text)
    return Usage(_number(r"Used (\d+) registers", text), spilled, _number(r"(\d+) bytes stack frame", text), shared)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"compiler: expected {pattern!r} in what it says, got {text[-200:]!r}")
    return int(found[1])


def _said_by_ptxas(ptx: str, target: str) -> str:
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(ptx)
        arch = "sm_90a" if ".target sm_90a" in ptx else target
        command = [
            get_ptxas(TARGETS[target][1]).path,
            *_AS_TRITON,
            "-v",
            f"--gpu-name={arch}",
            str(file),
            "-o",
            os.devnull,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def described(variant: Variant) -> str:
    """The constants of a variant that are not the same for all."""
    said = {name: value for name, value in variant.constants.items() if name not in ("BR", "ACC")}
    return " ".join(f"{name}={int(value)}" for name, value in said.items())


def table(chosen: Iterable[Variant], every: bool) -> Iterator[str]:
    """Lines: kernel, type, for every target registers / spills / local bytes; the largest unless `every`.

    Of the two ways to compile each, for aligned tensors and for any, the larger number.
    """
    yield f"{'kernel':14s} {'type':9s} {'variants':34s}" + "".join(f"{target:>17s}" for target in TARGETS)
    groups: dict[tuple[str, str], list[tuple[str, list[Usage]]]] = {}
    for variant in chosen:
        found = [_larger(usage(variant, target), usage(variant, target, aligned=False)) for target in TARGETS]
        key = variant.kernel.__name__, str(variant.dtype).removeprefix("torch.")
        if every:
            yield _line(*key, described(variant), found)
        groups.setdefault(key, []).append((described(variant), found))
    for (name, dtype), rows in groups.items():
        worst = [_larger(*column) for column in zip(*(row[1] for row in rows), strict=True)]
        yield _line(name, dtype, f"the largest of {len(rows)}", worst)


def _larger(*found: Usage) -> Usage:
    return Usage(*map(max, zip(*found, strict=True)))


def _line(name: str, dtype: str, what: str, found: Iterable[Usage]) -> str:
    cells = "".join(f"{each.registers:7d} /{each.spilled:3d} /{each.local:3d}" for each in found)
    return f"{name:14s} {dtype:9s} {what:34s}{cells}"


def main(arguments: list[str]) -> None:
    print("registers of a thread / spilled / bytes of local memory; 4 warps a program")
    for line in table(sorted(variants(), key=lambda each: each.kernel.__name__), "--all" in arguments):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
