"""Loads a study, which is an object in a module, when it is asked for."""

from mimogc._loading import load_object
from mimogc.runs.options import UsageError
from mimogc.runs.study import Study


def load(reference: str) -> Study:
    """The study at ``module:object``; the module may lie in the current folder."""
    try:
        study = load_object("study", reference)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not isinstance(study, Study):
        kind = f"the class {study.__name__}" if isinstance(study, type) else f"a {type(study).__name__}"
        raise UsageError(f"study: expected an object of a class derived from Study, got {reference!r}, {kind}")
    study.reference = reference
    return study
