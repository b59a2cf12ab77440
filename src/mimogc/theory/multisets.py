"""Propositions 3 and 4 by enumeration: every pair of (element, multiset) up to a size, realised as a graph.

A multiset of size m around an element is realised as a complete bipartite graph: m copies of the element on one side,
the m members on the other, every edge in both directions. All degrees are m, so degree normalisation does its worst, as
it would not on a star. A layer that adds self-loops sees the element itself as one member more.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import asin, gcd, inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

Layer = Callable[..., Any]
_LIMIT = 20_000
_CHUNK = 512


class Case(NamedTuple):
    """An element and the multiset around it, as positions in `elements`."""

    element: int
    multiset: tuple[int, ...]


Pair = tuple[Case, Case]


class Injectivity(NamedTuple):
    """Evidence for or against injectivity on (element, multiset)."""

    distance: float  #: the smallest between any two outputs; inf where there is no pair
    closest: Pair | None  #: the pair it is between
    counterexample: Pair | None  #: that pair, where the outputs are the same up to rounding
    pairs: int  #: how many were compared


class Independence(NamedTuple):
    """Evidence for or against pairwise linear independence."""

    angle: float  #: the smallest between the lines of any two outputs, in radians; inf where there is no pair
    closest: Pair | None
    counterexample: Pair | None
    pairs: int


def check_injectivity(layer: Layer, elements: Tensor, max_size: int, tolerance: float | None = None) -> Injectivity:
    """Compare the layer's outputs for all pairs of (element, multiset) up to a size (Proposition 3).

    Args:
        layer: called as ``layer(x, edge_index)``; must be deterministic (no dropout).
        elements: [M, F] the distinct, non-zero feature vectors that multisets are made of.
        max_size: the largest number of members; empty multisets are left out.
        tolerance: outputs closer than this part of the largest output collide; by default 1e-9 for float64
            and 1e-4 for float32.
    """
    cases = _cases(elements, max_size)
    out = _outputs(layer, elements, cases)
    scale = float(out.norm(dim=1).max())
    distance, closest, pairs = _smallest(out, None, both_signs=False)
    found = closest and (cases[closest[0]], cases[closest[1]])
    collides = distance <= _tolerance(tolerance, elements) * scale
    return Injectivity(distance, found, found if collides else None, pairs)


def check_linear_independence(
    layer: Layer, elements: Tensor, max_size: int, across_elements: bool = False, tolerance: float | None = None
) -> Independence:
    """Measure the angle between the layer's outputs for all pairs of (element, multiset) (Proposition 4).

    Multisets that are a positive rational multiple of each other, such as {a, a} and {a, a, a}, are dependent
    around the same element whatever the layer; the proposition leaves them out around any two elements, and
    so does this function. A bias is no part of the statement: the output for zero features is subtracted.

    Args:
        layer: called as ``layer(x, edge_index)``; must be deterministic and have at least two output channels.
        elements: [M, F] the distinct, non-zero feature vectors that multisets are made of.
        max_size: the largest number of members; empty multisets are left out.
        across_elements: also compare proportional multisets around different elements, as the paper's proof does.
        tolerance: lines closer than this angle are dependent; by default 1e-9 for float64 and 1e-4 for float32.
    """
    cases = _cases(elements, max_size)
    out = _outputs(layer, elements, cases) - _outputs(layer, torch.zeros_like(elements), cases)
    if out.size(1) < 2:
        c = out.size(1)
        raise ValueError(f"layer: expected at least 2 output channels, since any two numbers are dependent, got {c}")
    looped = bool(getattr(layer, "add_self_loops", False))
    keys = [_direction(case, looped, across_elements) for case in cases]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    group = torch.tensor([number[key] for key in keys], device=out.device)
    norm = out.norm(dim=1, keepdim=True)
    unit = out / norm.clamp(min=torch.finfo(out.dtype).tiny)
    chord, closest, pairs = _smallest(unit, group, both_signs=True)
    for zero in (norm == 0).flatten().nonzero().flatten().tolist():  # a zero output depends on everything
        others = (group != group[zero]).nonzero().flatten()
        if others.numel():
            chord, closest = 0.0, (zero, int(others[0]))
    found = closest and (cases[closest[0]], cases[closest[1]])
    angle = inf if found is None else 2 * asin(min(chord / 2, 1.0))
    return Independence(angle, found, found if angle <= _tolerance(tolerance, elements) else None, pairs)


def _cases(elements: Tensor, max_size: int) -> list[Case]:
    if elements.dim() != 2 or elements.size(0) == 0 or not elements.is_floating_point():
        got = f"{list(elements.shape)} {elements.dtype}"
        raise ValueError(f"elements: expected floating-point features [M, F], got {got}")
    if not bool(elements.any(dim=1).all()):
        raise ValueError("elements: expected non-zero rows, got a zero feature vector, which no sum can see")
    if len(torch.unique(elements, dim=0)) < len(elements):
        raise ValueError("elements: expected distinct rows, got the same feature vector twice")
    if max_size < 1:
        raise ValueError(f"max_size: expected at least 1, got {max_size}")
    m = range(elements.size(0))
    cases = []
    for size in range(1, max_size + 1):
        for multiset in combinations_with_replacement(m, size):
            cases += [Case(element, multiset) for element in m]
            if len(cases) > _LIMIT:
                raise ValueError(
                    f"max_size: {len(m)} elements and multisets up to {max_size} give more than {_LIMIT:,} cases; "
                    "use fewer elements or a smaller size"
                )
    return cases


def _outputs(layer: Layer, elements: Tensor, cases: list[Case]) -> Tensor:
    """[cases, C]: what the layer gives at the element of each case, all in one disjoint graph."""
    if (size := getattr(layer, "edge_dim", None)) is not None:
        raise ValueError(
            f"layer: expected one without edge features, which multisets do not have, got edge_dim={size}; give every "
            "edge the same ones: lambda x, edges: layer(x, edges, features.expand(edges.size(1), -1))"
        )
    member: list[int] = []  # position in `elements` of each node
    centres, edges = [], []
    for element, multiset in cases:
        size, start = len(multiset), len(member)
        centres.append(start)
        member += [element] * size + list(multiset)
        nodes = torch.arange(start, start + 2 * size)
        edges.append(torch.cartesian_prod(nodes[size:], nodes[:size]).T)
    forward = torch.cat(edges, dim=1)
    edge_index = torch.cat([forward, forward.flip(0)], dim=1).to(elements.device)
    with torch.no_grad():
        out = layer(elements[torch.tensor(member, device=elements.device)], edge_index)
    return torch.as_tensor(out)[torch.tensor(centres, device=elements.device)]


def _smallest(points: Tensor, group: Tensor | None, both_signs: bool) -> tuple[float, tuple[int, int] | None, int]:
    """The smallest distance between two points of different groups, the two points, and how many pairs there are."""
    n = points.size(0)
    best, closest, pairs = inf, None, 0
    order = torch.arange(n, device=points.device)
    for start in range(0, n, _CHUNK):
        rows = order[start : start + _CHUNK]
        distance = _distances(points[rows], points)
        if both_signs:
            distance = torch.minimum(distance, _distances(points[rows], -points))
        allowed = order > rows.view(-1, 1)
        if group is not None:
            allowed &= group != group[rows].view(-1, 1)
        distance = distance.masked_fill(~allowed, inf)
        pairs += int(allowed.sum())
        value, place = distance.flatten().min(dim=0)
        if float(value) < best:
            best, closest = float(value), (int(rows[place // n]), int(place % n))
    return best, closest, pairs


def _distances(a: Tensor, b: Tensor) -> Tensor:
    # Not by ‖a‖² − 2ab + ‖b‖², which sees nothing below the square root of the precision.
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _direction(case: Case, looped: bool, across_elements: bool) -> tuple[Any, ...]:
    """What proportional multisets have in common: multiplicities without their common factor."""
    members = [*case.multiset, case.element] if looped else case.multiset
    counts = {member: members.count(member) for member in sorted(set(members))}
    factor = gcd(*counts.values())
    shape = tuple((member, count // factor) for member, count in counts.items())
    return (case.element if across_elements else None, shape)


def _tolerance(given: float | None, elements: Tensor) -> float:
    usual = 1e-9 if elements.dtype == torch.float64 else 1e-4
    return usual if given is None else given
