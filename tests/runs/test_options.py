"""Options of a study: what is read, what is refused and how, what makes a column, and how long runs will take."""

from dataclasses import replace

import pytest

from mimogc.runs.options import Option, UsageError, parse, variant_title
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.study import Options, arguments, complete
from mimogc.runs.times import estimate
from tiny_study import STUDY

STEPS = Option("steps", 100, "steps", least=1, most=500, extent=True)
GAIN = Option("gain", "auto", "gain", choices=("auto", "none"), numbers=True)


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        (STEPS, "7", 7),
        (STEPS, 500, 500),
        (GAIN, "AUTO", "auto"),
        (GAIN, "0.5", 0.5),
        (Option("rate", 0.5, ""), "2", 2.0),
        (Option("text", "x", ""), "any", "any"),
        (Option("flag", False, ""), True, True),
    ],
)
def test_a_value_is_read_in_the_type_of_its_option(option: Option, given: object, value: object) -> None:
    found = option.read(given)  # type: ignore[arg-type]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("option", "given", "message"),
    [
        (STEPS, "0", "--steps: expected a whole number, at least 1, at most 500, got '0'"),
        (STEPS, 501, "--steps: expected a whole number, at least 1, at most 500, got 501"),
        (STEPS, "1e3", "--steps: expected a whole number, at least 1, at most 500, got '1e3'"),
        (STEPS, float("inf"), "--steps: expected a whole number, at least 1, at most 500, got inf"),
        (GAIN, "much", "--gain: expected one of auto, none or a number, got 'much'"),
        (GAIN, "nan", "--gain: expected one of auto, none or a number, got 'nan'"),
        (Option("no_loops", False, ""), "1", "--no-loops: expected no value, got '1'"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_expected(option: Option, given: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        option.read(given)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_what_is_typed_is_read_back() -> None:
    options = (STEPS, GAIN, Option("no_loops", False, ""))
    values = {"steps": 7, "gain": 0.5, "no_loops": True}
    typed = [word for option in options for word in option.typed(values[option.name])]
    assert typed == ["--steps", "7", "--gain", "0.5", "--no-loops"]
    assert parse(options, typed, []) == values


def test_another_identity_is_another_column_and_another_extent_is_not() -> None:
    assert STUDY.unusual(hparams(steps=7, momentum=0.5, centred=True)) == (("momentum", 0.5), ("centred", True))
    assert STUDY.unusual(hparams(steps=7)) == ()
    assert variant_title("plain", (("momentum", 0.5), ("centred", True))) == "plain momentum=0.5 centred"
    records = [record(lr=0.1), record(lr=0.1, momentum=0.5, loss=0.2), record(lr=0.1, steps=5, loss=0.0)]
    cells = {cell.options: cell.mean for cell in STUDY.aggregate(records)}
    assert cells == {(): 1.0, (("momentum", 0.5),): 0.2}


def test_quick_fills_what_is_not_given() -> None:
    assert complete(STUDY, Options(quick=True)).values["steps"] == 10
    given = complete(STUDY, Options(quick=True, seeds=2, extras=(("steps", 70),)))
    assert (given.values["steps"], given.seeds) == (70, 2)


def test_arguments_name_what_is_not_usual() -> None:
    assert arguments(STUDY, complete(STUDY, Options())) == []
    wanted = Options(methods=("sgd",), extras=(("momentum", 0.5), ("centred", True)))
    assert arguments(STUDY, wanted) == ["--methods", "sgd", "--momentum", "0.5", "--centred"]


def record(method: str = "sgd", seconds: float = 1.0, loss: float = 1.0, **values: float) -> Record:
    run = Run("least-squares", "gaussian", method, "plain", hparams(**{"steps": 100, **values}), 0, 0)
    return Record(run, "done", Outcome({"loss": loss}, {}, seconds), {}, "")


def test_time_is_estimated_from_what_is_alike_and_scaled_by_the_extent() -> None:
    stored = [record(seconds=2.0), record(seconds=4.0, lr=0.1), record("adam", seconds=9.0)]
    assert estimate(STUDY, [record(steps=50).run, record(steps=1000).run], stored) == pytest.approx(1.5 + 30.0)
    assert estimate(STUDY, [record("other").run], stored) == pytest.approx(5.0)  # the mean over the dataset
    elsewhere = replace(record().run, dataset="other")
    assert estimate(STUDY, [elsewhere], stored) == pytest.approx(5.0)  # and over all
    assert estimate(STUDY, [record().run], []) is None
    assert estimate(STUDY, [], stored) == 0
