"""What a result was computed with: library versions, git revision, threads, machine."""

import importlib.metadata
import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import mimogc
from mimogc.runs.run import Scalar

LIBRARIES = ("torch", "torch_geometric", "numpy", "scipy")


def describe(threads: int) -> dict[str, Scalar]:
    """The environment of this process, kept in every record."""
    return {**_machine(), "threads": threads}


@lru_cache(maxsize=1)
def _machine() -> dict[str, Scalar]:
    return {
        "mimogc": mimogc.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in LIBRARIES},
        "revision": _revision(Path(mimogc.__file__).parent),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
    }


def _revision(folder: Path) -> str:
    """The git commit of the source, with ``+`` if it was changed since; empty outside of a repository."""
    git = ["git", "-C", str(folder)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], check=True, capture_output=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "."], capture_output=True).returncode
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+" if changed else "")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
