"""How long things take: in words, and estimated from what is stored."""

import math
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mimogc.runs.run import Record, Run
from mimogc.runs.selection import extent

if TYPE_CHECKING:
    from mimogc.runs.study import Study


def duration(seconds: float) -> str:
    """``42 s``, ``3 min 20 s``, ``5 h 12 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s" if rest else "less than a second"


def estimate(study: "Study", runs: Iterable[Run], records: Iterable[Record]) -> float | None:
    """The seconds that ``runs`` of a study take one after the other, from those of ``records``; None without any.

    Each is held against what is most alike of the records, with as many seconds per epoch, step or molecule: those
    of its dataset, method and variant, else of its dataset, else all.
    """
    rates: dict[tuple[str, ...], list[float]] = {}
    for record in records:
        if record.status == "done":
            for like in _alike(record.run):
                rates.setdefault(like, []).append(record.outcome.seconds / _size(study, record.run))
    if not rates:
        return None
    means = {like: statistics.fmean(rate) for like, rate in rates.items()}
    return math.fsum(next(means[like] for like in _alike(run) if like in means) * _size(study, run) for run in runs)


def _alike(run: Run) -> tuple[tuple[str, ...], ...]:
    return (run.dataset, run.method, run.variant), (run.dataset,), ()


def _size(study: "Study", run: Run) -> float:
    return math.prod(float(value) for value in extent(study, run)) or 1.0
