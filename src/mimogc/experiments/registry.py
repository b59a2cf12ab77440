"""The studies by name, imported only when asked for."""

import importlib
import importlib.util
import os
import sys
from typing import cast

from mimogc.experiments.study import Study, UsageError, known

MODULES = {
    "universality": "mimogc.experiments.universality:STUDY",
    "zinc12k": "mimogc.experiments.zinc:ZINC12K",
    "zinc": "mimogc.experiments.zinc:ZINC",
    "heterophilic": "mimogc.experiments.heterophilic:STUDY",
    "starts": "mimogc.experiments.starts:STUDY",
    "figures": "mimogc.experiments.figures:STUDY",
}


WITHOUT_PAGE = ("starts",)  # in the report; benchmarks/starts.py prints its tables


def names() -> list[str]:
    """The studies of the paper."""
    return list(MODULES)


def reference(name: str) -> str:
    """The ``module:object`` of a study: of a known name, or as given for a study of one's own."""
    return name if ":" in name else MODULES[known("study", name, names())]


def load(name: str) -> Study:
    """The study of that name or ``module:object``; a module may lie in the current folder."""
    target = reference(name)
    module, _, attribute = target.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise UsageError(f"unknown study {name!r}: there is no module {module!r}")
    try:
        return cast(Study, getattr(importlib.import_module(module), attribute))
    except AttributeError:
        raise UsageError(f"unknown study {name!r}: {module!r} has no {attribute!r}") from None
