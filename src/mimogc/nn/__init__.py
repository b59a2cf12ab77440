"""Layers and models: the localized MIMO graph convolution, the exact one, and what is not linear beside them.

The models are those of `mimogc.models`, which stands above this package: they are loaded when first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from mimogc.nn import coefficients
from mimogc.nn._layout import Operator
from mimogc.nn.coefficients import Coefficients
from mimogc.nn.conv import LMGConv
from mimogc.nn.mimo import MIMOConv
from mimogc.nn.nonlinear import ACMConv, GINLayer
from mimogc.nn.polynomial import PolynomialConv
from mimogc.nn.stack import LMGCStack, stacked
from mimogc.nn.start import calibrate

if TYPE_CHECKING:
    from mimogc.models import (
        BondConv,
        GraphRegressor,
        NodeClassifier,
        SparseFeatures,
        TypedGraph,
        fit_width,
        num_parameters,
    )

__all__ = ["ACMConv", "GINLayer", "LMGCStack", "LMGConv", "MIMOConv", "Operator", "PolynomialConv"]
__all__ += ["Coefficients", "calibrate", "coefficients", "stacked"]
__all__ += ["BondConv", "GraphRegressor", "NodeClassifier", "SparseFeatures", "TypedGraph"]
__all__ += ["fit_width", "num_parameters"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # what is not imported above is of the models
        return getattr(importlib.import_module("mimogc.models"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
