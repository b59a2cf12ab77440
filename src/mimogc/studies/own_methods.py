"""Studies that train the methods of the library, or of one's own: checked before anything starts."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mimogc import methods
from mimogc.runs.options import UsageError
from mimogc.runs.run import Record, Run, Scalar
from mimogc.runs.selection import Difference, paired_differences
from mimogc.runs.study import Options, Study

CALIBRATED = "calibrated"  # the `start` of runs whose layers were brought to unit scale, part of their identity
CHANNELS = 48  # of the layer built to see that it can be


@functools.cache
def selected_by_paper(study: str) -> dict[str, Any]:
    """The hyper-parameters that the paper selected, by its names of the methods; their order is the study's."""
    text = Path(__file__).with_name("paper_settings.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)[study]
    return found


class MethodStudy(Study):
    """A study of all methods that models for any graph can be made of, and of one's own."""

    own_names: tuple[str, ...] = ("method",)
    paper_hparams = True

    @property
    def methods(self) -> tuple[str, ...]:  # type: ignore[override]
        return methods.trained()

    def check(self, options: Options) -> None:
        """Build a layer of each of one's own; what is wrong with one is told as a wrong argument."""
        for name in options.methods:
            if name in methods.METHODS:
                continue
            from mimogc.models.width import built_to_look_at

            try:
                built_to_look_at(lambda name=name: methods.method(name).build(CHANNELS))  # type: ignore[misc]
            except Exception as error:  # of whatever the module does
                text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                raise UsageError(f"method {name!r} cannot be used: {text}") from error

    def differences(self, records: Sequence[Record], method: str = "lmgc") -> list[Difference]:
        """How far `method` is ahead of every other one, one's own too, in runs with the same split or seed."""
        plain = [r for r in records if r.run.variant in self.variants and not self.unusual(r.run.hparams)]
        return paired_differences(self, self.compared(plain), method, self.pair)

    def compared(self, records: Sequence[Record]) -> list[Record]:
        """Of records those that are compared with each other."""
        return self.select(records)

    def pair(self, run: Run) -> int:
        """What two runs have in common that are compared: their seed, unless the study says otherwise."""
        return run.seed

    def values(self, dataset: str, method: str, variant: str, options: Options) -> dict[str, Scalar]:
        start: dict[str, Scalar] = {"start": CALIBRATED} if methods.method(method).calibrated else {}
        return super().values(dataset, method, variant, options) | start


def takes(name: str, option: str) -> bool:
    """Whether a method takes an option; of one that cannot be found it is supposed."""
    record = methods.find(name)
    return record is None or option in record.options
