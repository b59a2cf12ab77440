"""What methods and datasets are called in tables."""

from collections.abc import Iterable

from mimogc import methods

PAPER_METHODS = methods.names(lambda record: record.role == "paper")
NODES = ("texas", "cornell", "wisconsin", "film", "chameleon", "squirrel", "minesweeper")
DATASETS = {**{name: name.capitalize() for name in NODES}, "zinc": "ZINC", "zinc12k": "ZINC12k"}


def label(name: str) -> str:
    """Of a dataset or a method; the name itself where neither is known."""
    if name.startswith("npz:"):
        return name.rpartition("/")[2].removeprefix("npz:").removesuffix(".npz")
    return DATASETS.get(name) or methods.label(name)


def in_order(found: Iterable[str]) -> tuple[str, ...]:
    """The methods of the paper, then those found beside them."""
    return (*PAPER_METHODS, *methods.in_order(set(found) - set(PAPER_METHODS)))
