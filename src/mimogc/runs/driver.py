"""The driver: has the runs computed that the store does not have, and writes each result as it comes."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Protocol

from mimogc.runs import engine, ranks
from mimogc.runs.engine import Batch, BatchResult
from mimogc.runs.run import Outcome, Record, Run
from mimogc.runs.store import Store
from mimogc.runs.study import Options, Study, complete
from mimogc.runs.times import estimate

SHORT_SECONDS = 20.0  # two workers are ready after about 7 s and halve what is left


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs asked for and, in batches, those of them that the store does not have."""

    runs: list[Run]
    batches: list[Batch]

    @property
    def todo(self) -> list[Run]:
        return [run for batch in self.batches for run in batch]

    @property
    def missing(self) -> int:
        return len(self.todo)


@dataclass(slots=True)
class Summary:
    """What became of the runs asked for."""

    plan: Plan  #: as it is at the end
    stored_before: int
    records: list[Record] = field(default_factory=list)  #: written by this call, failed runs too
    stored: list[Record] = field(default_factory=list)  #: all finished ones of the study
    failures: list[Record] = field(default_factory=list)  #: of the study, that are to be tried again
    interrupted: bool = False
    seconds: float = 0.0

    def count(self, status: str) -> int:
        return sum(record.status == status for record in self.records)


class Watcher(Protocol):
    """Whoever wants to see the work go on."""

    def started(self, plan: Plan) -> None: ...

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None: ...

    def finished(self, batch: Batch, records: Sequence[Record]) -> None: ...


class Watchers:
    """Several as one."""

    def __init__(self, all_of_them: Sequence[Watcher]) -> None:
        self.all = all_of_them

    def started(self, plan: Plan) -> None:
        for watcher in self.all:
            watcher.started(plan)

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None:
        for watcher in self.all:
            watcher.progress(batch, fraction, metrics)

    def finished(self, batch: Batch, records: Sequence[Record]) -> None:
        for watcher in self.all:
            watcher.finished(batch, records)


def make_plan(study: Study, options: Options, records: Sequence[Record]) -> Plan:
    """The set difference: the runs of the study, and those that follow from them, minus the stored ``records``."""
    options = complete(study, options)
    stored = {record.run.id: record for record in records}
    runs = {run.id: run for run in study.runs(options)}
    while runs.keys() <= stored.keys():
        more = study.follow_up(options, [stored[key] for key in runs])
        size = len(runs)
        runs.update((run.id, run) for run in more)
        if len(runs) == size:
            break
    foreign = next((run for run in runs.values() if run.study != study.name), None)
    if foreign:
        raise ValueError(f"study {study.name!r} must give its own name to its runs; got {foreign.study!r}")
    missing = [run for key, run in runs.items() if key not in stored]
    batches = study.batches(missing)
    if sorted(run.id for batch in batches for run in batch) != sorted(run.id for run in missing):
        raise ValueError(f"study {study.name!r} must put every run into exactly one batch")
    return Plan(list(runs.values()), batches)


def to_come(study: Study, options: Options, plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs that follow once those of the plan are stored: their number is right, their settings may be others."""
    planned = {record.run.id for record in records} | {run.id for run in plan.runs}
    later = study.to_come(complete(study, options), records) if plan.missing else []
    return [run for run in later if run.id not in planned]


def reproduce(
    study: Study, options: Options, store: str | Path, watcher: Watcher, *, jobs: int = 1, cluster: str | None = None
) -> Summary:
    """Bring the store to have every run asked for; safe to stop and to repeat at any moment.

    Args:
        study: as it was loaded.
        options: which runs of it.
        store: path of the SQLite file of results.
        watcher: told about the work.
        jobs: batches computed at the same time on this machine; where one process is as quick, one after the other.
        cluster: address of a Ray cluster to compute on instead.
    """
    start = time.monotonic()
    with Store(store, write=True) as results, ranks.group():
        stored = results.records(study.name)
        plan = make_plan(study, options, stored)
        summary = Summary(plan, len(plan.runs) - plan.missing, stored=stored)
        results.remember(study.name, study.reference)
        try:
            while summary.plan.batches and not summary.count("failed"):
                watcher.started(summary.plan)  # before torch is imported and data is read
                study.prepare(summary.plan.todo)
                ranks.agree(summary.plan.batches)
                here = 1 if _is_short(study, options, summary.plan, stored) else jobs
                _compute(study, results, watcher, summary, here, cluster)
                summary.plan = make_plan(study, options, stored)
            if not summary.count("failed"):  # after a failure torchrun ends the other ranks
                ranks.agree([])
        except KeyboardInterrupt:
            summary.interrupted, summary.stored = True, results.records(study.name)  # it may have struck after a write
            summary.plan = make_plan(study, options, summary.stored)
        summary.failures = results.failures(study.name)
        summary.seconds = time.monotonic() - start
        return summary


def assist(study: Study, store: str | Path) -> None:
    """What the ranks above 0 do under torchrun: compute the batches of rank 0 along with it, store nothing."""
    with ranks.group():
        while batches := ranks.agree([]):
            for result in engine.in_process(study, batches, partial(_folder, Path(store)), lambda *_: None):
                if result.error:
                    raise RuntimeError(result.error.partition("\n")[0])


def _is_short(study: Study, options: Options, plan: Plan, stored: Sequence[Record]) -> bool:
    """Whether the runs take about as long as workers take to start: by what is stored, else if they are quick ones."""
    seconds = estimate(study, plan.todo, stored)
    return options.quick if seconds is None else seconds < SHORT_SECONDS


def _compute(study: Study, results: Store, watcher: Watcher, summary: Summary, jobs: int, cluster: str | None) -> None:
    batches = summary.plan.batches
    compute: Callable[..., engine.Results] = engine.in_process
    if cluster is not None or min(jobs, len(batches)) > 1:
        compute = partial(engine.on_ray, jobs=jobs, address=cluster)
    folder = partial(_folder, results.path)
    with closing(compute(study, batches, folder, watcher.progress)) as computed:
        for result in computed:
            records = _records(result)
            results.add(records)
            summary.records += records
            if not result.error:
                summary.stored += records
                _discard(folder(result.batch))
            watcher.finished(result.batch, records)
            if result.error and ranks.size() > 1:
                break  # the other ranks are no longer in step


def _folder(store: Path, batch: Batch) -> Path:
    """Where a batch keeps its checkpoints: beside the store, so that a shared folder serves a cluster."""
    return store.absolute().with_suffix(".checkpoints") / engine.batch_id(batch)


def _discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # other batches still have theirs
        folder.parent.rmdir()


def _records(result: BatchResult) -> list[Record]:
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    if result.error:
        return [Record(run, "failed", Outcome(), result.environment, now, result.error) for run in result.batch]
    return [
        Record(run, outcome.status, outcome, result.environment, now)
        for run, outcome in zip(result.batch, result.outcomes, strict=True)
    ]
