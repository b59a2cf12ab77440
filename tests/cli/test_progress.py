"""How long something takes, as people say it."""

import pytest

from mimogc.runs.times import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "less than a second"), (42.4, "42 s"), (200, "3 min 20 s"), (59.7, "1 min 0 s"), (18_725, "5 h 12 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
