"""The pages of results that are made of kept runs are what these runs say."""

import pytest
from benchmarks import pages

from mimogc.runs.run import Outcome, Record, Run, hparams


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_what_its_runs_say(name, tmp_path):
    text, curves = pages.made(name, tmp_path)
    assert text == (pages.RESULTS / f"{name}.md").read_text(), f"run: python benchmarks/pages.py {name}"
    assert [curve.name for curve in curves] == sorted(
        path.name for path in (pages.RESULTS / "curves").glob(f"{name}-*")
    )
    assert not any(mark in text for mark in pages.NOTED)


def record(method, split, accuracy, **values):
    usual = {"epochs": 1000, "layers": 2, "heads": 4, "lr": 0.01, "dropout": 0.5}
    run = Run("heterophilic", "texas", method, "residual", hparams(**usual, **values), split, 1)
    return Record(run, "done", Outcome({"test_accuracy": accuracy, "val_accuracy": 50.0}, {}, 1.0), {}, "2026-01-01")


def test_one_start_for_all_leaves_the_usual_one_of_others_out():
    found = [record("lmgc", split, 70.0 + split) for split in range(10)]
    found += [record("acm", split, 10.0) for split in range(10)]
    found += [record("acm", split, 72.0 + 2 * (split % 2) + split, gain=0.0) for split in range(10)]
    found += [record("lmgc", split, 20.0, gain="none") for split in range(10)]
    acm, lmgc = (line.split(" | ") for line in pages.equal(found).splitlines()[2:])
    assert acm[1].startswith("77.5 (−3.0 ± 0.3)")
    assert lmgc[1].startswith("74.5")


def test_told_models_are_compared_on_the_splits_that_they_share():
    def told(method, split, score, channels=64, **values):
        usual = {"epochs": 800, "layers": 12, "heads": 2, "lr": 0.005, "dropout": 0.0, "channels": channels}
        run = Run("heterophilic", "minesweeper", method, "deep", hparams(**usual, **values), split, 1)
        outcome = Outcome({"test_roc_auc": score, "val_roc_auc": score - 1, "parameters": 1000 * channels}, {}, 1.0)
        return Record(run, "done", outcome, {}, "2026-01-01")

    found = [told("lmgc", split, 99.0 + split / 10, labels=0.9, hide=0.5) for split in range(4)]
    found += [told("gcn", split, 98.0 - split / 10, labels=0.9, hide=0.5) for split in range(2)]
    found += [told("gcn", 0, 98.0, 80, labels=0.9, hide=0.5), told("gcn", 0, 90.0, labels=0.9), told("gcn", 0, 1.0)]
    lines = [line.strip("| ").split(" | ") for line in pages.told(found).splitlines()[2:]]
    assert lines == [
        ["GCN", "64,000", "2", "97.95", "96.95", "+1.10 ± 0.10", "+1.10 ± 0.10"],
        ["GCN, 80 channels", "80,000", "1", "98.00", "97.00", "–", "–"],
        ["LMGC", "64,000", "4", "99.15", "98.15", "–", "–"],
        ["GCN, nothing hidden", "64,000", "1", "90.00", "89.00", "–", "–"],
    ]


def test_other_pages_are_refused(capsys):
    with pytest.raises(SystemExit):
        pages.main(["zinc13k"])
    assert "expected some of zinc12k, zinc, heterophilic, got 'zinc13k'" in capsys.readouterr().err
