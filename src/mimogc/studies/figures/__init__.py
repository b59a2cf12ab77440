"""The figures: the paper's filters and our own measurements, each as numbers, as a picture, and as a study."""

from mimogc.studies.figures.catalog import FIGURES, Figure, draw
from mimogc.studies.figures.study import STUDY

__all__ = ["FIGURES", "STUDY", "Figure", "draw"]
