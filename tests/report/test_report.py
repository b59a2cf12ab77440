"""The report as files: what is in it with all results, with some, with none, and with hostile text."""

import csv
import math
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from stored_results import ENVIRONMENT, MEANS, full_table, node_record, record

from mimogc import studies
from mimogc.cli import run as command_line
from mimogc.report import published, write_report
from mimogc.report.names import label
from mimogc.report.specs import HETEROPHILIC, TABLES, UNIVERSALITY, ZINC, ZINC12K
from mimogc.report.tables import fill
from mimogc.runs.driver import make_plan
from mimogc.runs.options import parse
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.selection import Cell
from mimogc.runs.store import Store, StoreError
from mimogc.runs.study import Options
from mimogc.studies.universality import STUDY

MakeStore = Callable[[Sequence[Record]], Path]


def table(records: Sequence[Record]):  # type: ignore[no-untyped-def]
    return fill(UNIVERSALITY, STUDY, STUDY.aggregate(records), [])


def entry(records: Sequence[Record], method: str, column: int):  # type: ignore[no-untyped-def]
    return next(row for row in table(records).rows if row.method == method).entries[column]


def test_published_values_are_those_of_the_paper() -> None:
    values = published.published()
    path = Path(published.__file__).with_name("published.csv")
    with path.open(newline="") as file:
        assert len(values) == len(list(csv.DictReader(file))) == 90
    assert values["universality", "lmgc", "erdos_renyi", "basic", "mse"] == published.Published(25e-9, 86e-11)
    assert values["zinc12k", "lmgc", "zinc12k", "all", "test_mae"] == published.Published(0.203, 0.004)
    assert values["heterophilic", "acm", "squirrel", "residual", "test_accuracy"].mean == 34.5


@pytest.mark.parametrize("spec", TABLES, ids=lambda spec: spec.study)
def test_every_cell_of_every_table_has_its_published_value(spec) -> None:  # type: ignore[no-untyped-def]
    for method in ("gatv2", "fagcn", "acm", "gin", "lmgc"):
        for column in spec.columns:
            names = (column.published_variant or column.variant, column.published_metric or column.metric)
            assert (spec.study, method, column.dataset, *names) in published.published()


def test_only_cells_of_equal_standing_are_ranked() -> None:
    def cell(method: str, mean: float, epochs: int, count: int = 1) -> Cell:
        values = hparams(epochs=epochs, molecules=10_000)
        return Cell("zinc12k", method, "basic", "test_mae", mean, 0.0, count, 4, values)

    cells = [cell("gin", 0.3, 200), cell("gatv2", 0.4, 200, count=3), cell("lmgc", 0.2, 60), cell("acm", 0.35, 200)]
    filled = fill(ZINC12K, studies.load("zinc12k"), cells, [])
    ranks = {row.method: row.entries[0].rank for row in filled.rows}
    assert ranks == {"GATv2": "", "FAGCN": "", "ACM": "second", "GIN": "best", "LMGC": ""}


def test_a_cell_has_our_value_the_papers_and_the_difference() -> None:
    cell = entry(full_table(), "ACM", 0)
    assert cell.ours == "0.492 ± 0.049"
    assert cell.paper == "0.49 ± 0.02"
    assert cell.difference == "+0.002"
    assert not cell.remark
    assert not cell.command


def test_the_column_as_released_is_there_where_it_has_results_and_missed_nowhere() -> None:
    assert "as released, absolute error" not in table(full_table()).columns
    record_ = replace(record("acm", "released", 0.4), outcome=Outcome({"mse": 0.4, "mae": 0.5}))
    filled = table([*full_table(), record_])
    assert filled.columns[-1] == "as released, absolute error"
    cell = next(row for row in filled.rows if row.method == "ACM").entries[-1]
    assert (cell.ours, cell.paper, cell.difference) == ("0.500", "0.49 ± 0.02", "+0.010")
    assert filled.shared


def test_best_and_second_are_marked_among_the_methods_of_the_paper() -> None:
    filled = table(full_table())
    ranks = {row.method: row.entries[0].rank for row in filled.rows}
    assert ranks == {"GATv2": "second", "FAGCN": "", "ACM": "", "GIN": "", "LMGC": "best", "MIMO-GC": ""}
    assert {row.method: row.paper_rank for row in filled.rows if row.paper_rank} == {"LMGC": "best", "GIN": "second"}
    assert [row.method for row in filled.rows if not row.ranked] == ["MIMO-GC"]


