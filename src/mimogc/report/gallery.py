"""The figures of the study `figures`, drawn again from their stored numbers for the page."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mimogc.runs.run import Record
from mimogc.studies.figures import FIGURES, draw


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure; title and caption are also written in the picture itself."""

    name: str
    title: str
    data: str  # the SVG as a data address, so that the page needs no other file


@dataclass(frozen=True, slots=True)
class Gallery:
    """All figures there are numbers for, and the command that computes the others."""

    pictures: list[Picture]
    missing: list[str]  # titles
    command: str


def gallery(records: Sequence[Record], folder: Path, options: Sequence[str]) -> Gallery:
    """Draw every stored figure as SVG and PNG into `folder`."""
    stored = {record.run.variant: record.outcome.curves for record in records}
    pictures = []
    for name, figure in FIGURES.items():
        if name in stored:
            files = draw(name, folder, stored[name])
            encoded = base64.b64encode(files[0].read_bytes()).decode()
            pictures.append(Picture(name, figure.title, f"data:image/svg+xml;base64,{encoded}"))
    absent = {name: figure.title for name, figure in FIGURES.items() if name not in stored}
    chosen = ["--variants", ",".join(absent)] if pictures else []
    command = " ".join(["mimogc", "reproduce", "figures", *chosen, *options])
    return Gallery(pictures, list(absent.values()), command)
