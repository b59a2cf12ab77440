"""MIMO graph convolutions: the exact operator, its localized form as a fast PyG layer, and the theory as tools."""

from mimogc.graph import Graph

__version__ = "0.1.0"
__all__ = ["Graph", "__version__"]
