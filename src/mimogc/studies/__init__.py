"""One file per table or figure, of the paper or beyond it: what is run, selected and shown. `load` finds them."""

from mimogc.runs import registry
from mimogc.runs.options import known
from mimogc.runs.registry import BUILT_IN as BUILT_IN
from mimogc.runs.study import Study


def load(name: str) -> Study:
    """The study of that name, or of one's own at ``module:object``; imported only when asked for."""
    return registry.load(name if ":" in name else BUILT_IN[known("study", name, BUILT_IN)])


def called(study: Study) -> str:
    """What a study is called on the command line."""
    return study.name if study.name in BUILT_IN else study.reference
