"""The command line: parses and prints. Whatever is heavy is imported by the command that needs it."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mimogc.cli_data import data
from mimogc.cli_options import DEFAULT_STORE, JsonOption, StoreOption, check_store, names, number

if TYPE_CHECKING:
    from mimogc.experiments.run import Record
    from mimogc.experiments.study import Options, Study

INTERRUPTED = 130

app = typer.Typer(
    help="MIMO graph convolutions: reproduce the experiments of the paper and look at the results.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"mimogc {version('mimogc')}")
        raise typer.Exit


@app.callback()
def _general(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The command ``mimogc``: an error is one line on stderr and a non-zero exit code."""
    signal.signal(signal.SIGINT, _leave)
    sys.exit(run(sys.argv[1:]))


def _leave(*_: object) -> None:
    # Not an exception: in the middle of `import torch` it can be swallowed and leave half a module behind.
    os._exit(_complain("interrupted", INTERRUPTED))


def run(arguments: Sequence[str]) -> int:
    """The exit code of ``mimogc`` with these arguments."""
    try:
        return int(typer.main.get_command(app).main(list(arguments), "mimogc", standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from mimogc.experiments.study import UsageError

        if os.environ.get("MIMOGC_DEBUG", "0") != "0":
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error, file=sys.stderr)
            return 2
        if hasattr(error, "format_message"):  # typer's own: a wrong option or value
            return _complain(error.format_message(), 2)
        if isinstance(error, UsageError):
            return _complain(str(error), 2)
        if isinstance(error, RuntimeError | OSError):  # of the store, the engine, the data, the machine
            return _complain(str(error), 1)
        return _complain(f"{type(error).__name__}: {error} (MIMOGC_DEBUG=1 shows where)", 1)


def _complain(message: str, code: int) -> int:
    print(f"mimogc: {' '.join(message.split())}", file=sys.stderr)
    return code


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: mimogc reproduce universality --quick --methods lmgc,acm --jobs 2",
)
def reproduce(
    context: typer.Context,
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="Its name (see mimogc methods) or module:object.")
    ],
    methods: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these methods, comma-separated.")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these datasets, comma-separated.")
    ] = None,
    variants: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these variants, comma-separated.")
    ] = None,
    lr: Annotated[
        str | None, typer.Option(metavar="LIST", help="Other learning rates, comma-separated.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A true but small version, for a first look.")
    ] = False,
    paper_hparams: Annotated[
        bool, typer.Option("--paper-hparams", help="The settings the paper selected instead of the grid.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Batches computed at the same time on this machine.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Compute on this Ray cluster instead (host:port).")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be computed, compute nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Compute the runs of a study that the store does not have yet.

    Stop it whenever you like: the same command goes on where it was. A study may have options of its own, such as
    --steps or --epochs; mimogc methods lists them.
    """
    from mimogc.experiments import ranks, registry
    from mimogc.experiments.study import Options, UsageError, parse_extras

    if study.startswith("-"):
        raise UsageError(f"the study comes first: mimogc reproduce STUDY {study} ...")
    if jobs > 1 and cluster:
        raise UsageError("--jobs is for this machine and --cluster for another; give one of them")
    if ranks.size() > 1 and (jobs > 1 or cluster):
        raise UsageError(
            "torchrun is for one run on many processes, --jobs and --cluster for many runs; use one"
        )
    loaded = registry.load(study)
    options = Options(
        methods=names("--methods", methods),
        datasets=names("--datasets", datasets),
        variants=names("--variants", variants),
        lrs=tuple(number("--lr", text) for text in names("--lr", lr)),
        seeds=seeds,
        quick=quick,
        paper_hparams=paper_hparams,
        extras=parse_extras(loaded, context.args, list(reproduce.__annotations__)),
    )
    check_store(store, create=not dry_run)
    if dry_run:
        return _dry_run(loaded, options, store, as_json)
    return _reproduce(study, loaded, options, store, jobs, cluster, as_json)


def _reproduce(
    name: str, study: "Study", options: "Options", store: Path, jobs: int, cluster: str | None, as_json: bool
) -> int:
    from rich.console import Console

    from mimogc.experiments import driver, present, ranks
    from mimogc.experiments.progress import Display
    from mimogc.experiments.store import Store

    if ranks.rank():
        driver.assist(name, store)
        return 0
    console = Console(stderr=True)
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on the driver ends in good order
    # Ray and studies may print; stdout is for the result alone.
    with redirect_stdout(sys.stderr), Display(console) as display:
        summary = driver.reproduce(name, options, store, display, jobs=jobs, cluster=cluster)
    with Store(store) as results:
        records = results.records(study.name)
        failures = results.failures(study.name)
    if as_json:
        print(present.as_json(present.document(study, store, summary, records, failures)))
    else:
        present.results(study, summary.plan, records)
    present.conclusion(console, summary, store)
    return INTERRUPTED if summary.interrupted else 1 if summary.count("failed") else 0


def _dry_run(study: "Study", options: "Options", store: Path, as_json: bool) -> int:
    from mimogc.experiments import driver, present
    from mimogc.experiments.store import Store

    records: list[Record] = []
    if store.exists():
        with Store(store) as results:
            records = results.records(study.name)
    plan = driver.make_plan(study, options, records)
    if as_json:
        summary = driver.Summary(plan, len(plan.runs) - plan.missing)
        print(present.as_json(present.document(study, store, summary, records, [])))
    else:
        present.plan(plan)
    return 0


@app.command(epilog="Example: mimogc report --output report")
def report(
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write the pages into.")] = Path(
        "report"
    ),
    as_json: JsonOption = False,
) -> None:
    """Write the report, a page and tables, from the stored results only."""
    from mimogc.experiments import present
    from mimogc.report import write_report

    check_store(store, create=False)
    page = write_report(store, output)
    if as_json:
        print(present.as_json({"store": str(store), "report": str(page)}))
    else:
        print(f"wrote {page}")


@app.command(epilog="Example: mimogc methods --json")
def methods(as_json: JsonOption = False) -> None:
    """The methods and the studies: what they are called and what options they have."""
    from mimogc.experiments import present, registry

    studies = [registry.load(name) for name in registry.names()]
    if as_json:
        print(present.as_json(present.methods_document(studies)))
    else:
        present.methods(studies)


@app.command(epilog="Example: mimogc bench --json")
def bench(as_json: JsonOption = False) -> int:
    """Measure speed and memory on this machine, against plain and PyG's layers."""
    from mimogc.experiments import bench as benchmarks
    from mimogc.experiments import present

    document = benchmarks.run(
        say=lambda line: print(line, file=sys.stderr if as_json else sys.stdout, flush=True)
    )
    if as_json:
        print(present.as_json(document))
    return 0


@app.command(epilog="Example: mimogc explore --no-browser")
def explore(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on this machine; 0 takes a free one.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open a page, for this machine alone, to pick graphs and methods on and see their spectra, ranks and depth."""
    try:
        from mimogc.explore.server import serve

        serve(port, not no_browser)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mimogc"):
            raise
        raise RuntimeError(
            f'explore needs {error.name}; install it with: pip install "mimogc[explore]"'
        ) from error
