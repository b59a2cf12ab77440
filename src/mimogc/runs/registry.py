"""Loads a study, which is an object in a module, when it is asked for."""

from collections.abc import Mapping

from mimogc._loading import load_object
from mimogc.runs import declaration
from mimogc.runs.options import UsageError
from mimogc.runs.study import Study

#: name → where it is, of the studies that come with the library; their names are taken
BUILT_IN = {
    "universality": "mimogc.studies.universality:STUDY",
    "zinc12k": "mimogc.studies.zinc:ZINC12K",
    "zinc": "mimogc.studies.zinc:ZINC",
    "heterophilic": "mimogc.studies.heterophilic:STUDY",
    "large": "mimogc.studies.large:STUDY",
    "figures": "mimogc.studies.figures:STUDY",
}


def load(reference: str) -> Study:
    """The study at ``module:object``; the module may lie in the current folder."""
    try:
        study = load_object("study", reference)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not isinstance(study, Study):
        kind = f"the class {study.__name__}" if isinstance(study, type) else f"a {type(study).__name__}"
        raise UsageError(f"study: expected an object of a class derived from Study, got {reference!r}, {kind}")
    declaration.check(study)
    place = BUILT_IN.get(study.name, reference)
    if place != reference and study is not load_object("study", place):
        raise UsageError(
            f"name of a study: expected another one than those of the library, got {study.name!r} of {reference!r}; "
            "their runs would mix in a store"
        )
    study.reference = reference
    return study


def stored(name: str, references: Mapping[str, str]) -> Study:
    """The study of that name, from where it was when its runs were computed (`Store.references`)."""
    places = {**references, **BUILT_IN}
    if name not in places:
        raise UsageError("the store does not know its module; the next mimogc reproduce tells it")
    study = load(places[name])
    if study.name != name:
        raise UsageError(f"{places[name]} is the study {study.name!r} now")
    return study
