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

from mimogc.experiments import engine, ranks, registry
from mimogc.experiments.engine import Batch, BatchResult
from mimogc.experiments.run import Outcome, Record, Run
from mimogc.experiments.store import Store
from mimogc.experiments.study import Options, Study, complete


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs asked for and, in batches, those of them that the store does not have."""

    runs: list[Run]
    batches: list[Batch]

    @property
    def missing(self) -> int:
        return sum(map(len, self.batches))


@dataclass(slots=True)
class Summary:
    """What became of the runs asked for."""

    plan: Plan  #: as it is at the end
    stored_before: int
    records: list[Record] = field(default_factory=list)  #: written by this call, failed runs too
    interrupted: bool = False
    seconds: float = 0.0

    def count(self, status: str) -> int:
        return sum(record.status == status for record in self.records)


class Watcher(Protocol):
    """Whoever wants to see the work go on."""

    def started(self, plan: Plan) -> None: ...

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None: ...

    def finished(self, batch: Batch, records: Sequence[Record]) -> None: ...


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


def reproduce(
    name: str,
    options: Options,
    store: str | Path,
    watcher: Watcher,
    *,
    jobs: int = 1,
    cluster: str | None = None,
) -> Summary:
    """Bring the store to have every run asked for; safe to stop and to repeat at any moment.

    Args:
        name: the name of a study, or ``module:object``.
        options: which runs of it.
        store: path of the SQLite file of results.
        watcher: told about the work.
        jobs: batches computed at the same time on this machine.
        cluster: address of a Ray cluster to compute on instead.
    """
    study = registry.load(name)
    start = time.monotonic()
    with Store(store, write=True) as results, ranks.group():
        plan = make_plan(study, options, results.records(study.name))
        summary = Summary(plan, len(plan.runs) - plan.missing)
        study.prepare([run for batch in plan.batches for run in batch])
        try:
            while plan.batches and not summary.count("failed"):
                watcher.started(plan)
                ranks.agree(plan.batches)
                _compute(name, study, plan, results, watcher, summary, jobs, cluster)
                plan = make_plan(study, options, results.records(study.name))
            if not summary.count("failed"):  # after a failure torchrun ends the other ranks
                ranks.agree([])
        except KeyboardInterrupt:
            summary.interrupted = True
        summary.plan = make_plan(study, options, results.records(study.name))
        summary.seconds = time.monotonic() - start
        return summary


def assist(name: str, store: str | Path) -> None:
    """What the ranks above 0 do under torchrun: compute the batches of rank 0 along with it, store nothing."""
    with ranks.group():
        while batches := ranks.agree([]):
            for result in engine.in_process(
                registry.reference(name), batches, partial(_folder, Path(store)), lambda *_: None
            ):
                if result.error:
                    raise RuntimeError(result.error.partition("\n")[0])


def _compute(
    name: str,
    study: Study,
    plan: Plan,
    results: Store,
    watcher: Watcher,
    summary: Summary,
    jobs: int,
    cluster: str | None,
) -> None:
    compute: Callable[..., engine.Results] = engine.in_process
    if cluster is not None or min(jobs, len(plan.batches)) > 1:
        compute = partial(engine.on_ray, threads=study.threads, jobs=jobs, address=cluster)
    folder = partial(_folder, results.path)
    with closing(compute(registry.reference(name), plan.batches, folder, watcher.progress)) as computed:
        for result in computed:
            records = _records(result)
            results.add(records)
            summary.records += records
            if not result.error:
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
        return [
            Record(run, "failed", Outcome(), result.environment, now, result.error) for run in result.batch
        ]
    return [
        Record(run, outcome.status, outcome, result.environment, now)
        for run, outcome in zip(result.batch, result.outcomes, strict=True)
    ]
