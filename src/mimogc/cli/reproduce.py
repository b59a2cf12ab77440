"""The command ``mimogc reproduce``: what is asked for is checked before torch is imported."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mimogc.cli.options import (
    JsonOption,
    StoreOption,
    check_folder,
    check_own_datasets,
    check_own_methods,
    check_store,
    names,
    naming,
    number,
)
from mimogc.runs.options import UsageError, parse
from mimogc.runs.store import DEFAULT as DEFAULT_STORE

if TYPE_CHECKING:
    from mimogc.runs.study import Options, Study

INTERRUPTED = 130
BACKENDS = ("native", "reference", "triton")  # of MIMOGC_BACKEND
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
_LIST = "LIST"
_OWN = "A dataset of your own is npz:PATH."


def reproduce(
    context: typer.Context,
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="Its name (see mimogc methods) or module:object.", show_default=False)
    ] = "",
    methods: Annotated[
        str | None, typer.Option(metavar=_LIST, help="Only these, comma-separated; one's own is package.module:NAME.")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(metavar=_LIST, help=f"Only these datasets, comma-separated. {_OWN}")
    ] = None,
    variants: Annotated[str | None, typer.Option(metavar=_LIST, help="Only these variants, comma-separated.")] = None,
    lr: Annotated[str | None, typer.Option(metavar=_LIST, help="Other learning rates, comma-separated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A true but small version; an option that is given counts all the same.")
    ] = False,
    paper_hparams: Annotated[
        bool, typer.Option("--paper-hparams", help="The settings the paper selected instead of the grid.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes that compute at the same time, where one would take longer.")
    ] = 1,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Compute on this Ray cluster instead (host:port).")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write live and final curves there for TensorBoard.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, compute nothing.")] = False,
    as_json: JsonOption = False,
    show_help: Annotated[
        bool, typer.Option("--help", help="Show this; after STUDY show what that study takes.")
    ] = False,
) -> int:
    """Compute the runs of a study that the store does not have yet.

    Stop it whenever you like: the same command goes on where it was. Each study has options of its own, such as
    --steps or --epochs: mimogc reproduce STUDY --help lists them.
    """
    if show_help:
        return _help(context, study)
    from mimogc import studies
    from mimogc.runs import ranks
    from mimogc.runs.study import Options, complete

    if not study or study.startswith("-"):
        raise UsageError(f"the study comes first: mimogc reproduce STUDY {study}".strip())
    if jobs > 1 and cluster:
        raise UsageError("--jobs is for this machine and --cluster for another; give one of them")
    if ranks.size() > 1 and (jobs > 1 or cluster):
        raise UsageError("torchrun is for one run on many processes, --jobs and --cluster for many runs; use one")
    if "MIMOGC_BACKEND" in os.environ:
        _check_backend()
    _say_what_is_read([study])
    loaded = studies.load(study)
    if "method" in loaded.own_names:
        check_own_methods(names("--methods", methods))
    if "dataset" in loaded.own_names:
        check_own_datasets(names("--datasets", datasets))
    if tensorboard is not None:
        check_folder("--tensorboard", tensorboard)
    common = [option for parameter in context.command.params for option in parameter.opts]
    options = Options(
        methods=names("--methods", methods),
        datasets=names("--datasets", datasets),
        variants=names("--variants", variants),
        lrs=tuple(number("--lr", text) for text in names("--lr", lr)),
        seeds=seeds,
        quick=quick,
        paper_hparams=paper_hparams,
        extras=tuple(parse(loaded.options, context.args, common).items()),
    )
    _say_what_is_read([*options.methods, *options.datasets])
    complete(loaded, options)  # what is wrong is said before a file is made
    _read_own(options)
    check_store(store, create=not dry_run)
    if dry_run:
        return _dry_run(loaded, options, store, as_json)
    return _reproduce(loaded, options, store, jobs, cluster, tensorboard, as_json)


def _help(context: typer.Context, study: str) -> int:
    if not study:
        print(context.get_help())
        return 0
    from mimogc import studies
    from mimogc.cli import describe

    describe.study(studies.load(study))
    return 0


def _say_what_is_read(names: Sequence[str]) -> None:
    """A word before one's own files are read, which takes seconds where torch is imported for it."""
    own = [name for name in names if ":" in name]
    if own and "torch" not in sys.modules:
        print(f"reading {', '.join(own)}", file=sys.stderr, flush=True)


def _read_own(options: "Options") -> None:
    """Refuse files of one's own that cannot be used."""
    if own := [name for name in options.datasets if ":" in name]:
        from mimogc.data import DataError, load_nodes

        try:
            for name in own:
                load_nodes(name)
        except DataError as error:
            raise UsageError(f"--datasets: {error}") from error


def _check_backend() -> None:
    if (value := os.environ["MIMOGC_BACKEND"]) not in BACKENDS:
        raise UsageError(f"MIMOGC_BACKEND: expected {', '.join(BACKENDS)} or nothing, got {value!r}")
    if value != "triton":
        return
    from mimogc.ops import backend

    try:
        backend()
    except ValueError as error:
        raise UsageError(str(error)) from error


def _reproduce(
    study: "Study",
    options: "Options",
    store: Path,
    jobs: int,
    cluster: str | None,
    tensorboard: Path | None,
    as_json: bool,
) -> int:
    from rich.console import Console

    from mimogc.cli import present
    from mimogc.cli.progress import Display
    from mimogc.runs import driver, ranks

    if ranks.rank():
        driver.assist(study, store)
        return 0
    console = Console(stderr=True)
    before: Callable[..., object] | int | None = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on the driver ends in good order
    # Ray and studies may print; stdout is for the result alone.
    with redirect_stdout(sys.stderr), naming(store), ExitStack() as stack:
        display = stack.enter_context(Display(console, study.title))
        watchers: list[driver.Watcher] = [display]
        if tensorboard is not None:
            from mimogc.cli.tensorboard import Events

            watchers.append(stack.enter_context(Events(tensorboard)))
        summary = driver.reproduce(study, options, store, driver.Watchers(watchers), jobs=jobs, cluster=cluster)
    if as_json:
        print(present.as_json(present.document(study, store, summary)))
    else:
        present.results(study, summary)
    present.conclusion(console, summary, store)
    return INTERRUPTED if summary.interrupted else 1 if summary.count("failed") else 0


def _dry_run(study: "Study", options: "Options", store: Path, as_json: bool) -> int:
    from mimogc.cli import present
    from mimogc.runs import driver
    from mimogc.runs.store import Store

    summary = driver.Summary(driver.Plan([], []), 0)
    if store.exists():
        with Store(store) as results:
            summary.stored = results.records(study.name)
    summary.plan = driver.make_plan(study, options, summary.stored)
    summary.stored_before = len(summary.plan.runs) - summary.plan.missing
    later = driver.to_come(study, options, summary.plan, summary.stored)
    if as_json:
        print(present.as_json(present.document(study, store, summary) | present.following(study, summary, later)))
    else:
        present.plan(study, options, summary, later)
    return 0
