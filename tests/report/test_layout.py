"""The tables of the text pages: values alone in a cell, what they lack as notes, the paper's values apart."""

import re
from dataclasses import replace

from stored_results import full_table, record

from mimogc import studies
from mimogc.report.layout import Layout, layout
from mimogc.report.specs import HETEROPHILIC, UNIVERSALITY, ZINC12K
from mimogc.report.tables import fill
from mimogc.runs.run import hparams
from mimogc.runs.selection import Cell
from mimogc.studies.universality import STUDY


def molecule(method: str, mean: float, count: int, epochs: int, variant: str = "basic") -> Cell:
    return Cell("zinc12k", method, variant, "test_mae", mean, 0.0, count, 4, hparams(epochs=epochs, molecules=10_000))


def accuracy(method: str, dataset: str, variant: str = "residual") -> Cell:
    return Cell(dataset, method, variant, "test_accuracy", 70.0, 1.0, 1, 5, ())


def of_zinc12k(*cells: Cell) -> Layout:
    return layout(fill(ZINC12K, studies.load("zinc12k"), cells, [], everything=False))


def test_what_values_lack_is_a_letter_and_a_note() -> None:
    page = of_zinc12k(
        molecule("gatv2", 0.4, 1, 200), molecule("acm", 0.3, 1, 200), molecule("gin", 0.35, 1, 200),
        molecule("fagcn", 0.5, 2, 200), molecule("lmgc", 0.2, 4, 1_000),
    )  # fmt: skip
    (block,) = page.ours
    marks = {method: cells[0].mark for method, cells in block.rows}
    assert marks == {"GATv2": "", "FAGCN": "a", "ACM": "", "GIN": "", "LMGC": "b"}
    assert page.notes == (("a", "2 of 4 repeats, 200 of 1,000 epochs"), ("b", "complete"))


def test_a_cell_holds_one_value_and_no_more() -> None:
    page = of_zinc12k(molecule("acm", 0.3, 1, 200), molecule("lmgc", 0.2, 2, 60, "all"))
    texts = [cell.text for block in (*page.ours, *page.papers) for _, cells in block.rows for cell in cells]
    assert all(re.fullmatch(r"–|missing|[\d.]+( ± [\d.]+)?", text) for text in texts)
    (papers,) = page.papers
    assert papers.columns == page.ours[0].columns
    assert {method: cells[0].text for method, cells in papers.rows}["LMGC"] == "0.241 ± 0.018"


def test_what_stands_where_there_is_no_value_is_said() -> None:
    page = of_zinc12k(molecule("acm", 0.3, 1, 200), molecule("lmgc", 0.2, 2, 60, "rings"))
    assert page.legend == "missing: not computed so far; –: the method has no such form, or not as the column has it"
    whole = of_zinc12k(molecule("acm", 0.3, 1, 200))
    assert whole.legend == ""
    with_papers = layout(fill(UNIVERSALITY, STUDY, STUDY.aggregate(full_table()), []))
    assert "–" in {cell.text for _, cells in with_papers.ours[0].rows for cell in cells}  # MIMO-GC's in the paper
    assert with_papers.legend == ""


def test_a_deep_cell_that_can_be_had_is_missing_and_has_its_command() -> None:
    of = (("layers", 4), ("heads", 2), ("channels", 64))
    cell = replace(accuracy("gcn", "squirrel", "deep"), options=of)
    table = fill(HETEROPHILIC, studies.load("heterophilic"), [cell, accuracy("acm", "squirrel")], [], everything=False)
    place = next(number for number, column in enumerate(table.columns) if "deep" in column)
    (entry,) = (row.entries[place] for row in table.rows if row.method == "ACM")
    assert entry.possible
    assert "--variants deep" in entry.command
    assert "--layers 4" in entry.command


def test_runs_that_diverged_are_said_and_not_asked_for_again() -> None:
    cells = [replace(molecule("acm", 0.3, 4, 1_000), diverged=count) for count in (0, 1, 2)]
    for cell, said in zip(cells, ("", "1 run diverged", "2 runs diverged"), strict=True):
        table = fill(ZINC12K, studies.load("zinc12k"), [cell], [], everything=False)
        (entry,) = (entry for row in table.rows for entry in row.entries if entry.ours)
        assert (entry.diverged, table.remark(entry), entry.command) == (said, said, "")
        assert table.complete == 1
        assert table.standing == ""


def test_one_value_of_the_paper_for_all_columns_is_a_column() -> None:
    page = layout(fill(UNIVERSALITY, STUDY, STUDY.aggregate(full_table()), []))
    assert page.papers == ()
    assert page.ours[0].columns[0] == "Paper"
    assert dict(page.ours[0].rows)["ACM"][0].text == "0.49 ± 0.02"
    assert dict(page.ours[0].rows)["MIMO-GC"][0].text == "–"


def test_many_columns_are_several_tables_without_empty_rows() -> None:
    names = ("texas", "cornell", "wisconsin", "film", "chameleon", "squirrel")
    cells = [accuracy(method, name) for method in ("acm", "lmgc") for name in names]
    cells += [accuracy("lmgc", name, "averaged") for name in names]
    page = layout(fill(HETEROPHILIC, studies.load("heterophilic"), cells, [], everything=False))
    first, second = page.ours
    assert [method for method, _ in first.rows] == ["ACM", "LMGC"]
    assert [method for method, _ in second.rows] == ["LMGC"]
    assert len(first.columns) == len(second.columns) == 6
    (papers,) = page.papers  # of the columns that the paper has
    assert len(papers.columns) == 6


def test_letters_do_not_run_out() -> None:
    runs = [record("acm", "n64", 0.5, steps=steps) for steps in (1_000,)]
    cells = STUDY.aggregate(runs)
    many = [
        Cell("erdos_renyi", f"own:{n}", "n64", "mse", 0.5, 0.0, 1, 3, hparams(lr=0.01, steps=1_000 + n))
        for n in range(30)
    ]
    notes = layout(fill(UNIVERSALITY, STUDY, [*cells, *many], [], everything=False)).notes
    assert [letter for letter, _ in notes][25:29] == ["z", "aa", "ab", "ac"]
