"""Studies that train the methods of the library, or of one's own: checked before anything starts."""

from mimogc import methods
from mimogc.runs.options import UsageError
from mimogc.runs.run import Scalar
from mimogc.runs.study import Options, Study

CALIBRATED = "calibrated"  # the `start` of runs whose layers were brought to unit scale, part of their identity
CHANNELS = 48  # of the layer built to see that it can be


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
            import torch

            try:
                with torch.random.fork_rng(devices=[]), torch.device("meta"):
                    methods.method(name).build(CHANNELS)
            except Exception as error:  # of whatever the module does
                text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                raise UsageError(f"method {name!r} cannot be used: {text}") from error

    def values(self, dataset: str, method: str, variant: str, options: Options) -> dict[str, Scalar]:
        start: dict[str, Scalar] = {"start": CALIBRATED} if methods.method(method).calibrated else {}
        return super().values(dataset, method, variant, options) | start


def takes(name: str, option: str) -> bool:
    """Whether a method takes an option; of one that cannot be found it is supposed."""
    record = methods.find(name)
    return record is None or option in record.options
