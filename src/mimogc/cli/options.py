"""What the commands share: options, and how their values are read."""

from pathlib import Path
from typing import Annotated

import typer

from mimogc.runs.options import UsageError
from mimogc.runs.store import DEFAULT as DEFAULT_STORE

StoreOption = Annotated[Path, typer.Option("--store", metavar="PATH", help="The SQLite file of results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, all else on stderr.")]


def names(option: str, text: str | None) -> tuple[str, ...]:
    """The names in a list separated by commas; none where the option was not given, which means what is usual."""
    if text is None:
        return ()
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise UsageError(f"{option}: expected at least one value, got {text!r}")
    return found


def number(option: str, text: str) -> float:
    """The number that an option was given."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option}: expected a number, got {text!r}") from None


def check_store(store: Path, create: bool) -> None:
    """Refuse what can be no store; with `create` make the folder of the default one."""
    if store == DEFAULT_STORE and create:
        store.parent.mkdir(exist_ok=True)
    if store.is_dir():
        raise UsageError(f"--store: expected a file; {store} is a folder")
    if store != DEFAULT_STORE and not store.parent.is_dir():
        raise UsageError(f"--store: there is no folder {store.parent}")
