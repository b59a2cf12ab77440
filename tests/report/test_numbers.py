"""Numbers as a person writes them."""

import math

import pytest

from mimogc.report.numbers import difference, mean_std


@pytest.mark.parametrize(
    ("mean", "std", "decimals", "text"),
    [
        (0.4923, 0.0061, 3, "0.492 ± 0.006"),
        (0.49, 0.02, 2, "0.49 ± 0.02"),
        (74.2, 2.2, 1, "74.2 ± 2.2"),
        (25e-9, 86e-11, 2, "(2.5 ± 0.1)·10⁻⁸"),
        (1.5e-14, math.nan, 3, "1.5·10⁻¹⁴"),
        (0.5, math.nan, 3, "0.500"),
        (0.0, 0.0, 3, "0.000 ± 0.000"),
        (-0.25, 0.1, 2, "−0.25 ± 0.10"),
        (math.inf, math.nan, 3, "∞"),
        (math.nan, math.nan, 3, "NaN"),
    ],
)
def test_mean_std(mean: float, std: float, decimals: int, text: str) -> None:
    assert mean_std(mean, std, decimals) == text


@pytest.mark.parametrize(
    ("ours", "theirs", "decimals", "text"),
    [
        (0.492, 0.49, 3, "+0.002"),
        (0.25, 0.68, 2, "−0.43"),
        (1e-13, 25e-9, 3, "−2.5·10⁻⁸"),
        (0.5, 0.5, 2, "±0.00"),
        (math.inf, 0.5, 2, "∞"),
    ],
)
def test_difference_is_ours_minus_theirs(ours: float, theirs: float, decimals: int, text: str) -> None:
    assert difference(ours, theirs, decimals) == text
