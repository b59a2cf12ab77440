"""How long things take: in words, and estimated from what is stored, else roughly from what another machine took."""

import math
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from mimogc.runs.run import Record, Run
from mimogc.runs.selection import extent

if TYPE_CHECKING:
    from mimogc.runs.study import Study

COMPARABLE = 20  # a run says nothing of one that is more than so many times as large: its fixed costs would be scaled


class Expected(NamedTuple):
    """How long runs take one after the other; None where it cannot be said."""

    seconds: float | None
    rough: bool  #: whether some of it is from another machine

    def __str__(self) -> str:
        if self.seconds is None:
            return "unknown"
        return f"{about(self.seconds)}{', roughly, from another machine' if self.rough else ''}"


def duration(seconds: float) -> str:
    """``42 s``, ``3 min 20 s``, ``5 h 12 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s" if rest else "less than a second"


def about(seconds: float) -> str:
    """``about 3 min 20 s``, or ``less than a second``."""
    return duration(seconds) if round(seconds) < 1 else f"about {duration(seconds)}"


def estimate(study: "Study", runs: Iterable[Run], records: Iterable[Record]) -> float | None:
    """The seconds that ``runs`` of a study take on this machine, from those of ``records``; None where some lack."""
    found = expected(study, runs, records)
    return None if found.rough else found.seconds


def expected(study: "Study", runs: Iterable[Run], records: Iterable[Record]) -> Expected:
    """The time that ``runs`` of a study take one after the other, from that of ``records``, else roughly.

    Each is held against what is most alike of the records that are not far smaller, with as many seconds per epoch,
    step or molecule: those of its dataset, method and variant, else of its dataset, else all.
    """
    rates: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for record in records:
        if record.status == "done":
            size = _size(study, record.run)
            for like in _alike(record.run):
                rates.setdefault(like, []).append((size, record.outcome.seconds / size))
    estimates: dict[tuple[object, ...], tuple[float, bool] | None] = {}
    total, rough = [], False
    for run in runs:
        key = (*_alike(run)[0], _size(study, run))
        if key not in estimates:
            estimates[key] = _seconds(study, run, rates)
        if (one := estimates[key]) is None:
            return Expected(None, False)
        total.append(one[0])
        rough |= one[1]
    return Expected(math.fsum(total), rough)


def _seconds(
    study: "Study", run: Run, rates: dict[tuple[str, ...], list[tuple[float, float]]]
) -> tuple[float, bool] | None:
    """Of one run, and whether that is rough."""
    size = _size(study, run)
    for like in _alike(run):
        comparable = [rate for extent, rate in rates.get(like, ()) if extent * COMPARABLE >= size]
        if comparable:
            return statistics.fmean(comparable) * size, False
    rough = study.rough_seconds(run)
    return None if rough is None else (rough * size, True)


def _alike(run: Run) -> tuple[tuple[str, ...], ...]:
    return (run.dataset, run.method, run.variant), (run.dataset,), ()


def _size(study: "Study", run: Run) -> float:
    return math.prod(float(value) for value in extent(study, run) if not isinstance(value, str)) or 1.0
