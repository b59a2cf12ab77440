"""The paper's propositions as functions that return evidence: constructions, counterexamples, measured rates."""

from mimogc.theory.depth import DepthStudy, collapse_rate, decay_rate, depth_study
from mimogc.theory.multisets import Case, Independence, Injectivity, check_injectivity, check_linear_independence
from mimogc.theory.universality import UniversalFilter, universal_filter

__all__ = ["DepthStudy", "UniversalFilter", "collapse_rate", "decay_rate", "depth_study", "universal_filter"]
__all__ += ["Case", "Independence", "Injectivity", "check_injectivity", "check_linear_independence"]
