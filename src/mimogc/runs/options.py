"""The options of a study as records: from one come its reading, its checks, its help and its place in a command."""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mimogc.runs.run import Scalar

#: the flags that `mimogc reproduce` has for every study
COMMON: tuple[str, ...] = (
    "--methods",
    "--datasets",
    "--variants",
    "--lr",
    "--seeds",
    "--quick",
    "--paper-hparams",
    "--jobs",
    "--cluster",
)
COMMON += ("--store", "--tensorboard", "--dry-run", "--json", "--help")


class UsageError(ValueError):
    """The user asked for something that does not exist or cannot be; the message is one line."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option ``--name VALUE`` of a study, of the type of its default; a flag where that is ``False``.

    Its value is part of a run. Another *identity* than the default is another column of the table; the *extent* says
    how much is computed, and a cell with less than the default is incomplete.
    """

    name: str
    default: Scalar
    meaning: str  #: in one line
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    numbers: bool = False  #: whether a number is taken beside the choices
    extent: bool = False
    quick: Scalar | None = None  #: the value under --quick, if another one
    late: bool = False  #: newer than stored runs: where it has its default it is no part of a run

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"name of an option: expected small letters, digits and _, got {self.name!r}")
        if self.default is True:
            raise ValueError(f"default of the option {self.name}: expected False, since a flag turns it on, got True")
        for which, value in (("default", self.default), ("quick", self.quick)):
            try:
                read = value if value is None else self._read(value)
            except (ValueError, OverflowError):
                read = None
            if read != value:
                raise ValueError(f"{which} of the option {self.name}: expected {self.expected}, got {value!r}")

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if isinstance(self.default, bool):
            return "no value"
        words = [f"one of {', '.join(self.choices)}"] if self.choices else []
        if self.numbers or not isinstance(self.default, str):
            words.append("a whole number" if isinstance(self.default, int) else "a number")
        bounds = {"at least": self.least, "at most": self.most}.items()
        limits = [f", {which} {bound:,}" for which, bound in bounds if bound is not None]
        return "".join([" or ".join(words or ["a text"]), *limits])

    def read(self, value: Scalar) -> Scalar:
        """``value``, a text or what it stands for, in the type of the option; an error if it cannot be."""
        try:
            return self._read(value)
        except (ValueError, OverflowError):
            raise UsageError(f"{self.flag}: expected {self.expected}, got {value!r}") from None

    def _read(self, value: Scalar) -> Scalar:
        kind = type(self.default)
        if kind is str:
            spelling = {choice.lower(): choice for choice in self.choices}
            if not spelling or str(value).lower() in spelling:
                return spelling.get(str(value).lower(), str(value))
        if kind is bool or (kind is str and not self.numbers):
            if type(value) is kind is bool:
                return value
            raise ValueError
        number: float = int(value) if kind is int else float(value)
        low, high = self.least, self.most
        if number != float(value) or (low is not None and number < low) or (high is not None and number > high):
            raise ValueError
        if not math.isfinite(number):
            raise ValueError
        return number

    def typed(self, value: Scalar) -> list[str]:
        """The option with this value as it is typed."""
        return [self.flag] if value is True else [self.flag, str(value)]


def known(kind: str, name: str, available: Sequence[str] | Mapping[str, object]) -> str:
    """``name`` as ``available`` spells it (upper and lower case are alike), else a "did you mean" error."""
    spelling = {candidate.lower(): candidate for candidate in available}
    if name.lower() in spelling:
        return spelling[name.lower()]
    close = difflib.get_close_matches(name.lower(), spelling, n=1)
    hint = f"did you mean {spelling[close[0]]!r}?" if close else f"known: {', '.join(available) or 'none'}"
    raise UsageError(f"unknown {kind} {name!r}; {hint}")


def parse(options: Iterable[Option], arguments: Sequence[str], common: Iterable[str]) -> dict[str, Scalar]:
    """The values of ``options`` in what is left of a command line; ``common`` are the flags every study has."""
    flags = {option.flag: option for option in options}
    values: dict[str, Scalar] = {}
    rest = list(arguments)
    while rest:
        flag, equals, text = rest.pop(0).partition("=")
        if not flag.startswith("--"):
            raise UsageError(f"unexpected argument {flag!r}; lists are separated by commas without spaces")
        name = known("option", flag, [*flags, *common])
        if name not in flags:  # a common one in another case, which the command line itself did not take
            raise UsageError(f"unknown option {flag!r}; did you mean {name!r}?")
        option = flags[name]
        if isinstance(option.default, bool):
            values[option.name] = option.read(text if equals else True)
        elif equals or rest:
            values[option.name] = option.read(text if equals else rest.pop(0))
        else:
            raise UsageError(f"{flag}: expected {option.expected}, got nothing")
    return values


def variant_title(variant: str, options: Iterable[tuple[str, Scalar]]) -> str:
    """A variant and the options it was run with, for people: ``basic heads=8``."""
    return " ".join([variant, *(name if value is True else f"{name}={value}" for name, value in options)])
