"""What a study is: it enumerates runs, computes them in batches, selects on validation and aggregates."""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mimogc.experiments.run import HParams, Outcome, Record, Run, Scalar


class UsageError(ValueError):
    """The user asked for something that does not exist or cannot be; the message is one line."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asks of a study. Empty means: what is usual in the study, or all that it has."""

    methods: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    lrs: tuple[float, ...] = ()  #: instead of the learning rates of the study
    seeds: int | None = None
    quick: bool = False
    paper_hparams: bool = False
    extras: tuple[tuple[str, Scalar], ...] = ()  #: the study's own options, see Study.extras
    asked: frozenset[str] | None = (
        None  #: which of methods, datasets and variants were named; set by `complete`
    )


@dataclass(frozen=True, slots=True)
class Context:
    """What the engine lends to a batch while it is computed."""

    progress: Callable[
        [float, Mapping[str, float]], None
    ]  #: fraction of the batch done in [0, 1], current metrics
    folder: Path  #: for checkpoints: of this batch alone, made when first used, removed once it is stored


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table: mean and standard deviation over the repeats at the selected hyper-parameters."""

    dataset: str
    method: str
    variant: str
    metric: str
    mean: float
    std: float
    count: int  #: repeats behind the mean
    expected: int  #: repeats of a complete cell
    hparams: HParams  #: the selected ones
    lacks: str = ""  #: what each repeat lacks, such as "4 of 10 splits"


class Study(Protocol):
    """One table or figure of the paper. Derive from it: what has a default here need not be defined again."""

    name: str
    title: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    variants: tuple[str, ...]
    usual: Mapping[
        str, tuple[str, ...]
    ] = {}  #: what is meant where none are named, if not all: {"variants": (…)}
    extras: Mapping[str, Scalar] = {}  #: further options and their defaults: {"steps": 40_000} gives --steps
    own_names: tuple[str, ...] = ()  #: kinds ("method", "dataset") whose names "form:place" are let through
    threads: int = 1  #: per batch; part of the study because the bits of a result can depend on it

    def runs(self, options: Options) -> list[Run]:
        """All runs asked for. The options come from :func:`complete`: names are known and lists filled."""

    def follow_up(self, options: Options, records: Sequence[Record]) -> list[Run]:
        """Runs that are known only from results: asked when all runs so far are stored, until nothing new comes.

        For instance the repeats at the hyper-parameters that validation selected; none by default.
        """
        return []

    def has(self, method: str, variant: str) -> bool:
        """Whether a method has a variant; by default every method has all."""
        return True

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        """Which of these runs are computed together: grouped by what a run is, not by its place here."""

    def prepare(self, runs: Sequence[Run]) -> None:
        """Check, once before anything starts, that the data of the runs is there; raise a one-line error."""
        return

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        """Train the runs of a batch; one outcome per run, in order."""

    def select(self, records: Sequence[Record]) -> list[Record]:
        """The records that count: those at the hyper-parameters chosen, on validation only, for each cell."""

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        """The cells of the tables, from stored records."""


def complete(study: Study, options: Options) -> Options:
    """``options`` with every name checked against the study and every empty list filled with what is usual."""
    if options.seeds is not None and options.seeds < 1:
        raise UsageError(f"--seeds must be at least 1; got {options.seeds}")
    for lr in options.lrs:
        if not (math.isfinite(lr) and lr > 0):
            raise UsageError(f"--lr must be a positive number; got {lr:g}")
    for name, _ in options.extras:
        known("option", name, study.extras)
    asked = options.asked
    if asked is None:
        asked = frozenset(kind for kind in ("methods", "datasets", "variants") if getattr(options, kind))
    return replace(
        options,
        methods=_chosen(study, "methods", options.methods),
        datasets=_chosen(study, "datasets", options.datasets),
        variants=_chosen(study, "variants", options.variants),
        asked=asked,
        extras=tuple({**study.extras, **dict(options.extras)}.items()),
    )


def _chosen(study: Study, kind: str, wanted: Sequence[str]) -> tuple[str, ...]:
    one, available = kind.removesuffix("s"), getattr(study, kind)
    if not wanted:
        return tuple(study.usual.get(kind, available))
    own = [name for name in dict.fromkeys(wanted) if ":" in name and one in study.own_names]
    names = {known(one, name, available) for name in wanted if name not in own}
    # In the study's order, each once, so that the same choice always gives the same list.
    return tuple(name for name in available if name in names) + tuple(own)


def known(kind: str, name: str, available: Sequence[str] | Mapping[str, object]) -> str:
    """``name`` as ``available`` spells it (upper and lower case are alike), else a "did you mean" error."""
    spelling = {candidate.lower(): candidate for candidate in available}
    if name.lower() in spelling:
        return spelling[name.lower()]
    close = difflib.get_close_matches(name.lower(), spelling, n=1)
    hint = f"did you mean {spelling[close[0]]!r}?" if close else f"known: {', '.join(available) or 'none'}"
    raise UsageError(f"unknown {kind} {name!r}; {hint}")


def able(options: Options, methods: Sequence[str], variant: str, what: str) -> list[str]:
    """The methods asked for that are among ``methods``, which alone have a variant.

    To name another one for nothing but this variant is an error, which says ``what``.
    """
    unable = [method for method in options.methods if method not in methods]
    if unable and "methods" in (options.asked or ()) and options.variants == (variant,):
        raise UsageError(f"{what} one of {', '.join(methods)}; got {', '.join(unable)}")
    return [method for method in options.methods if method in methods]


def parse_extras(
    study: Study, arguments: Sequence[str], common: Sequence[str]
) -> tuple[tuple[str, Scalar], ...]:
    """The study's own options in what is left of a command line; ``common`` are the names every study has."""
    flags = {_flag(name): name for name in study.extras}
    values: dict[str, Scalar] = {}
    rest = list(arguments)
    while rest:
        option, equals, text = rest.pop(0).partition("=")
        if not option.startswith("--"):
            raise UsageError(f"unexpected argument {option!r}; lists are separated by commas without spaces")
        flag = known("option", option, [*flags, *map(_flag, common)])
        default = study.extras[flags[flag]]
        if isinstance(default, bool):
            values[flags[flag]] = True
            continue
        if not equals and not rest:
            raise UsageError(f"{flag} needs a value")
        text = text if equals else rest.pop(0)
        try:
            values[flags[flag]] = type(default)(text)
        except ValueError:
            kind = "a whole number" if isinstance(default, int) else "a number"
            raise UsageError(f"{flag} must be {kind}; got {text!r}") from None
    return tuple(values.items())


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
