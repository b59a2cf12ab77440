"""Numbers as a person writes them: mean ± std, a signed difference."""

import math

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MINUS = "−"


def mean_std(mean: float, std: float, decimals: int) -> str:
    """``0.49 ± 0.02``; what would round to nothing as ``(2.5 ± 0.1)·10⁻⁸``; without ± where std is NaN."""
    if not math.isfinite(mean):
        return not_finite(mean)
    exponent = _exponent(mean, decimals)
    shown = [f"{value / 10.0**exponent:.{1 if exponent else decimals}f}" for value in (mean, std) if value == value]
    text = " ± ".join(shown).replace("-", MINUS)
    if not exponent:
        return text
    return (f"({text})" if len(shown) > 1 else text) + power(exponent)


def difference(ours: float, theirs: float, decimals: int) -> str:
    """``+0.03``: ours minus theirs, with a sign."""
    value = ours - theirs
    if not math.isfinite(value):
        return not_finite(value)
    exponent = _exponent(value, decimals) if value else 0
    text = f"{abs(value) / 10.0**exponent:.{1 if exponent else decimals}f}" + (power(exponent) if exponent else "")
    return ("+" if value > 0 else MINUS if value < 0 else "±") + text


def _exponent(value: float, decimals: int) -> int:
    """0 where ``value`` shows at least one digit with so many decimals, else its power of ten."""
    if value == 0 or abs(value) >= 10.0**-decimals:
        return 0
    return math.floor(math.log10(abs(value)))


def power(exponent: int) -> str:
    return "·10" + str(exponent).translate(SUPERSCRIPTS)


def not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "∞" if value > 0 else f"{MINUS}∞"
