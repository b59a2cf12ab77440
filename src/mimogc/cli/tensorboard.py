"""The curves of a study for TensorBoard, or for W&B, which reads the same files: live, and complete at the end."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from mimogc.runs.driver import Plan
from mimogc.runs.engine import Batch, batch_id
from mimogc.runs.run import Record, Run

AXES = ("epoch", "step")  # names of curves that count, and the others stand over
LENGTHS = ("epochs", "steps")  # the hyper-parameters that say how far they count
THOUSANDTHS = 1000


class Events:
    """A watcher that writes event files below a folder.

    Each run has a folder of its own: while it is computed its metrics are under ``live/``, over its epochs or steps;
    once it is finished its curves and its metrics stand beside them. Runs that are computed as one, such as those of
    Table 1, have one more folder, in which the best of them is ``live/``, over thousandths of the batch.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RuntimeError(
                '--tensorboard needs tensorboard; install it with: pip install "mimogc[tensorboard]"'
            ) from error
        self._make, self.folder = SummaryWriter, folder
        self.live: dict[Batch, dict[str, Any]] = {}  # writers by the names of their folders

    def __enter__(self) -> "Events":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for batch in list(self.live):
            self._close(batch)

    def _close(self, batch: Batch) -> None:
        for writer in self.live.pop(batch, {}).values():
            writer.close()

    def started(self, plan: Plan) -> None:
        """Nothing to draw yet."""

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None:
        name, step = _place(batch, fraction)
        writers = self.live.setdefault(batch, {})
        if name not in writers:
            writers[name] = self._make(str(self.folder / batch[0].study / name), flush_secs=2)
        for metric, value in metrics.items():
            writers[name].add_scalar(f"live/{metric}", value, step)

    def finished(self, batch: Batch, records: Sequence[Record]) -> None:
        self._close(batch)
        for record in records:
            if record.status != "failed":
                self._write(record)

    def _write(self, record: Record) -> None:
        run, curves = record.run, record.outcome.curves
        axis = next((curves[name] for name in AXES if name in curves), None)
        with self._make(str(self.folder / run.study / _folder(run))) as writer:
            for key, values in curves.items():
                if key not in AXES:
                    places = axis if axis is not None and len(axis) == len(values) else range(len(values))
                    for place, value in zip(places, values, strict=True):
                        writer.add_scalar(f"curves/{key}", value, int(place))
            for metric, value in record.outcome.metrics.items():
                writer.add_scalar(f"result/{metric}", value, 0)


def _place(batch: Batch, fraction: float) -> tuple[str, int]:
    """The folder of what is being computed, and its epoch or step; thousandths where a run does not say how many.

    Runs that differ in their split alone are computed one after the other, each as large a part of the batch.
    """
    if any(replace(run, split=batch[0].split) != batch[0] for run in batch):
        return f"{_name(batch[0])} ({len(batch)} runs, {batch_id(batch)[:6]})", round(THOUSANDTHS * fraction)
    done = fraction * len(batch)
    number = min(max(0, math.ceil(done - 1e-9) - 1), len(batch) - 1)
    values = dict(batch[number].hparams)
    length = next((int(values[name]) for name in LENGTHS if name in values), THOUSANDTHS)
    return _folder(batch[number]), round(length * (done - number))


def _folder(run: Run) -> str:
    return f"{_name(run)} split {run.split} seed {run.seed} {run.id[:6]}"


def _name(run: Run) -> str:
    """Readable, and fit for a file: a name of one's own may have slashes and colons."""
    values = dict(run.hparams)
    chosen = [f"{key}={values[key]}" for key in ("lr", "dropout", "layers") if key in values]
    text = " ".join([run.dataset, run.method, run.variant, *chosen])
    return "".join("-" if character in '/\\:*?"<>|' else character for character in text)
