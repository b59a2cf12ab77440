"""One file per table or figure, of the paper or beyond it: what is run, selected and shown. Here are their names."""

from mimogc.runs import registry
from mimogc.runs.options import known
from mimogc.runs.study import Study

BUILT_IN = {
    "universality": "mimogc.studies.universality:STUDY",
    "zinc12k": "mimogc.studies.zinc:ZINC12K",
    "zinc": "mimogc.studies.zinc:ZINC",
    "heterophilic": "mimogc.studies.heterophilic:STUDY",
    "large": "mimogc.studies.large:STUDY",
    "figures": "mimogc.studies.figures:STUDY",
}


def load(name: str) -> Study:
    """The study of that name, or of one's own at ``module:object``; imported only when asked for."""
    return registry.load(name if ":" in name else BUILT_IN[known("study", name, BUILT_IN)])


def called(study: Study) -> str:
    """What a study is called on the command line."""
    return study.name if study.name in BUILT_IN else study.reference
