"""LMGC against the others on the same splits: the numbers, what is called clear, and where the page shows it."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from stored_results import ENVIRONMENT, node_record

from mimogc.report import write_report
from mimogc.report.comparison import findings, paired_by_seed, paired_by_split
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.studies.heterophilic import STUDY
from mimogc.studies.zinc import ZINC, ZINC12K

ACCURACY = {"lmgc": (80.0, 81.0, 79.0, 80.0), "acm": (84.0, 85.0, 83.5, 83.5), "gin": (80.0, 70.0, 90.0, 79.0)}


@pytest.fixture
def records():  # type: ignore[no-untyped-def]
    return [
        node_record(method, "texas", score, seed, split)
        for method, scores in ACCURACY.items()
        for split, score in enumerate(scores)
        for seed in (1, 2)
    ]


def test_differences_are_paired_over_splits(records) -> None:  # type: ignore[no-untyped-def]
    (table,) = paired_by_split(STUDY, records)
    assert table.columns == ("Texas",)
    # ACM: gaps −4, −4, −4.5, −3.5, standard deviation 0.408, divided by √4. GIN: 0, 11, −11, 1.
    assert table.rows == (("ACM", (("−4.0 ± 0.2", True),)), ("GIN", (("+0.2 ± 4.5", False),)))


def test_few_splits_have_to_differ_by_more() -> None:
    """3.5 standard errors of three splits are not clear, of ten splits they are."""

    def made(splits: int) -> list[Record]:
        ours = [node_record("lmgc", "texas", (71.0, 72.0, 73.0)[split % 3], 1, split) for split in range(splits)]
        return ours + [node_record("acm", "texas", 70.0, 1, split) for split in range(splits)]

    (few,), (many,) = paired_by_split(STUDY, made(3)), paired_by_split(STUDY, made(10))
    assert few.rows == (("ACM", (("+2.0 ± 0.6", False),)),)
    assert many.rows == (("ACM", (("+1.9 ± 0.3", True),)),)
    assert "more than 2 standard errors (with 3 pairs 4.3, by Student's t at 95 %) from zero" in few.caption
    assert "more than 2 standard errors from zero" in many.caption
    assert "(with 3 pairs 4.3, by Student's t at 95 %) in 0 of 1 comparisons, behind in none" in findings(made(3))[0]
    assert "by more than 2 standard errors in 1 of 1 comparisons (ACM on Texas)" in findings(made(10))[0]


def test_runs_of_other_lengths_and_those_that_diverged_are_not_compared(records) -> None:  # type: ignore[no-untyped-def]
    def shorter(record: Record) -> Record:
        values = dict(record.run.hparams) | {"epochs": 100}
        return replace(record, run=replace(record.run, hparams=hparams(**values)))

    found = [shorter(record) if record.run.method == "acm" else record for record in records]
    (table,) = paired_by_split(STUDY, found)
    assert [name for name, _ in table.rows] == ["GIN"]
    found = [
        replace(record, status="diverged") if record.run.method == "gin" and record.run.split else record
        for record in records
    ]
    (table,) = paired_by_split(STUDY, found)
    assert [name for name, _ in table.rows] == ["ACM"]
    assert "–: none that are equally long, or some diverged." in table.caption


def test_findings_name_what_is_clear_and_what_contradicts_the_paper(records) -> None:  # type: ignore[no-untyped-def]
    counted, inverted = findings(records)
    assert "in 0 of 2 comparisons, behind in 1 (ACM on Texas); the other 1 are not decided" in counted
    assert "against ACM on Texas" in inverted
    swapped = [record for record in records if record.run.method != "acm"]
    assert len(findings(swapped)) == 1


def test_what_told_labels_mean_is_said(records) -> None:  # type: ignore[no-untyped-def]
    values = tuple(sorted((*records[0].run.hparams, ("labels", 0.9))))
    told = replace(records[0], run=replace(records[0].run, variant="deep", hparams=values))
    for found in ([told], [*records, told]):
        first, *others = findings(found)
        assert "told the labels of training nodes as inputs" in first
        assert others == findings([record for record in found if record is not told])


@pytest.mark.parametrize(("method", "name"), [("lmgc", "LMGC"), ("eq12", "LMGC (eq. 12)")])
def test_the_mean_over_graphs_is_compared_with_the_sum(records, method, name) -> None:  # type: ignore[no-untyped-def]
    lmgc = [replace(r, run=replace(r.run, method=method)) for r in records if r.run.method == "lmgc"]
    averaged = [
        replace(
            record,
            run=replace(record.run, variant="averaged"),
            outcome=replace(record.outcome, metrics={**record.outcome.metrics, "test_accuracy": 74.0}),
        )
        for record in lmgc
    ]
    *_, said = findings(records + lmgc + averaged)
    assert f"{name} reaches: Texas 74.0 (sum 80.0, paper 74.2). The mean is nearer to the paper on 1 of 1." in said


def test_nothing_is_said_without_results(records) -> None:  # type: ignore[no-untyped-def]
    alone = [record for record in records if record.run.method == "lmgc"]
    assert paired_by_split(STUDY, alone) == findings(alone) == []
    assert paired_by_seed(ZINC12K, MOLECULES[:4]) == []


def test_the_report_has_the_table_and_the_curves_as_files(records, make_store, tmp_path) -> None:  # type: ignore[no-untyped-def]
    page = write_report(make_store(records), tmp_path / "report")
    text = (page.parent / "heterophilic.md").read_text()
    assert "<th>ACM</th><td><b>−4.0 ± 0.2</b></td>" in text
    assert "−4.0 ± 0.2" in page.read_text()
    assert "(curves/heterophilic-1.svg)" in text
    drawing = ElementTree.parse(page.parent / "curves" / "heterophilic-1.svg").getroot()
    names = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert names[-4:] == ["Texas", "ACM", "GIN", "LMGC"]


def molecule_record(method: str, variant: str, seed: int, val: float, test: float, lr: float = 0.001) -> Record:
    values = hparams(lr=lr, layers=8, molecules=10_000, epochs=1000, heads=4, budget=100_000)
    run = Run("zinc12k", "zinc12k", method, variant, values, 0, seed)
    metrics = {"test_mae": test, "val_mae": val, "train_mae": 0.1, "seconds_per_epoch": 1.0}
    return Record(run, "done", Outcome(metrics, {}, 3.0), ENVIRONMENT, "2026-01-01T00:00:00.000+00:00")


OWN = "my_methods:Mine"
MOLECULES = [
    *(molecule_record("lmgc", "basic", seed, 0.2, 0.20 + seed / 100) for seed in range(4)),
    # Behind LMGC by 0.04, 0.04, 0.04, 0.06 where validation selected it, ahead where it did not.
    *(molecule_record(OWN, "basic", seed, 0.3, 0.24 + seed / 100 + 0.02 * (seed == 3)) for seed in range(4)),
    *(molecule_record(OWN, "basic", seed, 0.4, 0.01, lr=0.0003) for seed in range(4)),
    molecule_record("lmgc", "jk", 0, 0.2, 0.3),
    molecule_record("gin", "jk", 0, 0.2, 0.25),
    molecule_record("gin", "jk", 1, 0.2, 9.0),  # LMGC does not have this seed
]


@pytest.mark.parametrize("study", [ZINC12K, ZINC], ids=["zinc12k", "zinc"])
def test_errors_are_paired_over_seeds_also_of_a_method_of_ones_own(study) -> None:  # type: ignore[no-untyped-def]
    records = [record for record in MOLECULES if record.run.variant in study.variants]
    (table,) = paired_by_seed(study, records)
    own = (OWN, (("+0.045 ± 0.005", True), ("–", False)))
    gin = ("GIN", (("–", False), ("−0.050", False)))
    if study is ZINC12K:
        assert (table.columns, table.rows) == (("basic", "jk"), (gin, own))
    else:
        assert (table.columns, table.rows) == (("basic",), ((OWN, own[1][:1]),))


def test_the_report_of_molecules_has_the_table(make_store, tmp_path) -> None:  # type: ignore[no-untyped-def]
    page = write_report(make_store(MOLECULES), tmp_path / "report")
    assert f"<th>{OWN}</th><td><b>+0.045 ± 0.005</b></td>" in (page.parent / "zinc12k.md").read_text()
    assert "above zero where LMGC is ahead" in page.read_text()
