"""What methods and datasets are called in tables."""

from collections.abc import Iterable

from mimogc import methods
from mimogc.studies.zinc import PAPER_METHODS as PAPER_METHODS

NODES = ("texas", "cornell", "wisconsin", "film", "chameleon", "squirrel", "minesweeper")
DATASETS = {**{name: name.capitalize() for name in NODES}, "zinc": "ZINC", "zinc12k": "ZINC12k"}


def label(name: str, among: Iterable[str] = ()) -> str:
    """Of a dataset or a method; the name itself where neither is known.

    A file of one's own is called by its stem and, where another one ``among`` them has the same, by its folders too;
    a method of one's own by its label and, where another one has the same, by its module and name too.
    """
    if name.startswith("npz:"):
        others = [_parts(other) for other in set(among) - {name} if other.startswith("npz:")]
        own = _parts(name)
        count = next((n for n in range(1, len(own)) if all(own[-n:] != other[-n:] for other in others)), len(own))
        return "/".join(own[-count:])
    found = DATASETS.get(name) or methods.label(name)
    if ":" in name and any(methods.label(other) == found for other in set(among) - {name}):
        return f"{found} ({name})"
    return found


def _parts(name: str) -> list[str]:
    return name.removeprefix("npz:").removesuffix(".npz").split("/")


def in_order(found: Iterable[str]) -> tuple[str, ...]:
    """The methods of the paper, then those found beside them."""
    return (*PAPER_METHODS, *methods.in_order(set(found) - set(PAPER_METHODS)))
