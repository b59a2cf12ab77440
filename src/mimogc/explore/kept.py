"""Cards that are kept from one start of the page to the next, and what has to be there before one is made.

The page opens with cards that are the same every time, and so are those of the tour: they are read from the user's
cache folder, so that nobody waits for torch to see them. They are made again after any change of the package; until
then the page opens with those that came with it.
"""

import hashlib
import threading
from functools import cache
from pathlib import Path

import mimogc
from mimogc.data.sources import cache_root

ready = threading.Event()  # the libraries are there, or nobody is importing them meanwhile
ready.set()
wanted = threading.Event()  # somebody waits for them, or has a page to look at meanwhile


def wait() -> None:
    """Until the libraries are there; two threads must not import torch at the same time."""
    wanted.set()
    ready.wait()


@cache
def folder() -> Path:
    """Of the cards of this state of the package: the names, sizes and times of its files."""
    root = Path(mimogc.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".md", ".mplstyle"))
    facts = [f"{path.relative_to(root)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return cache_root() / "explore" / hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _path(name: str, arguments: tuple[object, ...]) -> Path:
    return folder() / f"{name}-{hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]}.html"


def read(name: str, arguments: tuple[object, ...]) -> str | None:
    """The inside of a card, or None where it is not kept."""
    try:
        return _path(name, arguments).read_text(encoding="utf-8")
    except OSError:
        return None


def write(name: str, arguments: tuple[object, ...], inside: str) -> None:
    """Keep a card; where there is no room for it, do not. Cards of former states of the package go."""
    path = _path(name, arguments)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(inside, encoding="utf-8")
        part.replace(path)
        for former in folder().parent.iterdir():
            if former != folder():
                for file in former.iterdir():
                    file.unlink()
                former.rmdir()
    except OSError:
        return
