"""The operator Σ_k Ã^(k) h_k and its fused forms: checked arguments in front, kernels or plain torch behind.

`reference` is their specification in plain torch; the modules with an underscore are not public.
"""

from mimogc.ops._backends import backend, use_reference
from mimogc.ops._ends import at_sources, at_targets, separable_alpha, sum_at_targets
from mimogc.ops._joins import activate
from mimogc.ops._kinds import Fixed, Gin, Kind, Pairs, Signed
from mimogc.ops._layers import Settings, lmgc, lmgcs
from mimogc.ops._native_layers import Weights
from mimogc.ops._operators import edge_softmax, pair_scores, propagate, propagate_tanh
from mimogc.ops._run_stack import has_stacks, run_stack
from mimogc.ops._typed_checks import Norm
from mimogc.ops._typed_forms import Form, TypedGate, TypedPairs, TypedSigned, TypedWeights
from mimogc.ops._typed_layers import typed_layer, typed_layers

__all__ = ["edge_softmax", "lmgc", "lmgcs", "pair_scores", "propagate", "propagate_tanh", "separable_alpha"]
__all__ += ["activate", "at_sources", "at_targets", "sum_at_targets", "typed_layer", "typed_layers"]
__all__ += ["Fixed", "Gin", "Kind", "Pairs", "Signed", "has_stacks", "run_stack"]
__all__ += [
    "Form",
    "Norm",
    "Settings",
    "TypedGate",
    "TypedPairs",
    "TypedSigned",
    "TypedWeights",
    "Weights",
    "backend",
    "use_reference",
]
