"""What the commands share: options, and how their values are read."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
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


def check_own_methods(names: Iterable[str]) -> None:
    """Refuse methods ``module:NAME`` whose module is nowhere, before torch is imported to load the others."""
    for name in names:
        module, colon, attribute = name.partition(":")
        if not colon:
            continue
        if not module or not attribute:
            raise UsageError(f"method: expected package.module:NAME, got {name!r}")
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        first = module.partition(".")[0]
        if first not in sys.modules and find_spec(first) is None:
            raise UsageError(f"method {name!r}: there is no module {first!r} in this folder or among what is installed")


def check_own_datasets(names: Iterable[str]) -> None:
    """Refuse datasets of one's own that are no ``npz:PATH`` of a file."""
    for name in names:
        kind, colon, path = name.partition(":")
        if not colon and Path(name).suffix:
            raise UsageError(f"--datasets: expected npz:PATH for a file of your own, got {name!r} without npz:")
        if not colon:
            continue
        if kind != "npz" or not path:
            raise UsageError(f"--datasets: expected npz:PATH for a file of your own, got {name!r}")
        if not Path(path).expanduser().is_file():
            raise UsageError(f"--datasets: there is no file {path} ({name})")


def check_file(option: str, file: Path) -> None:
    """Refuse what is no file that can be written: a folder, or a place in one that is not there."""
    if file.is_dir():
        raise UsageError(f"{option}: expected a file; {file} is a folder")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{option}: there is no folder {file.parent}")


def check_folder(option: str, folder: Path, make: bool = False) -> None:
    """Refuse what is no folder, or one that cannot be written to; it is made with `make`, or when first used."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"{option}: expected a folder; {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option}: expected a folder to write to; {there} cannot be written to")
    if make:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{option}: the folder {folder} cannot be made ({error.strerror})") from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the machine that name no file, as that of a full disk, name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}, writing", str(path)) from error
