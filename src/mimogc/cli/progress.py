"""What a person sees while runs are computed: a live bar on a terminal, else a plain line now and then."""

import os
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mimogc.runs.driver import Plan
from mimogc.runs.engine import Batch
from mimogc.runs.run import Record
from mimogc.runs.times import about, duration

LIVE_SECONDS, PLAIN_SECONDS = 0.1, 5.0  # between two updates
FIRST_SECONDS = 1.0  # until the first one may come


class Display:
    """Shows runs done, the current metric and the estimated time left."""

    def __init__(self, console: Console, title: str = "") -> None:
        self.console, self.title = console, title
        self.live = Progress(
            TextColumn("{task.fields[runs]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("[dim]{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.live.add_task("", total=1.0, visible=False, runs="", left="")
        self.total = self.done = 0
        self.fractions: dict[Batch, float] = {}  # of the batches that have not finished
        self.current = ""
        self.start = self.shown = 0.0
        self.pace: tuple[float, float] | None = None  # time and fraction at the first word: Ray starts slowly

    def __enter__(self) -> "Display":
        self.live.start()
        if self.title:  # at once: what comes next imports torch and reads data
            self.console.print(self.title, highlight=False, markup=False)
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def started(self, plan: Plan) -> None:
        self.total, self.done = plan.missing, 0
        self.fractions = dict.fromkeys(plan.batches, 0.0)
        self.start = time.monotonic()
        self.shown = self.start + FIRST_SECONDS - PLAIN_SECONDS
        self.pace = None
        doing = f"loading torch and the data: {', '.join(dict.fromkeys(run.dataset for run in plan.todo))}"
        self.live.reset(self.task, visible=True, runs=f"0/{self.total} runs", left="", description=escape(doing))
        stored = len(plan.runs) - plan.missing
        before = f", {stored} more are stored already" if stored else ""
        self.console.print(f"{plan.missing} runs to do, batches: {len(plan.batches)}{before}", highlight=False)
        if not self.console.is_terminal:
            self.console.print(doing, markup=False, highlight=False, soft_wrap=True)

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None:
        if batch not in self.fractions:
            return  # a word from a worker that came later than its result
        self.fractions[batch] = fraction
        starts = not (metrics or fraction)
        self.current = f"{_name(batch)} {'starts' if starts else _values(metrics)}"
        before = self.shown
        self._show()
        if starts and not self.done and self.shown != before:  # the first numbers need not wait
            self.shown, self.pace = self.shown + FIRST_SECONDS - PLAIN_SECONDS, None

    def finished(self, batch: Batch, records: Sequence[Record]) -> None:
        self.fractions.pop(batch, None)
        self.done += len(records)
        if records[0].status == "failed":
            reason = records[0].error.partition("\n")[0]
            many = f" and {len(records) - 1} more" if len(records) > 1 else ""
            line = escape(f"{records[0].run.label()}{many}: {reason}")
            self.console.print(f"[red]failed[/] {line}", soft_wrap=True, highlight=False)
            if os.environ.get("MIMOGC_DEBUG", "0") != "0":
                self.console.print(records[0].error.partition("\n")[2], soft_wrap=True, highlight=False, markup=False)
        else:
            self.current = f"{_name(batch)} {_values(records[-1].outcome.metrics)}"
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        last = self.done == self.total
        if not last and now - self.shown < (LIVE_SECONDS if self.console.is_terminal else PLAIN_SECONDS):
            return
        self.shown = now
        fraction = (self.done + sum(len(batch) * f for batch, f in self.fractions.items())) / self.total
        since, before = self.pace = self.pace or (now, fraction)
        left = ""
        if not last and fraction - before > 0.01:
            seconds = (now - since) * (1 - fraction) / (fraction - before)
            left = f"{about(max(1, seconds))} left"
        runs = f"{self.done}/{self.total} runs"
        if self.console.is_terminal:
            text = escape(self.current)
            self.live.update(self.task, completed=fraction, runs=runs, left=left, description=text)
        else:
            parts = [runs, f"{fraction:.0%}", duration(now - self.start), left, self.current]
            self.console.print("  ".join(filter(None, parts)), markup=False, highlight=False, soft_wrap=True)


def _name(batch: Batch) -> str:
    """What the runs of a batch have in common."""
    columns = zip(*((run.dataset, run.method, run.variant) for run in batch), strict=True)
    return " ".join(column[0] for column in columns if len(set(column)) == 1 and column[0])


def _values(metrics: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value:.3g}" for name, value in list(metrics.items())[:3])
