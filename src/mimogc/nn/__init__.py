"""Layers: the localized MIMO graph convolution with its coefficients, and what is not linear beside it."""

from mimogc.nn import coefficients
from mimogc.nn.coefficients import Coefficients
from mimogc.nn.conv import LMGConv, Operator
from mimogc.nn.nonlinear import ACMConv, GINLayer

__all__ = ["ACMConv", "Coefficients", "GINLayer", "LMGConv", "Operator", "coefficients"]
