"""Studies and methods of one's own in the report: what is wrong with one of them takes nothing else away."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from stored_results import ENVIRONMENT, full_table, node_record

from mimogc.report import write_report
from mimogc.report.names import label
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))
MakeStore = Callable[[Sequence[Record]], Path]


def own_record(study: str, metrics: dict[str, float], **values: float | str) -> Record:
    run = Run(study, "gaussian", "sgd", "plain", hparams(**{"steps": 100, "lr": 0.1, **values}), 0, 0)
    return Record(run, "done", Outcome(metrics, {}, 1.0), ENVIRONMENT, "2026-01-01T00:00:00.000+00:00")


def test_one_bad_study_does_not_take_the_others_away(make_store: MakeStore, tmp_path: Path) -> None:
    bad, evil = own_record("least-squares", {"other": 1.0}), own_record("../evil", {"loss": 1.0})
    mixed = [own_record("mixed", {"loss": 0.5}, w="auto"), own_record("mixed", {"loss": 0.25}, w=3)]
    store = make_store([*full_table(), bad, evil, *mixed])
    with Store(store, write=True) as results:
        results.remember("least-squares", "tiny_study:STUDY")
        results.remember("mixed", "tiny_study:MIXED")
    html = write_report(store, tmp_path / "out" / "report").read_text()
    assert '<section id="universality"' in html
    assert '<section id="mixed"' in html
    absent = html[html.index('<section id="absent"') :]
    assert (
        "least-squares (1 runs): expected the metric &#39;loss&#39; in every run, got other in least-squares" in absent
    )
    assert "../evil (1 runs): the store does not know its module" in absent
    assert not (tmp_path / "out" / "evil.md").exists()


def test_a_study_with_failures_only_is_shown(make_store: MakeStore, tmp_path: Path) -> None:
    record = own_record("least-squares", {"loss": 1.0})
    failed = replace(record, status="failed", outcome=Outcome(), error="ValueError: no luck")
    store = make_store([failed, replace(failed, run=replace(failed.run, study="gone"))])
    with Store(store, write=True) as results:
        results.remember("least-squares", "tiny_study:STUDY")
    html = write_report(store, tmp_path / "report").read_text()
    assert "ValueError: no luck" in html[html.index('<section id="least-squares"') :]
    assert "gone (1 failed): " in html


def test_methods_of_one_label_are_told_apart(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from mimogc.methods import METHODS, Method\ndef Wide(channels):\n    raise NotImplementedError\n"
    for name in ("one_methods", "two_methods"):
        (tmp_path / f"{name}.py").write_text(text + "OURS = Method('ours', 'LMGC', METHODS['lmgc'].layer)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ["lmgc", "one_methods:OURS", "one_methods:Wide", "two_methods:Wide"]
    shown = ["LMGC", "LMGC (one_methods:OURS)", "Wide (one_methods:Wide)", "Wide (two_methods:Wide)"]
    assert [label(name, names) for name in names] == shown
    assert label("two_methods:Wide", ["lmgc"]) == "Wide"
    records = [node_record(name, "texas", 60.0 + i, split=split) for i, name in enumerate(names) for split in range(2)]
    html = write_report(make_store(records), tmp_path / "report").read_text()
    for name in shown[1:]:
        assert html.count(f'<th scope="row">{name}</th>') == 2  # the table, and the differences from LMGC
        assert f"</i>{name}</li>" in html  # the legend
