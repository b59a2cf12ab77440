"""The models of the paper's experiments, made of the layers of any method, and how wide they are for a budget."""

from mimogc.models.graph_regressor import GraphRegressor
from mimogc.models.node_classifier import NodeClassifier
from mimogc.models.sparse_features import SparseFeatures
from mimogc.models.typed_edges import BondConv, TypedGraph
from mimogc.models.width import fit_width, num_parameters

__all__ = [
    "BondConv",
    "GraphRegressor",
    "NodeClassifier",
    "SparseFeatures",
    "TypedGraph",
    "fit_width",
    "num_parameters",
]
