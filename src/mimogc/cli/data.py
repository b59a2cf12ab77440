"""The commands ``mimogc data``: the datasets, and where their files are."""

from typing import Annotated

import typer

from mimogc.cli.options import JsonOption, names

data = typer.Typer(help="The datasets: what they are, and where their files are.", no_args_is_help=True)


@data.command("list", epilog="Example: mimogc data list")
def list_(as_json: JsonOption = False) -> None:
    """The datasets with their statistics."""
    from dataclasses import asdict

    from mimogc.cli import present
    from mimogc.data.catalog import list_datasets

    rows = [asdict(entry) for entry in list_datasets()]
    if as_json:
        print(present.as_json({"datasets": rows}))
    else:
        columns = ("name", "metric", "splits", "graphs", "nodes", "edges", "features", "classes", "bytes")
        present.table([{column: row[column] for column in columns} for row in rows])


@data.command(epilog="Example: mimogc data verify texas,zinc12k")
def verify(
    datasets: Annotated[
        str | None, typer.Argument(metavar="[LIST]", help="Only these datasets, comma-separated.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Where each file of the datasets was found, and whether it is the right one.

    Fails if a file is altered, or if a file of a dataset that was named is missing.
    """
    from dataclasses import asdict

    from mimogc.cli import present
    from mimogc.data.catalog import list_datasets
    from mimogc.data.catalog import verify as verify_files
    from mimogc.runs.options import known

    available = [entry.name for entry in list_datasets()]
    files = verify_files([known("dataset", name, available) for name in names("LIST", datasets)])
    wrong = [row for row in files if row.state == "altered" or (datasets and row.state == "missing")]
    if as_json:
        print(present.as_json({"files": [asdict(row) for row in files], "ok": not wrong}))
    else:
        present.table([{"dataset": f.dataset, "file": f.file, "found": f.found, "state": f.state} for f in files])
    return 1 if wrong else 0
