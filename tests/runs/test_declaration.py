"""What a study of one's own declares is checked when it is loaded, and what it gives when it comes."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from harness import Watch
from mimogc.cli import app
from mimogc.runs import registry
from mimogc.runs.driver import make_plan, reproduce
from mimogc.runs.options import COMMON, Option, UsageError, parse
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store
from mimogc.runs.study import Options
from tiny_study import LeastSquares


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads a study that declares these things differently."""

    def of(**attributes: Any) -> Any:
        module = ModuleType("own_study")
        module.STUDY = type("Own", (LeastSquares,), {"name": "own", **attributes})()  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "own_study", module)
        return registry.load("own_study:STUDY")

    return of


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"name": "../evil"}, "name of a study: expected letters, digits, '.', '_', '+' or '-', got '../evil'"),
        ({"name": "a/b"}, "got 'a/b'"),
        ({"name": ".hidden"}, "got '.hidden'"),
        ({"name": ""}, "got ''"),
        ({"name": "heterophilic"}, "expected another one than those of the library, got 'heterophilic' of 'own_study:"),
        ({"name": "figures"}, "got 'figures'"),
        ({"variants": ("a,b",)}, "variants of the study own: expected names without commas and without spaces"),
        ({"methods": ("sgd", " adam")}, "methods of the study own: expected names without commas"),
        ({"datasets": "gaussian"}, "datasets of the study own: expected a tuple of names, got 'gaussian'"),
        ({"variants": ("A", "a")}, "variants of the study own: expected names that differ in more than"),
        ({"seeds": -1}, "seeds of the study own: expected a whole number, at least 0, got -1"),
        (
            {"options": (Option("lr", 0.1, ""),)},
            "options of the study own: expected other names, got 'lr'; every study",
        ),
        ({"options": (Option("dry_run", False, ""),)}, "got 'dry_run'; every study has that one"),
        ({"options": (Option("a", 1, ""), Option("a", 2, ""))}, "got 'a'; it is there twice"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused(load: Any, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(**attributes)
    assert message in str(caught.value)


def test_a_study_of_the_library_may_be_named_from_elsewhere() -> None:
    assert registry.load("mimogc.studies.figures.study:STUDY").name == "figures"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"default": 0, "least": 1}, "default of the option x: expected a whole number, at least 1, got 0"),
        ({"default": "c", "choices": ("a", "b")}, "default of the option x: expected one of a, b, got 'c'"),
        ({"default": 5, "most": 9, "quick": 10}, "quick of the option x: expected a whole number, at most 9, got 10"),
        ({"default": float("nan")}, "default of the option x: expected a number, got nan"),
        ({"default": True}, "default of the option x: expected False"),
        (
            {"name": "two words", "default": 1},
            "name of an option: expected small letters, digits and _, got 'two words'",
        ),
    ],
)
def test_an_option_that_contradicts_itself_is_refused(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared)
        Option(**{"name": "x", "meaning": "", **declared})
    assert message in str(caught.value)


def test_the_common_flags_are_those_of_the_command() -> None:
    command = typer.main.get_command(app).commands["reproduce"]  # type: ignore[attr-defined]
    assert {flag for one in command.params for flag in one.opts if flag.startswith("--")} == set(COMMON)


@pytest.mark.parametrize("flag", ["--Seeds", "--METHODS", "--Quick"])
def test_a_common_flag_in_another_case_is_answered_with_the_nearest(flag: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(LeastSquares.options, [flag, "3"], COMMON)
    assert str(caught.value) == f"unknown option {flag!r}; did you mean {flag.lower()!r}?"


def test_settings_named_as_options_are_refused(load: Any) -> None:
    study = load(settings=lambda *_: [{"lr": 0.1, "steps": 3}])
    with pytest.raises(ValueError, match="settings of the study own: expected no names of its options, got 'steps'"):
        make_plan(study, Options(), [])


def test_settings_of_several_types_are_sorted(load: Any) -> None:
    study = load(options=())
    runs = [Run("own", "gaussian", "sgd", "plain", hparams(w=w), 0, 0) for w in ("auto", 3, 2.5)]
    records = [Record(run, "done", Outcome({"loss": i}), {}, "") for i, run in enumerate(runs)]
    (cell,) = study.aggregate(records)
    assert (cell.mean, cell.hparams) == (0, (("w", "auto"),))


def test_where_nothing_is_random_one_repeat_is_all(load: Any) -> None:
    run = Run("own", "gaussian", "sgd", "plain", hparams(steps=100), 0, 0)
    (cell,) = load(seeds=0).aggregate([Record(run, "done", Outcome({"loss": 1.0}), {}, "")])
    assert (cell.count, cell.expected) == (1, 1)


def test_an_outcome_without_the_metric_is_a_failure_that_says_so(load: Any, tmp_path: Path) -> None:
    study = load(selects="val_x")
    summary = reproduce(study, Options(("sgd",), quick=True), tmp_path / "runs.db", Watch())
    assert summary.count("failed") == len(summary.records) > 0
    reason = summary.records[0].error.partition("\n")[0]
    assert reason == "ValueError: study 'own': expected the metric 'val_x' in every outcome, got loss"
    with Store(tmp_path / "runs.db") as store:
        assert store.records() == []


def test_the_command_line_answers_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tiny_study import LeastSquares\nLeastSquares.name = 'zinc'\nS = LeastSquares()"
    )
    command = [sys.executable, "-m", "mimogc", "reproduce", "mine:S", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("mimogc: name of a study: expected another one")
