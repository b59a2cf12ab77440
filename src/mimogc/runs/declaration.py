"""What a study declares, checked when it is loaded: better here than as a strange page of the report."""

import re
from collections.abc import Iterable

from mimogc.runs.options import COMMON, UsageError
from mimogc.runs.study import KINDS, Study

_NAME = re.compile(r"\w[\w.+-]*")  # it is the name of a file and a place in a page


def check(study: Study) -> None:
    """Refuse names that cannot be used and grids that cannot be asked for, in a sentence that names the attribute."""
    for attribute in ("name", "title", *KINDS):
        if not hasattr(study, attribute):
            raise UsageError(f"a study must have a {attribute}; {type(study).__name__} has none")
    if not isinstance(study.name, str) or not _NAME.fullmatch(study.name):
        raise UsageError(f"name of a study: expected letters, digits, '.', '_', '+' or '-', got {study.name!r}")
    for kind in KINDS:
        _check_names(study, kind, getattr(study, kind))
    if isinstance(study.seeds, bool) or not isinstance(study.seeds, int) or study.seeds < 0:
        raise UsageError(f"seeds of the study {study.name}: expected a whole number, at least 0, got {study.seeds!r}")
    seen: set[str] = set()
    for option in study.options:
        if option.flag in COMMON or option.flag in seen:
            why = "every study has that one" if option.flag in COMMON else "it is there twice"
            raise UsageError(f"options of the study {study.name}: expected other names, got {option.name!r}; {why}")
        seen.add(option.flag)


def _check_names(study: Study, kind: str, names: Iterable[object]) -> None:
    """A list of them is typed with commas, and upper and lower case are alike."""
    where = f"{kind} of the study {study.name}"
    if not isinstance(names, tuple | list):
        raise UsageError(f"{where}: expected a tuple of names, got {names!r}")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name.strip() or name != name.strip() or "," in name:
            raise UsageError(f"{where}: expected names without commas and without spaces around them, got {name!r}")
        if name.lower() in seen:
            raise UsageError(
                f"{where}: expected names that differ in more than upper and lower case, got {name!r} twice"
            )
        seen.add(name.lower())
