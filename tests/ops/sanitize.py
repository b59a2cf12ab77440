"""Builds the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and runs them on awkward graphs.

python tests/ops/sanitize.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "src" / "mimogc" / "ops" / "csrc"
FLAGS = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-fno-omit-frame-pointer", "-fopenmp",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{KERNELS}",
         "-Wno-missing-field-initializers",  # fields that are left out are zero
         "-Wno-maybe-uninitialized"]  # fmt: skip  # GCC 12 warns about its own intrinsics of AVX-512


def main() -> int:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        print("sanitize: no C++ compiler found (set CXX)", file=sys.stderr)
        return 1
    sources = [str(HERE / "sanitize.cpp"), *map(str, sorted(KERNELS.glob("*.cpp")))]
    with tempfile.TemporaryDirectory() as folder:
        program, objects = Path(folder) / "sanitize", [f"{folder}/{number}.o" for number in range(len(sources))]

        def compiled(source: str, place: str) -> int:
            return subprocess.run([compiler, *FLAGS, "-march=native", "-c", source, "-o", place]).returncode

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            if any(pool.map(compiled, sources, objects)):
                return 1
        subprocess.run([compiler, *FLAGS, *objects, "-o", str(program)], check=True)
        environment = os.environ | {"OMP_NUM_THREADS": "2", "ASAN_OPTIONS": "detect_leaks=1"}
        print("sanitize: ", end="", flush=True)
        return subprocess.run([str(program)], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
