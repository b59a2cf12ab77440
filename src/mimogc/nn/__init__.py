"""Layers and models: the localized MIMO graph convolution, the exact one, and what is not linear beside them."""

from mimogc.nn import coefficients
from mimogc.nn.bonds import BondConv, TypedGraph
from mimogc.nn.chaining import chain
from mimogc.nn.coefficients import Coefficients
from mimogc.nn.conv import LMGConv
from mimogc.nn.features import SparseFeatures
from mimogc.nn.layout import Operator
from mimogc.nn.mimo import MIMOConv
from mimogc.nn.models import GraphRegressor, NodeClassifier
from mimogc.nn.nonlinear import ACMConv, GINLayer
from mimogc.nn.polynomial import PolynomialConv
from mimogc.nn.start import calibrate
from mimogc.nn.width import fit_width

__all__ = [
    "ACMConv",
    "BondConv",
    "Coefficients",
    "GINLayer",
    "GraphRegressor",
    "LMGConv",
    "MIMOConv",
    "NodeClassifier",
    "Operator",
    "PolynomialConv",
    "SparseFeatures",
    "TypedGraph",
    "calibrate",
    "chain",
    "coefficients",
    "fit_width",
]