def test_where_the_paper_has_a_value_per_column_it_stands_in_the_cell_and_in_text_in_a_table_of_its_own(
    make_store: MakeStore, tmp_path: Path
) -> None:
    records = [
        node_record(method, dataset, accuracy + seed + split, seed, split)
        for method, accuracy in (("lmgc", 70.0), ("gcn", 60.0), ("acm", 75.0))
        for dataset in ("texas", "minesweeper")
        for seed in range(1, 6)
        for split in range(2)
    ]
    html = write_report(make_store(records), tmp_path).read_text()
    section = html[html.index('<section id="heterophilic"') :]
    assert '<span class="value second">73.5 ± 1.6</span>' in section
    assert '<span class="small">paper <span class="value best">74.2 ± 2.2</span></span>' in section
    assert '<span class="value best">78.5 ± 1.6</span>' in section
    assert "Δ −0.7" in section
    assert '<th scope="col">Minesweeper</th>' in section
    assert '<th scope="row">GCN</th>' in section
    assert section.count("<svg") == 2
    text = (tmp_path / "heterophilic.md").read_text()
    ours, papers = text.split("The paper's values:")
    assert "<tr><th>LMGC</th><td><u>73.5 ± 1.6</u></td>" in ours
    assert "<tr><th>LMGC</th><td><b>74.2 ± 2.2</b></td></tr>" in papers  # which has no Minesweeper
    assert "<small>" not in text
    assert "Cornell" not in text  # it has no results
    write_report(tmp_path / "runs.db", tmp_path, everything=True)
    text = (tmp_path / "heterophilic.md").read_text()
    assert "<td>missing</td>" in text.split("The paper's values:")[0]
    assert "<td><b>68.9 ± 2.2</b></td>" in text
    assert text.count('<table class="results">') == 1 + 1 + 1  # ours, the paper's, the paired differences


def test_equal_values_share_a_place() -> None:
    filled = table([record("gin", "n16", 0.25), record("acm", "n16", 0.25), record("lmgc", "n16", 0.5)])
    ranks = {row.method: entry.rank for row in filled.rows for entry in row.entries if entry.rank}
    assert ranks == {"GIN": "best", "ACM": "best"}


def test_a_value_that_is_not_finite_is_shown_and_never_best() -> None:
    records = [record("lmgc", "n64", math.inf, seed) for seed in range(3)]
    records += [record(method, "n64", 0.5, seed) for method in ("acm", "gin") for seed in range(3)]
    cell = entry(records, "LMGC", 0)
    assert cell.ours == "∞"
    assert cell.rank == ""


def test_quick_results_say_what_they_lack() -> None:
    cell = entry([record("acm", "n64", 0.5, steps=2_000)], "ACM", 0)
    assert cell.ours == "0.500"
    assert cell.remark == "1 of 3 repeats, 2,000 of 40,000 steps"
    assert cell.command == "mimogc reproduce universality --methods acm --variants n64"


def test_what_all_values_lack_is_said_once(make_store: MakeStore, tmp_path: Path) -> None:
    quick = [record(method, "n64", 0.5, steps=2_000) for method in ("acm", "lmgc")]
    html = write_report(make_store(quick), tmp_path).read_text()
    assert html.count("1 of 3 repeats, 2,000 of 40,000 steps") == 1
    assert (tmp_path / "universality.md").read_text().count("2,000 of 40,000 steps") == 1
    mixed = [record("gin", "n64", 0.5, seed) for seed in range(3)]
    both = table([*quick, *mixed])
    assert both.common_remark == ""
    assert both.standing.endswith("2,000 of 40,000 steps, unless a cell says otherwise.")
    remarks = {row.method: both.remark(row.entries[0]) for row in both.rows if row.entries[0].ours}
    assert remarks == {"ACM": "", "LMGC": "", "GIN": "complete"}


def test_files_of_one_name_are_told_apart() -> None:
    names = ["npz:/data/one/mine.npz", "npz:/data/two/mine.npz", "npz:other.npz"]
    assert [label(name, names) for name in names] == ["one/mine", "two/mine", "other"]
    assert label(names[0]) == "mine"


