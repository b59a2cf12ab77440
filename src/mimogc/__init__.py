"""MIMO graph convolutions: the exact operator, its localized form as a fast PyG layer, the theory as tools."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mimogc.graph import Graph

__version__ = "0.1.0"
__all__ = ["Graph", "__version__"]

_PARTS = ("data", "distributed", "methods", "models", "nn", "ops", "plot", "spectral", "testing", "theory")


def __getattr__(name: str) -> Any:
    # Loaded when first asked for, so that `mimogc --help` does not wait for torch.
    if name == "Graph":
        return importlib.import_module("mimogc.graph").Graph
    if name in _PARTS:
        return importlib.import_module(f"mimogc.{name}")
    raise AttributeError(f"module 'mimogc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PARTS])
