"""The curves of a study for TensorBoard, or for W&B, which reads the same files: live, and complete at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mimogc.runs.driver import Plan
from mimogc.runs.engine import Batch, batch_id
from mimogc.runs.run import Record, Run

AXES = ("epoch", "step")  # names of curves that count, and the others stand over
THOUSANDTHS = 1000


class Events:
    """A watcher that writes event files below a folder.

    While a batch is computed its metrics are under ``live/``, over thousandths of the batch; each finished run has a
    folder of its own, with its curves over epochs or steps and its metrics.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RuntimeError(
                '--tensorboard needs tensorboard; install it with: pip install "mimogc[tensorboard]"'
            ) from error
        self._make, self.folder = SummaryWriter, folder
        self.live: dict[Batch, Any] = {}

    def __enter__(self) -> "Events":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self.live.values():
            writer.close()

    def started(self, plan: Plan) -> None:
        """Nothing to draw yet."""

    def progress(self, batch: Batch, fraction: float, metrics: Mapping[str, float]) -> None:
        if batch not in self.live:
            name = f"{_name(batch[0])} ({len(batch)} runs, {batch_id(batch)[:6]})"
            self.live[batch] = self._make(str(self.folder / batch[0].study / name), flush_secs=2)
        for metric, value in metrics.items():
            self.live[batch].add_scalar(f"live/{metric}", value, round(THOUSANDTHS * fraction))

    def finished(self, batch: Batch, records: Sequence[Record]) -> None:
        if batch in self.live:
            self.live.pop(batch).close()
        for record in records:
            if record.status != "failed":
                self._write(record)

    def _write(self, record: Record) -> None:
        run, curves = record.run, record.outcome.curves
        name = f"{_name(run)} split {run.split} seed {run.seed} {run.id[:6]}"
        axis = next((curves[name] for name in AXES if name in curves), None)
        with self._make(str(self.folder / run.study / name)) as writer:
            for key, values in curves.items():
                if key not in AXES:
                    places = axis if axis is not None and len(axis) == len(values) else range(len(values))
                    for place, value in zip(places, values, strict=True):
                        writer.add_scalar(f"curves/{key}", value, int(place))
            for metric, value in record.outcome.metrics.items():
                writer.add_scalar(f"result/{metric}", value, 0)


def _name(run: Run) -> str:
    """Readable, and fit for a file: a name of one's own may have slashes and colons."""
    values = dict(run.hparams)
    chosen = [f"{key}={values[key]}" for key in ("lr", "dropout", "layers") if key in values]
    text = " ".join([run.dataset, run.method, run.variant, *chosen])
    return "".join("-" if character in '/\\:*?"<>|' else character for character in text)
