"""What the tests of the engine share: a watcher, all bits of a store, and the command in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mimogc.runs.driver import Plan
from mimogc.runs.engine import Batch
from mimogc.runs.run import Record
from mimogc.runs.store import Store

TINY = "tiny_study:STUDY"
Results = dict[str, tuple[Mapping[str, float], Mapping[str, list[float]]]]


class Watch:
    """Keeps what the driver tells."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.told: list[tuple[Batch, float]] = []
        self.batches: list[Batch] = []

    def started(self, plan: Plan) -> None:
        self.plans.append(plan)

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None:
        self.told.append((batch, fraction))

    def finished(self, batch: Batch, records: Sequence[Record]) -> None:
        self.batches.append(batch)


def results(path: Path) -> Results:
    """Every bit that the runs in a store gave."""
    with Store(path) as store:
        return {r.run.id: (r.outcome.metrics, r.outcome.curves) for r in store.records()}


class Command:
    """``mimogc`` with these arguments in a process of its own, working in ``folder``, on the store ``runs.db``."""

    def __init__(self, folder: Path, *arguments: str, seconds: float = 0.0) -> None:
        self.folder = folder
        self.trace = folder / "trace"
        environment = {**os.environ, "TINY_TRACE": str(self.trace), "TINY_SECONDS": str(seconds)}
        command = [sys.executable, "-m", "mimogc", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def traced(self) -> list[list[str]]:
        """``[start or end, id, process]`` of every run so far, of this command and those before it."""
        return [line.split() for line in self.trace.read_text().splitlines()] if self.trace.exists() else []

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 300  # a busy machine takes its time
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "nothing happened for five minutes"
            time.sleep(0.01)

    def end(self) -> tuple[int, str, str]:
        """Its exit code, stdout and stderr."""
        stdout, stderr = self.process.communicate(timeout=300)
        return self.process.returncode, stdout, stderr