def test_an_empty_table_is_filled_by_one_command_and_gaps_by_few() -> None:
    assert table([]).commands == ("mimogc reproduce universality",)
    kept = [r for r in full_table() if r.run.method not in ("acm", "gin") and r.run.variant != "n16"]
    assert table(kept).commands == (
        "mimogc reproduce universality --methods gatv2,fagcn,lmgc,mimogc --variants n16",
        "mimogc reproduce universality --methods acm,gin",
    )
    assert table(full_table()).commands == ()


@pytest.mark.parametrize("spec", [s for s in TABLES if s.study in studies.BUILT_IN], ids=lambda spec: spec.study)
def test_commands_for_missing_cells_are_understood_by_the_command_line(
    spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    filled = fill(spec, studies.load(spec.study), [], ["--store", str(tmp_path / "with space.db")])
    commands = {filled.commands[0], filled.rows[0].entries[0].command, filled.rows[-1].entries[-1].command}
    assert len(commands) == 3
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "mimogc"
        assert command_line([*arguments, "--dry-run"]) == 0


def test_a_cell_that_another_study_computes_has_the_command_of_that_study() -> None:
    filled = fill(ZINC, studies.load("zinc"), [], [])
    assert filled.commands == ("mimogc reproduce zinc", "mimogc reproduce zinc12k --variants basic")
    assert filled.rows[0].entries[2].command == "mimogc reproduce zinc12k --methods gatv2 --variants basic"


def test_a_borrowed_value_is_measured_by_its_own_study() -> None:
    values = (("epochs", 200), ("molecules", 10_000))
    metrics = ("train_mae", "test_mae", "seconds_per_epoch")
    cells = [
        Cell("zinc12k", method, "basic", metric, 0.3, 0.1, 4, 4, values)
        for method in ZINC.methods
        for metric in metrics
    ]
    filled = fill(ZINC, studies.load("zinc"), cells, [])
    assert {entry.remark for row in filled.rows for entry in row.entries if entry.ours} == {"200 of 1,000 epochs"}
    assert filled.commands == ("mimogc reproduce zinc", "mimogc reproduce zinc12k --variants basic")


def test_runs_of_another_study_are_counted_where_they_are_shown(make_store: MakeStore, tmp_path: Path) -> None:
    runs = [
        Run("zinc12k", "zinc12k", "lmgc", variant, hparams(epochs=2, molecules=64), 0, 0)
        for variant in ("basic", "all")
    ]
    outcome = Outcome({"test_mae": 0.3, "train_mae": 0.2, "val_mae": 0.3, "seconds_per_epoch": 2.0}, {}, 60.0)
    records = [Record(run, "done", outcome, ENVIRONMENT, "2026-01-01T00:00:00.000+00:00") for run in runs]
    write_report(make_store(records), tmp_path / "report")
    assert not (tmp_path / "report" / "zinc.md").exists()  # it has no runs of its own
    write_report(tmp_path / "runs.db", tmp_path / "report", everything=True)
    said = (tmp_path / "report" / "zinc.md").read_text()
    assert "- 1 run, 1 min" in said
    assert "- 1 run on mimogc 0.1.0" in said


def test_missing_splits_are_said() -> None:
    cell = Cell("texas", "lmgc", "residual", "test_accuracy", 70.0, 1.0, 5, 5, (), "4 of 10 splits")
    filled = fill(HETEROPHILIC, studies.load("heterophilic"), [cell], [])
    (entry,) = [entry for row in filled.rows for entry in row.entries if entry.ours]
    assert entry.remark == "4 of 10 splits"
    assert entry.command


def test_commands_name_what_is_not_usual_and_nothing_else() -> None:
    cells = [
        Cell(dataset, "lmgc", variant, "test_accuracy", 70.0, 1.0, 1, 5, ())
        for dataset, variant in (("texas", "averaged"), ("npz:mine.npz", "residual"))
    ]
    commands = fill(HETEROPHILIC, studies.load("heterophilic"), cells, []).commands
    assert "mimogc reproduce heterophilic --datasets texas --methods gatv2,lmgc --variants averaged" in commands
    (said,) = [command for command in commands if "npz" in command]
    names = said.split()
    assert names[names.index("--datasets") + 1].endswith("squirrel,npz:mine.npz")
    assert "--variants" not in names
    (said, *_) = fill(HETEROPHILIC, studies.load("heterophilic"), [], []).commands
    assert "--datasets" not in said
    assert "--variants" not in said


def test_a_method_without_a_variant_does_not_miss_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [Cell("texas", "lmgc", "averaged", "test_accuracy", 70.0, 1.0, 5, 5, ())]
    filled = fill(HETEROPHILIC, studies.load("heterophilic"), cells, [])
    last = {row.method: row.entries[-1] for row in filled.rows}
    assert {name: entry.possible for name, entry in last.items() if name in ("ACM", "GATv2", "LMGC")} == {
        "ACM": False,
        "GATv2": True,
        "LMGC": True,
    }
    assert last["ACM"].command == ""
    assert filled.total == 6 * len(filled.rows) + 2
    for said in filled.commands:
        _, *arguments = said.split()
        assert ("averaged" in said) <= (not {"acm", "gin", "fagcn"} & set(said.replace(",", " ").split()))
        assert command_line([*arguments, "--dry-run"]) == 0


def test_an_option_that_is_not_usual_is_a_column_that_its_command_fills() -> None:
    study = studies.load("zinc12k")
    values = {"edge_features": False, "pe": "none", "budget": 100_000, "molecules": 10_000, "epochs": 10}
    run = Run("zinc12k", "zinc12k", "gin", "basic", hparams(**values, heads=8, lr=0.001, layers=6), 0, 0)
    metrics = {"test_mae": 0.3, "val_mae": 0.3, "train_mae": 0.3}
    cells = study.aggregate([Record(run, "done", Outcome(metrics), {}, "")])
    filled = fill(ZINC12K, study, cells, [])
    assert filled.columns[-1] == "ZINC12k, basic heads=8"
    last = {row.method: row.entries[-1] for row in filled.rows}
    assert last["GIN"].remark == "1 of 4 repeats, 10 of 1,000 epochs"
    assert last["ACM"].command == "mimogc reproduce zinc12k --methods acm --variants basic --heads 8"
    for command in (last["GIN"].command, last["ACM"].command):
        _, _, name, *words = shlex.split(command)
        extras = parse(studies.load(name).options, words[4:], [])
        planned = make_plan(study, Options((words[1],), variants=(words[3],), extras=tuple(extras.items())), []).runs
        assert {(run.variant, study.unusual(run.hparams)) for run in planned} == {("basic", (("heads", 8),))}
    full = replace(cells[0], count=4, hparams=hparams(**{**values, "epochs": 1000}, heads=8))
    filled = fill(ZINC12K, study, [full], [])
    assert next(row for row in filled.rows if row.method == "GIN").entries[-1].remark == ""


def test_a_value_that_is_usual_under_another_name_is_not_missing() -> None:
    study = studies.load("heterophilic")
    cell = Cell("texas", "gin", "residual", "test_accuracy", 70.0, 1.0, 5, 5, (), options=(("gain", 0.0),))
    last = {row.method: row.entries[-1] for row in fill(HETEROPHILIC, study, [cell], []).rows}
    assert (last["LMGC"].possible, last["ACM"].possible) == (False, True)
    assert "--gain 0.0" in last["ACM"].command


def test_the_time_that_filling_takes_is_said(make_store: MakeStore, tmp_path: Path) -> None:
    quick = [record("acm", "n64", 0.5, steps=2_000)]  # 2 s: 40 s for each of 6 × 3 × 3 × 3 full runs
    assert fill(UNIVERSALITY, STUDY, STUDY.aggregate(quick), [], {STUDY.name: quick}).time == "about 1 h 48 min"
    assert table([]).time == "about 6 min 29 s (roughly, from another machine)"
    tiny = [record("acm", "n64", 0.5, steps=10)]  # too small to be scaled to 40,000 steps
    assert "from another machine" in fill(UNIVERSALITY, STUDY, STUDY.aggregate(tiny), [], {STUDY.name: tiny}).time
    html = write_report(make_store(quick), tmp_path / "report", everything=True).read_text()
    assert "To fill the table, about 1 h 48 min of computing" in html
    html = write_report(tmp_path / "runs.db", tmp_path / "report").read_text()
    assert "To fill the table, about 30 min 0 s of computing" in html  # the column and the rows that have results


def own_record(method: str, loss: float, study: str = "least-squares", **values: float) -> Record:
    run = Run(study, "gaussian", method, "plain", hparams(**{"steps": 100, "lr": 0.1, **values}), 0, 0)
    return Record(run, "done", Outcome({"loss": loss}, {}, 1.0), ENVIRONMENT, "2026-01-01T00:00:00.000+00:00")


def test_a_study_of_ones_own_has_its_section(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store([own_record("sgd", 0.5), own_record("adam", 0.25), own_record("mine", 0.75, momentum=0.5)])
    with Store(store, write=True) as results:
        results.remember("least-squares", "tiny_study:STUDY")
    html = write_report(store, tmp_path / "report").read_text()
    section = html[html.index('<section id="least-squares"') :]
    section = section[: section.index("</section>")]
    assert "<h2>Least squares</h2>" in section
    assert '<span class="value best">0.250</span>' in section
    assert "lower is better" in section
    assert "paper" not in section
    assert "gaussian, plain momentum=0.5" in section
    assert f"mimogc reproduce tiny_study:STUDY --store {store}" in section
    assert "1 of 3 repeats" in (tmp_path / "report" / "least-squares.md").read_text()


def test_a_study_that_cannot_be_loaded_is_said_in_words(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(
        [own_record("sgd", 0.5), own_record("sgd", 0.5, study="other"), own_record("a", 1, study="gone")]
    )
    with Store(store, write=True) as results:
        results.remember("other", "no_such_module:STUDY")
        results.remember("gone", "tiny_study:STUDY")
    html = write_report(store, tmp_path / "report").read_text()
    section = html[html.index('<section id="absent"') :]
    assert "least-squares (1 runs): the store does not know its module" in section
    assert "other (1 runs): study: expected a module that can be imported, got" in section
    assert "gone (1 runs): tiny_study:STUDY is the study" in section


def test_a_section_has_both_directions_and_what_is_complete_where(make_store: MakeStore, tmp_path: Path) -> None:
    records = [own_record(method, 0.5, study="mixed", steps=40) for method in ("sgd", "adam")]
    labels = replace(
        records[0], run=replace(records[0].run, dataset="labels"), outcome=Outcome({"accuracy": 7.0, "loss": 1})
    )
    store = make_store([*records, labels])
    with Store(store, write=True) as results:
        results.remember("mixed", "tiny_study:MIXED")
    write_report(store, tmp_path / "report")
    text = (tmp_path / "report" / "mixed.md").read_text()
    assert "lower is better, but higher in labels, plain, accuracy" in text
    assert "values rest on 1 of 3 repeats, 40 of 100 steps, unless a cell says otherwise." in text
    assert "</td><td>7.000<sup>a</sup></td>" in text
    assert "<sup>a</sup> 1 of 3 repeats, 40 of 50 steps." in text
    assert "<th>adam</th><td><b>0.500</b></td><td>–</td>" in text  # equal values share a rank


def test_an_unknown_method_in_the_store_is_shown(make_store: MakeStore, tmp_path: Path) -> None:
    records = [record("nobody", "n64", 0.5), node_record("nobody", "texas", 50.0), node_record("lmgc", "texas", 60.0)]
    html = write_report(make_store(records), tmp_path / "report").read_text()
    assert html.count('<th scope="row">nobody</th>') == 3
    assert "--methods nobody" not in html


def test_a_full_disk_is_reported_with_the_file(make_store: MakeStore, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mimogc",
        "report",
        "--store",
        str(make_store([])),
        "--output",
        str(tmp_path / "o"),
        "--all",
    ]
    limit = 2_000  # bytes: the first page does not fit
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "File too large" in line
    assert str(tmp_path / "o" / "universality.md") in line


def test_a_complete_store_gives_a_complete_page(make_store: MakeStore, tmp_path: Path) -> None:
    page = write_report(make_store(full_table()), tmp_path / "out")
    html = page.read_text()
    assert page == tmp_path / "out" / "index.html"
    section = html[html.index('<section id="universality"') : html.index("</section>")]
    assert "18 of 18 cells complete" in html
    assert "missing" not in section
    assert '<span class="value best">(1.4 ± 0.1)·10⁻⁶</span>' in section
    assert "54 runs" in section
    assert "1 min 48 s" in section
    assert "revision abcdef0123" in section
    assert "threads per batch: 1" in section
    assert "at most 4e-30" in section
    assert section.count("<svg") == 3


def test_an_empty_store_gives_a_page_with_everything_missing(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store([])
    html = write_report(store, tmp_path / "out").read_text()
    assert "<section" not in html
    assert "Nothing is stored of universality, zinc12k, heterophilic, zinc" in html
    html = write_report(store, tmp_path / "out", everything=True).read_text()
    section = html[html.index('<section id="universality"') : html.index("</section>")]
    assert section.count("<summary>missing</summary>") == 18
    assert f"mimogc reproduce universality --store {store}" in section
    assert "<svg" not in section
    assert "0 of 18 cells complete" in html


def test_markdown_has_one_row_per_method_with_as_many_columns_as_its_head(
    make_store: MakeStore, tmp_path: Path
) -> None:
    write_report(make_store(full_table()[:-3]), tmp_path)
    text = (tmp_path / "universality.md").read_text()
    rows = [line for line in text.splitlines() if "<tr>" in line]
    assert len(rows) == 1 + len(MEANS)
    assert {row.count("<th") + row.count("<td") - row.count("<thead") for row in rows} == {5}
    assert "<th>LMGC</th><td><b>(2.5 ± 0.1)·10⁻⁸</b></td><td><b>(1.4 ± 0.1)·10⁻⁶</b></td>" in text
    assert rows[-1].endswith("<td>missing</td></tr>")
    assert "mimogc reproduce universality --methods mimogc --variants n16" in text


def test_the_default_store_needs_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_store: MakeStore
) -> None:
    made = make_store([])
    (tmp_path / "results").mkdir()
    made.rename(tmp_path / "results" / "runs.db")
    monkeypatch.chdir(tmp_path)
    html = write_report("results/runs.db", "report", everything=True).read_text()
    assert "<code>mimogc reproduce universality</code>" in html
    assert "--store" not in html


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_text_from_the_store_is_escaped(tmp_path: Path, make_store: MakeStore) -> None:
    evil = '<script>alert("x")</script><img src=x onerror=alert(1)>'
    failed = record("acm", "n64", 0.5)
    records = [
        replace(failed, status="failed", outcome=Outcome(), error=f"ValueError: {evil}\ntrace"),
        replace(record("lmgc", "n64", 0.1), environment={"torch": evil, "revision": evil, "processor": evil}),
        replace(record("gin", "n64", 0.1), status="diverged"),
    ]
    html = write_report(make_store(records), tmp_path / "<b>out").read_text()
    tags = Tags()
    tags.feed(html)
    assert not [tag for tag, _ in tags.seen if tag in ("script", "img", "b") and tag != "b"]
    assert "onerror" not in {name for _, attributes in tags.seen for name in attributes}
    assert "ValueError: &lt;script&gt;" in html
    assert "Diverged" in html


def test_the_page_needs_nothing_else(make_store: MakeStore, tmp_path: Path) -> None:
    tags = Tags()
    html = write_report(make_store(full_table()), tmp_path / "out").read_text()
    tags.feed(html)
    for _, attributes in tags.seen:
        for name in ("src", "href", "xlink:href", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"url\((?!#)", html)
    assert "@import" not in html
    identifiers = [attributes["id"] for _, attributes in tags.seen if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_curves_take_their_colours_from_the_page(make_store: MakeStore, tmp_path: Path) -> None:
    html = write_report(make_store(full_table()), tmp_path / "out").read_text()
    svg = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    assert "currentColor" in svg
    assert all(f"var(--series-{i})" in svg for i in range(6))
    assert set(re.findall(r"#[0-9a-fA-F]{6}\b", svg)) <= {"#000000", "#ffffff"}


def test_a_page_written_again_is_the_same_but_for_the_time(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(full_table())
    pages = [write_report(store, tmp_path / name).read_text() for name in ("a", "b")]
    first, second = (re.sub(r"on \d{4}-\d\d-\d\d \d\d:\d\d UTC", "", page) for page in pages)
    assert first == second
    assert sorted(path.name for path in (tmp_path / "a").iterdir() if path.suffix == ".part") == []


def test_a_store_that_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.db"):
        write_report(tmp_path / "none.db", tmp_path / "out")
    assert not (tmp_path / "out").exists()
