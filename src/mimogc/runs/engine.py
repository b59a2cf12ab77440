"""The engine: computes batches of runs in this process, or with Ray on many; it stores nothing."""

import hashlib
import importlib
import os
import random
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Run, Scalar
from mimogc.runs.study import Context, Study

Batch = tuple[Run, ...]
Progress = Callable[[Batch, float, Mapping[str, float]], None]  # batch, fraction of it done, current metrics

RETRIES = 3  # of a batch whose worker or node died
REPORT_SECONDS = 0.5  # how often a worker tells its progress at most


class EngineError(RuntimeError):
    """The engine cannot start; the message is one line."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch gave: one outcome per run, or an error whose first line is the reason."""

    batch: Batch
    outcomes: list[Outcome]
    environment: Mapping[str, Scalar]
    error: str = ""


Results = Generator[BatchResult, None, None]


def batch_id(batch: Batch) -> str:
    """A stable name of a batch: it tells which runs were computed together."""
    return hashlib.sha256(" ".join(run.id for run in batch).encode()).hexdigest()[:16]


def execute_batch(
    study: Study, batch: Batch, folder: Path, progress: Callable[[float, Mapping[str, float]], None]
) -> BatchResult:
    """Compute one batch here. Every way to run comes through here, so that all give the same bits."""
    import numpy as np
    import torch

    from mimogc.runs import environment

    before = torch.get_num_threads()
    torch.set_num_threads(study.threads)
    seed = int(batch_id(batch)[:8], 16)  # nothing leaks from the batch computed before
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    where = {**environment.describe(study.threads), "batch": batch_id(batch), "batch_size": len(batch)}
    try:
        progress(0.0, {})  # it starts: torch is imported, and the first numbers may take a while
        outcomes = study.execute(batch, Context(progress, folder))
        _check_outcomes(study, batch, outcomes)
    except Exception as error:
        return BatchResult(batch, [], where, f"{_reason(error)}\n{traceback.format_exc()}")
    finally:
        torch.set_num_threads(before)
    return BatchResult(batch, outcomes, where)


def _check_outcomes(study: Study, batch: Batch, outcomes: Sequence[Outcome]) -> None:
    """What is wrong with them is told now, and not by the report."""
    if len(outcomes) != len(batch):
        raise ValueError(f"study {study.name!r} gave {len(outcomes)} outcomes for a batch of {len(batch)} runs")
    for run, outcome in zip(batch, outcomes, strict=True):
        if not isinstance(outcome, Outcome):
            raise ValueError(f"study {study.name!r} must give an Outcome for each run; got {outcome!r}")
        if lacking := sorted(study.needed(run.dataset) - outcome.metrics.keys()):
            given = ", ".join(outcome.metrics) or "none"
            raise ValueError(f"study {study.name!r}: expected the metric {lacking[0]!r} in every outcome, got {given}")


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def in_process(study: Study, batches: Sequence[Batch], folder: Callable[[Batch], Path], progress: Progress) -> Results:
    """Compute the batches one after the other in this process."""
    for batch in batches:

        def tell(fraction: float, metrics: Mapping[str, float], batch: Batch = batch) -> None:
            progress(batch, fraction, metrics)

        yield execute_batch(study, batch, folder(batch), tell)


def on_ray(
    study: Study,
    batches: Sequence[Batch],
    folder: Callable[[Batch], Path],
    progress: Progress,
    *,
    jobs: int = 1,
    address: str | None = None,
) -> Results:
    """Compute the batches with Ray: ``jobs`` at a time on this machine, or on the cluster at ``address``.

    Ray schedules, and tries a batch again whose worker or node died. Only the study's reference and the runs
    travel; data is read by the worker. On a cluster a batch takes as many CPUs as it has threads.
    """
    ray = _start_ray(study.threads, jobs, address)
    try:
        board = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
        task = ray.remote(num_cpus=study.threads if address else 1, max_retries=RETRIES)(_execute_remotely)
        pending = {task.remote(study.reference, batch, folder(batch), board): batch for batch in batches}
        while pending:
            for ready in ray.wait(list(pending), timeout=REPORT_SECONDS)[0]:
                batch = pending.pop(ready)
                try:
                    yield ray.get(ready)
                except ray.exceptions.RayError as error:
                    yield BatchResult(batch, [], {}, f"{_reason(error)}\n{error}")
            with suppress(ray.exceptions.RayError):  # progress is a courtesy: without it the work goes on
                for batch, fraction, metrics in ray.get(board.take.remote(), timeout=REPORT_SECONDS):
                    progress(batch, fraction, metrics)
    finally:
        with _uninterrupted():
            ray.shutdown()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore further Ctrl-C for the seconds that an orderly end takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _start_ray(threads: int, jobs: int, address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise EngineError("--jobs and --cluster need Ray: pip install 'mimogc[experiments]'") from None
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        local = {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": 100 * 2**20}  # bytes
        ray.init(address="local", **local, **quiet)
        return ray
    _check_address(address)
    try:
        ray.init(address=address, **quiet)
    except Exception as error:
        hint = "" if "RAY_AUTH_MODE" in os.environ else "; if it asks for a token, set RAY_AUTH_MODE=token"
        raise EngineError(f"cannot connect to the cluster at {address!r}: {_reason(error)}{hint}") from error
    largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if largest < threads:
        ray.shutdown()
        raise EngineError(f"a batch needs {threads} CPUs; the largest node of the cluster has {largest:g}")
    return ray


def _check_address(address: str) -> None:
    """Ray itself would try an address at which nobody listens for many minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"--cluster must be host:port or auto; got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise EngineError(f"cannot connect to the cluster at {address!r}: {error}") from error


class Board:
    """A Ray actor on which workers pin their progress."""

    def __init__(self) -> None:
        self.notes: dict[Batch, tuple[float, Mapping[str, float]]] = {}

    def pin(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None:
        self.notes[batch] = (fraction, metrics)

    def take(self) -> list[tuple[Batch, float, Mapping[str, float]]]:
        notes, self.notes = self.notes, {}
        return [(batch, fraction, metrics) for batch, (fraction, metrics) in notes.items()]


def _execute_remotely(reference: str, batch: Batch, folder: Path, board: Any) -> BatchResult:
    from mimogc.runs import registry

    last = -REPORT_SECONDS

    def tell(fraction: float, metrics: Mapping[str, float]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPORT_SECONDS:
            last = now
            board.pin.remote(batch, fraction, dict(metrics))

    return execute_batch(registry.load(reference), batch, folder, tell)
