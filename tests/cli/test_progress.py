"""What a person sees while runs are computed, and how long something takes, as people say it."""

import io
import sys

import pytest
import torch  # noqa: F401
from rich.console import Console

from mimogc.cli import progress
from mimogc.cli.reproduce import _say_what_is_read
from mimogc.runs.driver import Plan
from mimogc.runs.run import Run
from mimogc.runs.times import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "less than a second"), (42.4, "42 s"), (200, "3 min 20 s"), (59.7, "1 min 0 s"), (18_725, "5 h 12 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_it_says_at_once_what_it_does_and_numbers_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    page = io.StringIO()
    batch = (Run("zinc", "zinc12k", "gin", "basic", (), 0, 0),)
    with progress.Display(Console(file=page, width=80), "ZINC") as display:
        display.started(Plan(list(batch), [batch]))
        said = page.getvalue().splitlines()
        assert said == ["ZINC", "1 runs to do, batches: 1", "loading torch and the data: zinc12k"]
        now += 4
        display.progress(batch, 0.0, {})
        now += 1.5
        display.progress(batch, 0.1, {"val": 1.5})
        now += 1.5
        display.progress(batch, 0.2, {"val": 1.25})  # too soon after the last
    lines = [line.split("  ") for line in page.getvalue().splitlines()[len(said) :]]
    assert [(line[0], line[-1]) for line in lines] == [
        ("0/1 runs", "zinc12k gin basic starts"),
        ("0/1 runs", "zinc12k gin basic val 1.5"),
    ]


def test_it_says_that_it_reads_ones_own_before_torch_is_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _say_what_is_read(["lmgc", "mine:Cosine"])
    assert capsys.readouterr().err == ""  # torch is there: nothing to wait for
    monkeypatch.delitem(sys.modules, "torch")
    _say_what_is_read(["lmgc", "mine:Cosine", "npz:mine.npz"])
    _say_what_is_read(["lmgc"])
    assert capsys.readouterr().err == "reading mine:Cosine, npz:mine.npz\n"
