"""The values printed in the paper (`published.csv`), and where and why we differ (`notes.md`)."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mimogc._texts import read_texts


@dataclass(frozen=True, slots=True)
class Published:
    """One entry of a table of the paper."""

    mean: float
    std: float


Key = tuple[str, str, str, str, str]  # table, method, dataset, variant, metric


@cache
def published() -> dict[Key, Published]:
    """Every entry of every table of the paper."""
    with Path(__file__).with_name("published.csv").open(newline="", encoding="utf-8") as file:
        return {
            (row["table"], row["method"], row["dataset"], row["variant"], row["metric"]): Published(
                float(row["mean"]), float(row["std"])
            )
            for row in csv.DictReader(file)
        }


def notes(*tables: str) -> tuple[str, ...]:
    """What there is to say of these tables, in plain words."""
    texts = read_texts(Path(__file__).with_name("notes.md"))
    return tuple(note for table in tables for note in texts[table])
