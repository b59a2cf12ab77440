"""The number that a residual branch is multiplied by."""

import math
from typing import SupportsFloat


def checked_gain(gain: object, auto: float | None) -> float | None:
    """None or a finite number; ``"auto"`` stands for `auto`."""
    if gain is None:
        return None
    if isinstance(gain, SupportsFloat) and not isinstance(gain, bool) and math.isfinite(float(gain)):
        return float(gain)
    if gain != "auto":
        raise ValueError(f"gain: expected a finite number, 'auto' or None, got {gain!r}")
    return auto
