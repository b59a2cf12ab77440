"""Edge coefficients α of the K computational graphs: one small class per published method.

A new method is a subclass of :class:`Coefficients` that returns ``alpha [E, K]``; the kernels, gradients, theory
checks and tables come with the layer.
"""

import inspect
from typing import Any

from mimogc.nn.coefficients.attention import FAGCN, GAT, GATv2
from mimogc.nn.coefficients.base import Channels, Coefficients, Pair, Scored
from mimogc.nn.coefficients.lmgc import LMGC, Eq12, NormalizedLMGC
from mimogc.nn.coefficients.structural import ACM, GCN, Free
from mimogc.nn.coefficients.transports import Gated, Sheaf

__all__ = ["ACM", "FAGCN", "GAT", "GCN", "LMGC", "Eq12", "Free", "GATv2", "Gated", "NormalizedLMGC", "Sheaf"]
__all__ += ["BY_NAME", "Channels", "Coefficients", "Pair"]

# name → class, called as (in_channels, out_channels, **options it knows)
BY_NAME: dict[str, Any] = {"lmgc": LMGC, "eq12": Eq12, "gcn": GCN, "gat": GAT, "gatv2": GATv2}
BY_NAME |= {"fagcn": FAGCN, "acm": ACM, "gated": Gated, "sheaf": Sheaf, "free": Free, "lmgc-sym": NormalizedLMGC}


def chosen(
    choice: str | Coefficients, in_channels: Channels, out_channels: int, combine: str, options: dict[str, Any]
) -> Coefficients:
    """The module itself, or one made by name with the options its class knows; refused where a layer cannot have it."""
    found = choice
    if not isinstance(found, Coefficients):
        if not isinstance(choice, str) or choice not in BY_NAME:
            got = _called(choice) if isinstance(choice, type) and issubclass(choice, Coefficients) else repr(choice)
            raise ValueError(f"coefficients: expected one of {', '.join(BY_NAME)} or a Coefficients module, got {got}")
        made = BY_NAME[choice]
        parameters = inspect.signature(made).parameters
        found = made(in_channels, out_channels, **{key: options[key] for key in options if key in parameters})
    name = type(found).__name__
    if "_modules" not in found.__dict__:
        raise TypeError(
            f"coefficients: expected {name}.__init__ to call super().__init__(heads), got one that does not"
        )
    if found.out_channels not in (None, out_channels):
        raise ValueError(
            f"coefficients: expected ones for {out_channels} output channels, got {name} for {found.out_channels}"
        )
    if found.layout != "free" and combine != "sum":
        raise ValueError(f"combine: {name} fixes the feature transformations and allows 'sum' only, got {combine!r}")
    scored = isinstance(found, Scored) and found.lin_edge is not None
    if (scored or options["edge_dim"] is not None) and type(found) in BY_NAME.values():
        _check_edge_dim(found, options["edge_dim"])
    return found


def _called(kind: type[Coefficients]) -> str:
    """A class in the place of a module, and how to make one of it."""
    needed = {key: one.default for key, one in inspect.signature(kind).parameters.items() if one.default is one.empty}
    given = ", ".join("heads=4" if key == "heads" else f"{key}=..." for key in needed)
    return f"the class {kind.__name__}; call it: {kind.__name__}({given})"


def _check_edge_dim(coefficients: Coefficients, edge_dim: int | None) -> None:
    """Refuse coefficients of this package that would ignore edge features; others may read ``graph.edge_attr``."""
    name = type(coefficients).__name__
    if not isinstance(coefficients, Scored):
        raise ValueError(
            f"edge_dim: expected None, because {name} has no score that edge features could add to, got {edge_dim}"
        )
    own = None if coefficients.lin_edge is None else coefficients.lin_edge.in_channels
    if own != edge_dim:
        raise ValueError(f"edge_dim: expected {own}, with which the given {name} was built, got {edge_dim}")
