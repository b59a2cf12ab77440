"""A filled table as text pages show it: our values, the paper's in a table of their own, what values lack as notes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_lowercase

from mimogc.report.tables import Entry, FilledTable, Row

NONE = "–"
WIDEST = 7  # columns side by side on the site


@dataclass(frozen=True, slots=True)
class CellText:
    """What stands in one cell."""

    text: str
    rank: str = ""  # "best", "second" or ""
    mark: str = ""  # the letter of a note
    of_paper: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A table that fits a page."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellText, ...]], ...]  # method and cells


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables and notes of a page of text."""

    ours: tuple[Block, ...]
    papers: tuple[Block, ...]  # none where the paper has one value for all columns, which then stands beside ours
    notes: tuple[tuple[str, str], ...]  # letter and what it says of the values that have it

    @property
    def legend(self) -> str:
        """What stands where there are no values."""
        shown = {cell.text for block in self.ours for _, cells in block.rows for cell in cells if not cell.of_paper}
        said = {"missing": "not computed so far", NONE: "the method has no such form, or not as the column has it"}
        return "; ".join(f"{text}: {meaning}" for text, meaning in said.items() if text in shown)


def layout(table: FilledTable) -> Layout:
    """The table in parts that a page is wide enough for; a row is in those parts for which it has a value."""
    entries = [entry for row in table.rows for entry in row.entries]
    remarks = dict.fromkeys(table.remark(entry) for entry in entries if entry.ours and table.remark(entry))
    letters = {remark: _letter(place) for place, remark in enumerate(remarks)}

    def ours(entry: Entry) -> CellText:
        if not entry.ours:
            return CellText("missing" if entry.possible else NONE)
        return CellText(entry.ours, entry.rank, letters.get(table.remark(entry), ""))

    def papers(entry: Entry) -> CellText:
        return CellText(entry.paper or NONE, entry.paper_rank, of_paper=True)

    shared = table.shared
    everywhere = range(len(table.columns))
    with_papers = [place for place in everywhere if any(row.entries[place].paper for row in table.rows)]
    return Layout(
        ours=tuple(_block(table, part, ours, lambda e: bool(e.ours), shared) for part in _parts(everywhere)),
        papers=()
        if shared or not with_papers
        else tuple(_block(table, part, papers, lambda e: bool(e.paper), False) for part in _parts(with_papers)),
        notes=tuple((letter, remark) for remark, letter in letters.items()),
    )


def _letter(place: int) -> str:
    """a to z, then aa, ab, …"""
    rest, last = divmod(place, len(ascii_lowercase))
    return (_letter(rest - 1) if rest else "") + ascii_lowercase[last]


def _parts(places: list[int] | range) -> list[list[int]]:
    """The columns in groups of about equal size."""
    groups = max(1, math.ceil(len(places) / WIDEST))
    ends = [round(len(places) * group / groups) for group in range(groups + 1)]
    return [list(places[start:end]) for start, end in pairwise(ends)]


def _block(
    table: FilledTable, part: list[int], shown: Callable[[Entry], CellText], has: Callable[[Entry], bool], shared: bool
) -> Block:
    """These columns, with the rows that have a value in one of them, or all rows where none has."""
    rows = [row for row in table.rows if any(has(row.entries[place]) for place in part)] or list(table.rows)

    def cells(row: Row) -> tuple[CellText, ...]:
        beside = (CellText(row.paper or NONE, row.paper_rank, of_paper=True),) * shared
        return (*beside, *(shown(row.entries[place]) for place in part))

    columns = (*("Paper",) * shared, *(table.columns[place] for place in part))
    return Block(columns, tuple((row.method, cells(row)) for row in rows))
