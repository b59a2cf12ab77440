"""A run, which is one training with a stable identity; what it gives; and the record that is kept of it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scalar = str | int | float | bool
HParams = tuple[tuple[str, Scalar], ...]
Status = Literal["done", "diverged", "failed"]


def hparams(**values: Scalar) -> HParams:
    """Hyper-parameters in the form a :class:`Run` keeps: ``(name, value)`` pairs sorted by name."""
    return tuple(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class Run:
    """One training: everything that decides its result, and nothing else."""

    study: str
    dataset: str
    method: str
    variant: str
    hparams: HParams
    split: int
    seed: int

    def __post_init__(self) -> None:
        names = [name for name, _ in self.hparams]
        if names != sorted(set(names)):
            raise ValueError(f"hparams must be sorted by name and unique; got {names}")
        for name, value in self.hparams:
            if type(value) not in (str, int, float, bool):
                raise ValueError(f"hparams[{name!r}] must be a string, a bool or a number; got {value!r}")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"hparams[{name!r}] must be finite; got {value!r}")

    @property
    def id(self) -> str:
        """16 hexadecimal digits: the start of the SHA-256 of the canonical JSON of the run."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:16]

    def canonical(self) -> str:
        """The run as JSON with sorted keys and no spaces."""
        document = {
            "study": self.study,
            "dataset": self.dataset,
            "method": self.method,
            "variant": self.variant,
            "hparams": {name: _canonical_scalar(value) for name, value in self.hparams},
            "split": self.split,
            "seed": self.seed,
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def label(self) -> str:
        """The run in one line for people."""
        values = [f"{name}={value}" for name, value in self.hparams]
        parts = [self.study, self.dataset, self.method, self.variant, *values]
        return " ".join(part for part in [*parts, f"split={self.split}", f"seed={self.seed}"] if part)


def _canonical_scalar(value: Scalar) -> Scalar:
    # 1 == 1.0 in Python, so the two must not give equal runs different identities.
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one training gives. NaN and infinity are results: a run that diverges is ``"diverged"``."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, list[float]] = field(default_factory=dict)  #: small: thinned to a few hundred points
    seconds: float = 0.0
    status: Literal["done", "diverged"] = "done"

    def __post_init__(self) -> None:
        if self.status not in ("done", "diverged"):
            raise ValueError(f"status must be 'done' or 'diverged'; got {self.status!r}")


def thinned(points: int, **curves: list[float]) -> dict[str, list[float]]:
    """Curves over the epochs with at most so many points, evenly, and the ``epoch`` of each."""
    length = max(map(len, curves.values()))
    step = max(1, math.ceil(length / points))
    return {
        "epoch": [float(1 + i) for i in range(0, length, step)],
        **{name: curve[::step] for name, curve in curves.items()},
    }


@dataclass(frozen=True, slots=True)
class Record:
    """A stored row: a run, what it gave, when and on what. A failed run has an empty outcome and an error."""

    run: Run
    status: Status
    outcome: Outcome
    environment: Mapping[str, Scalar]  #: library versions, git revision, threads, platform
    finished_at: str  #: UTC, ISO 8601
    error: str = ""
