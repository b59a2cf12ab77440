"""The polynomials of graph filters: their names, and their terms by recurrence."""

from collections.abc import Callable
from typing import Any

POLYNOMIALS = ("monomial", "chebyshev", "cayley")


def terms(apply: Callable[[Any], Any], first: Any, degree: int, polynomial: str) -> list[Any]:
    """[p_0(A)x, …, p_K(A)x] from x and the product with A, by A·A^k = A^(k+1) or T_(k+1) = 2A·T_k − T_(k−1)."""
    found = [first]
    for k in range(1, degree + 1):
        following = apply(found[-1])
        if polynomial == "chebyshev" and k > 1:
            following = 2 * following - found[-2]
        found.append(following)
    return found
