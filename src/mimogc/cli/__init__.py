"""The command line: parses and prints. Whatever is heavy is imported by the command that needs it."""

import atexit
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mimogc.cli.data import data
from mimogc.cli.options import JsonOption, StoreOption, check_file, check_folder, check_own_methods, check_store
from mimogc.cli.reproduce import INTERRUPTED, SETTINGS, reproduce
from mimogc.runs.options import UsageError
from mimogc.runs.store import DEFAULT as DEFAULT_STORE

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
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        code = 1
    except OSError as error:
        code = _complain(str(error), 1)
    # Everything is written and closed. Python would now take torch apart, module by module, for a second or more.
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)


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


app.command(context_settings=SETTINGS, epilog="Example: mimogc reproduce universality --quick --methods lmgc,acm")(
    reproduce
)


@app.command(epilog="Example: mimogc report --output report")
def report(
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write the pages into.")] = Path("report"),
    everything: Annotated[
        bool, typer.Option("--all", help="Show studies and columns without any result, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the report, a page and tables, from the stored results only."""
    check_store(store, create=False)
    check_folder("--output", output, make=store.is_file())
    from mimogc.cli import present
    from mimogc.report import write_report
    from mimogc.runs.store import Store

    page = write_report(store, output, everything)
    if as_json:
        print(present.as_json({"store": str(store), "report": str(page)}))
    else:
        print(f"wrote {page}")
    with Store(store) as results:
        if not results.studies():
            _say_what_there_is("runs", None, [])


@app.command(epilog="Example: mimogc methods lmgc")
def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Explain this one: equation, reference, options, use.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The methods and the studies, or one method explained."""
    from mimogc import studies
    from mimogc.cli import describe, present

    if name:
        check_own_methods([name])
    loaded = [studies.load(study) for study in studies.BUILT_IN]
    if as_json:
        document = describe.method_document(name, loaded) if name else describe.methods_document(loaded)
        print(present.as_json(document))
    elif name:
        describe.method(name, loaded)
    else:
        describe.methods(loaded)


@app.command(epilog="Example: mimogc export --format csv --study heterophilic --output runs.csv")
def export(
    kind: Annotated[str, typer.Option("--format", metavar="csv|parquet", help="Of the file.")] = "csv",
    study: Annotated[str | None, typer.Option(metavar="NAME", help="Only the runs of this study.")] = None,
    curves: Annotated[
        bool, typer.Option("--curves", help="A row per point of each run's curves, not per run.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; without it, or with -, CSV goes to stdout.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write the stored runs as one table, for pandas, R or a spreadsheet.

    Columns: what a run is, hparams.NAME, metrics.NAME. In Python: mimogc.runs.store.Store(PATH).frame().
    """
    from mimogc.runs import export as exporting
    from mimogc.runs.store import Store

    if kind not in exporting.FORMATS:
        raise UsageError(f"--format: expected one of {', '.join(exporting.FORMATS)}, got {kind!r}")
    if kind == "parquet" and (output is None or str(output) == "-"):
        raise UsageError(f"--output: expected a file for parquet, got {'nothing' if output is None else output}")
    if output is not None and str(output) == "-" and kind == "csv":
        output = None  # stdout, as elsewhere
    if output is not None:
        check_file("--output", output)
    check_store(store, create=False)
    with Store(store) as results:
        count = exporting.write(results, kind, output, study, curves)
        if not count:
            _say_what_there_is("curves" if curves else "runs", study, results.studies())
    if output is not None:
        print(f"wrote {count:,} rows to {output}", file=sys.stderr)


def _say_what_there_is(what: str, study: str | None, stored: Sequence[str]) -> None:
    of = f" of {study}" if study else ""
    print(f"no {what}{of}; the store has {', '.join(stored) or 'no runs'}", file=sys.stderr)


@app.command(epilog="Example: mimogc bench --json")
def bench(
    part: Annotated[
        str,
        typer.Argument(
            metavar="[zinc|large]",
            help="zinc: an epoch of every method and variant of ZINC12k. large: a graph of 124 million edges, 14 GB.",
        ),
    ] = "",
    as_json: JsonOption = False,
    device: Annotated[str, typer.Option(help="cpu, or cuda for the same table on a GPU.")] = "cpu",
) -> int:
    """Measure speed and memory on this machine, against plain and PyG's layers."""
    if part not in ("", "zinc", "large"):
        raise UsageError(f"bench: expected nothing, zinc or large, got {part!r}")
    if part and device != "cpu":
        raise UsageError(f"bench: {part} is measured on the processor; got --device {device}")
    from mimogc import bench as benchmarks
    from mimogc.cli import present

    def say(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    try:
        document = benchmarks.run(say, part, device)
    except ValueError as error:  # no such device
        raise UsageError(str(error)) from error
    if as_json:
        print(present.as_json(document))
    return 0


@app.command(epilog="Example: mimogc explore --no-browser")
def explore(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on this machine; 0 takes a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open a page, for this machine alone, to pick graphs and methods on and see their spectra, ranks and depth."""
    try:
        from mimogc.explore.server import serve

        serve(port, not no_browser)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mimogc"):
            raise
        raise RuntimeError(f'explore needs {error.name}; install it with: pip install "mimogc[explore]"') from error
