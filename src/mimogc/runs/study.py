"""What a study is: a grid of datasets, methods, variants, settings and repeats, declared as data, and one training."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from mimogc.runs import selection
from mimogc.runs.options import Option, UsageError, known
from mimogc.runs.run import HParams, Outcome, Record, Run, Scalar, hparams
from mimogc.runs.selection import Cell

KINDS = ("datasets", "methods", "variants")
SEEDS = Option("seeds", 1, "how many repeats", least=1, most=1000)


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
    extras: HParams = ()  #: values of the study's own options, see Study.options
    asked: frozenset[str] = frozenset()  #: which lists were named and which extras given; set by `complete`

    @property
    def values(self) -> dict[str, Scalar]:
        """The extras by name."""
        return dict(self.extras)


@dataclass(frozen=True, slots=True)
class Context:
    """What the engine lends to a batch while it is computed."""

    progress: Callable[[float, Mapping[str, float]], None]  #: fraction of the batch done in [0, 1], current metrics
    folder: Path  #: for checkpoints: of this batch alone, made when first used, removed once it is stored

    @property
    def results(self) -> Path:
        """The folder of the store, for what is to stay; that of a batch is two levels below."""
        return self.folder.parent.parent


class Study:
    """One table or figure. Derive from it: declare the grid, and define ``execute``; the rest has a default."""

    name: str
    title: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    variants: tuple[str, ...]
    usual: Mapping[str, tuple[str, ...]] = {}  #: what is meant where none are named, if not all: {"variants": (…)}
    quick: Mapping[str, tuple[str, ...]] = {}  #: the same under --quick
    lrs: tuple[float, ...] = ()  #: learning rates to select from
    seeds: int = 1  #: repeats of a complete cell, 1 under --quick; 0: nothing is random
    options: tuple[Option, ...] = ()  #: its own ones
    metric: str = ""  #: that the table shows
    selects: str = ""  #: the metric that selects a setting, if another one
    higher: tuple[str, ...] = ()  #: ends of the names of metrics of which more is better: ("accuracy",)
    paper_hparams: bool = False  #: whether there are settings that the paper selected
    own_names: tuple[str, ...] = ()  #: kinds ("method", "dataset") whose names "form:place" are let through
    threads: int = 1  #: per batch; part of the study because the bits of a result can depend on it
    reference: str = ""  #: "module:object", where it was loaded from

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        """Train the runs of a batch; one outcome per run, in order."""
        raise NotImplementedError

    def check(self, options: Options) -> None:
        """Refuse what cannot be used, before anything else is done with the options."""

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        """Whether there are such runs with these values of the options; by default always."""
        return True

    def settings(self, dataset: str, method: str, variant: str, options: Options) -> Sequence[Mapping[str, Scalar]]:
        """The hyper-parameters to select from: the learning rates, by default."""
        return [{"lr": lr} for lr in options.lrs or self.lrs] or [{}]

    def values(self, dataset: str, method: str, variant: str, options: Options) -> dict[str, Scalar]:
        """The hyper-parameters that all settings share: the values of the options."""
        values = options.values
        return {o.name: values[o.name] for o in self.options if not (o.late and values[o.name] == o.default)}

    def repeats(self, dataset: str, options: Options) -> Sequence[tuple[int, int]]:
        """Seed and split of the runs of a setting."""
        return [(seed, 0) for seed in range(options.seeds or 1)]

    def runs(self, options: Options) -> list[Run]:
        """All runs asked for. The options come from :func:`complete`: names are known and lists filled."""
        return [
            Run(self.name, dataset, method, variant, self._joined(values, setting), split, seed)
            for dataset in options.datasets
            for variant in options.variants
            for method in options.methods
            if self.has(dataset, method, variant, options.values)
            for values in [self.values(dataset, method, variant, options)]
            for setting in self.settings(dataset, method, variant, options)
            for seed, split in self.repeats(dataset, options)
        ]

    def _joined(self, values: Mapping[str, Scalar], setting: Mapping[str, Scalar]) -> HParams:
        if twice := sorted(values.keys() & setting.keys()):
            raise ValueError(f"settings of the study {self.name}: expected no names of its options, got {twice[0]!r}")
        return hparams(**values, **setting)

    def follow_up(self, options: Options, records: Sequence[Record]) -> list[Run]:
        """Runs that are known only from results: asked when all runs so far are stored, until nothing new comes.

        For instance the repeats at the hyper-parameters that validation selected; none by default.
        """
        return []

    def to_come(self, options: Options, records: Sequence[Record]) -> list[Run]:
        """What `follow_up` will ask for, as far as it can be said before: as many runs, perhaps at other settings.

        Asked of a plan that is only looked at, where runs lack. A study with a `follow_up` should have it.
        """
        return []

    def rough_seconds(self, run: Run) -> float | None:
        """What a step, an epoch or a molecule in one takes on another machine; asked where no time is stored."""
        return None

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        """Which of these runs are computed together: grouped by what a run is, not by its place here; each alone."""
        return [(run,) for run in runs]

    def prepare(self, runs: Sequence[Run]) -> None:
        """Check, once before anything starts, that the data of the runs is there; raise a one-line error."""

    def select(self, records: Sequence[Record]) -> list[Record]:
        """The records that count: for each cell those at the setting that is best by the metric that selects."""
        found = selection.cells(self, records)
        metric = self.selects or self.metric
        return [record for cell in found for record in (selection.best(self, cell, metric) if metric else cell)]

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        """The cells of the tables, from stored records."""
        return [
            selection.cell_of(self, cell, metric)
            for cell in selection.cells(self, self.select(records))
            for metric in self.metrics(cell[0].run.dataset)
        ]

    def needed(self, dataset: str) -> set[str]:
        """The metrics that every outcome must have, so that it can be selected and shown."""
        if type(self).select is not Study.select:
            return set()  # it knows what it looks at
        return {self.selects or self.metric, *self.metrics(dataset)} - {""}

    def metrics(self, dataset: str) -> tuple[str, ...]:
        """The metrics that a table shows of a dataset."""
        return (self.metric,) if self.metric else ()

    def lower_is_better(self, metric: str) -> bool:
        return not metric.endswith(self.higher)

    def full(self, option: Option, dataset: str, variant: str) -> Scalar:
        """The value of an option of extent in a complete cell."""
        return option.default

    def unusual(self, values: HParams) -> HParams:
        """The options of identity that are not as usual in these hyper-parameters; they make a column of their own."""
        given = dict(values)
        named = [(o, given.get(o.name, o.default)) for o in self.options if not o.extent]
        return tuple((option.name, value) for option, value in named if value != option.default)


def says_what_follows(study: Study) -> bool:
    """Whether it has no runs but those that can be counted before they are known."""
    return type(study).follow_up is Study.follow_up or type(study).to_come is not Study.to_come


def complete(study: Study, options: Options) -> Options:
    """``options`` with every name and value checked against the study, and what was not given filled in.

    What is given explicitly is never changed, nor by --quick.
    """
    for flag, used, possible in (
        ("--lr", options.lrs, study.lrs),
        ("--seeds", options.seeds is not None, study.seeds),
        ("--paper-hparams", options.paper_hparams, study.paper_hparams),
    ):
        if used and not possible:
            raise UsageError(f"{flag} has no meaning in the study {study.name}")
    for lr in options.lrs:
        if not 0 < lr < math.inf:
            raise UsageError(f"--lr: expected a number above 0, got {lr:g}")
    own = {option.name: option for option in study.options}
    given = {name: own[known("option", name, own)].read(value) for name, value in options.extras}
    filled = {o.name: o.default if o.quick is None or not options.quick else o.quick for o in study.options}
    seeds = min(1, study.seeds) if options.quick else study.seeds
    completed = replace(
        options,
        **{kind: _names(study, kind, options) for kind in KINDS},  # type: ignore[arg-type]
        seeds=seeds if options.seeds is None else int(SEEDS.read(options.seeds)),
        asked=options.asked or frozenset(kind for kind in KINDS if getattr(options, kind)) | given.keys(),
        extras=tuple({**filled, **given}.items()),
    )
    study.check(completed)
    _refuse_what_has_no_runs(study, completed)
    return completed


def _names(study: Study, kind: str, options: Options) -> tuple[str, ...]:
    one, available, wanted = kind.removesuffix("s"), getattr(study, kind), getattr(options, kind)
    if not wanted:
        usual = study.usual.get(kind, available)
        return tuple(study.quick.get(kind, usual) if options.quick else usual)
    own = [name for name in dict.fromkeys(wanted) if ":" in name and one in study.own_names]
    names = {known(one, name, available) for name in wanted if name not in own}
    # In the study's order, each once, so that the same choice always gives the same list.
    return tuple(name for name in available if name in names) + tuple(own)


def _refuse_what_has_no_runs(study: Study, options: Options) -> None:
    """A method or variant that was named, or is the usual one, but cannot be had with the rest of what was asked."""
    chosen = product(*(getattr(options, name) for name in KINDS))
    nothing = not any(study.has(dataset, method, variant, options.values) for dataset, method, variant in chosen)
    for place, kind in enumerate(KINDS):
        lists = [getattr(options, name) for name in KINDS]
        absent, lists[place] = lists[place], (*getattr(study, kind), *lists[place])
        combined = product(*lists)
        with_runs = {names[place] for names in combined if study.has(names[0], names[1], names[2], options.values)}
        absent = [name for name in absent if name not in with_runs]
        if (kind in options.asked or nothing) and absent and with_runs:
            rest = " ".join(arguments(study, replace(options, **{kind: ()})))  # type: ignore[arg-type]
            possible = ", ".join(name for name in getattr(study, kind) if name in with_runs)
            raise UsageError(
                f"--{kind}: expected some of {possible} with {rest or study.name}, got {', '.join(absent)}"
            )


def arguments(study: Study, options: Options) -> list[str]:
    """Names and values that are not usual, as they are typed after the name of the study."""
    found: list[str] = []
    for kind in KINDS:
        names = getattr(options, kind)
        if names and set(names) != set(study.usual.get(kind, getattr(study, kind))):
            found += [f"--{kind}", ",".join(names)]
    values = options.values
    for option in study.options:
        if values.get(option.name, option.default) != option.default:
            found += option.typed(values[option.name])
    return found
