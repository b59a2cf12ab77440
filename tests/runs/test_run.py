"""A run has an identity that does not change."""

import pytest

from mimogc.runs.run import Outcome, Run, hparams

RUN = Run("universality", "n64", "lmgc", "constant", hparams(steps=40_000, lr=0.01), 0, 1)


def test_identity_is_a_golden_value() -> None:
    # Stored results are found by it: a change here throws away every result of every user.
    assert RUN.id == "c4f890d9e69f5554"


def test_canonical_form() -> None:
    assert RUN.canonical() == (
        '{"dataset":"n64","hparams":{"lr":0.01,"steps":40000},"method":"lmgc",'
        '"seed":1,"split":0,"study":"universality","variant":"constant"}'
    )


def test_equal_runs_have_one_identity() -> None:
    whole, point = (Run("s", "d", "m", "v", hparams(lr=lr), 0, 0) for lr in (1, 1.0))
    assert whole == point
    assert whole.id == point.id


@pytest.mark.parametrize(
    "other",
    [
        Run("universality", "n64", "lmgc", "constant", hparams(steps=40_000, lr=0.01), 0, 2),
        Run("universality", "n64", "lmgc", "constant", hparams(steps=40_000, lr=0.01), 1, 1),
        Run("universality", "n64", "lmgc", "constant", hparams(steps=40_000, lr=0.03), 0, 1),
        Run("universality", "n64", "lmgc", "constant", hparams(steps="40000", lr=0.01), 0, 1),
        Run("universality", "n64", "lmgcc", "onstant", hparams(steps=40_000, lr=0.01), 0, 1),
    ],
)
def test_different_runs_have_different_identities(other: Run) -> None:
    assert other.id != RUN.id


def test_label_is_for_people() -> None:
    assert RUN.label() == "universality n64 lmgc constant lr=0.01 steps=40000 split=0 seed=1"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((("lr", 0.1), ("a", 1)), "sorted"),
        ((("lr", 0.1), ("lr", 0.2)), "unique"),
        ((("lr", float("nan")),), "finite"),
        ((("lr", [0.1]),), "a string, a bool or a number"),
    ],
)
def test_wrong_hparams_are_refused(pairs: tuple[tuple[str, float], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Run("s", "d", "m", "v", pairs, 0, 0)


def test_an_outcome_is_done_or_diverged() -> None:
    with pytest.raises(ValueError, match="'failed'"):
        Outcome(status="failed")  # type: ignore[arg-type]
