"""LMGC against every other method on the same splits: a table of paired differences, and what it says in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from mimogc import methods
from mimogc.report import numbers
from mimogc.report.names import label
from mimogc.report.published import published
from mimogc.runs.run import Record
from mimogc.runs.selection import Difference, place
from mimogc.studies.heterophilic import AVERAGED, STUDY

CLEAR = 2.0  # standard errors from which on a difference is called clear


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table beside the paper's: text, and which cells stand out."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]  # name, then text and whether it stands out


def paired(records: Sequence[Record]) -> list[SideTable]:
    """How far LMGC is ahead of each method on each dataset: mean and standard error over the splits."""
    found = {(gap.against, gap.dataset): gap for gap in STUDY.differences(records)}
    if not found:
        return []
    datasets = sorted({dataset for _, dataset in found}, key=lambda name: place(STUDY.datasets, name))
    rows = tuple(
        (label(method), tuple(_shown(found.get((method, dataset))) for dataset in datasets))
        for method in methods.in_order(method for method, _ in found)
    )
    caption = (
        "LMGC's test score minus the method's on the same split, averaged over the repeats: mean ± standard error over "
        f"the splits, in percentage points. Bold: more than {CLEAR:.0f} standard errors from zero. The splits of a "
        "dataset share most of their nodes, so that the true uncertainty is larger than the standard error says."
    )
    return [SideTable("LMGC against the others", caption, tuple(label(name, datasets) for name in datasets), rows)]


def findings(records: Sequence[Record]) -> list[str]:
    """Where LMGC is clearly ahead or behind, where the paper has it otherwise, and what averaging changes."""
    gaps = STUDY.differences(records)
    if not gaps:
        return []
    ahead = [gap for gap in gaps if _clear(gap) and gap.mean > 0]
    behind = [gap for gap in gaps if _clear(gap) and gap.mean < 0]
    open_ones = len(gaps) - len(ahead) - len(behind)
    parts = [
        f"LMGC is ahead of another method by more than {CLEAR:.0f} standard errors in {len(ahead)} of {len(gaps)} "
        f"comparisons{_in_brackets(ahead)}, behind in {len(behind) or 'none'}{_in_brackets(behind)}",
        *[f"the other {open_ones} are not decided by these runs"] * bool(open_ones),
    ]
    words = ["; ".join(parts) + "."]
    inverted = [gap for gap in behind if (_paper(gap) or 0) > 0]
    if inverted:
        words.append(
            f"The paper has LMGC first everywhere; we do not find that against {_named(inverted)}, where the order is "
            "clearly the other way round here."
        )
    return words + _averaged(records)


def _averaged(records: Sequence[Record]) -> list[str]:
    """What the mean over the graphs gives in place of the sum, and which of the two is nearer to the paper."""
    ours = [cell for cell in STUDY.aggregate(records) if cell.method == "lmgc" and not cell.options]
    cells = {(cell.dataset, cell.variant): cell for cell in ours}
    shown, nearer = [], 0
    for dataset in dict.fromkeys(dataset for dataset, variant in cells if variant == AVERAGED):
        mean, total = cells[dataset, AVERAGED], cells.get((dataset, STUDY.variants[0]))
        paper = published().get(("heterophilic", "lmgc", dataset, STUDY.variants[0], mean.metric))
        if total is None or paper is None:
            continue
        nearer += abs(mean.mean - paper.mean) < abs(total.mean - paper.mean)
        shown.append(f"{label(dataset)} {mean.mean:.1f} (sum {total.mean:.1f}, paper {paper.mean:.1f})")
    if not shown:
        return []
    return [
        "With the mean over the graphs, as the released code has it, in place of the sum that the paper writes, LMGC "
        f"reaches: {', '.join(shown)}. The mean is nearer to the paper on {nearer} of {len(shown)}."
    ]


def _clear(gap: Difference) -> bool:
    return abs(gap.mean) > CLEAR * gap.standard_error


def _shown(gap: Difference | None) -> tuple[str, bool]:
    if gap is None:
        return "missing", False
    text = f"{gap.mean:+.1f}".replace("-", numbers.MINUS)
    if gap.standard_error == gap.standard_error:
        text += f" ± {gap.standard_error:.1f}"
    return text, _clear(gap)


def _in_brackets(gaps: Sequence[Difference]) -> str:
    return f" ({_named(gaps)})" if gaps else ""


def _named(gaps: Sequence[Difference]) -> str:
    by_method: dict[str, list[str]] = {}
    datasets = {gap.dataset for gap in gaps}
    for gap in gaps:
        by_method.setdefault(gap.against, []).append(label(gap.dataset, datasets))
    return "; ".join(f"{label(method)} on {', '.join(names)}" for method, names in by_method.items()) or "none"


def _paper(gap: Difference) -> float | None:
    """LMGC's lead in the paper, where it has both values."""
    values = [
        published().get(("heterophilic", method, gap.dataset, gap.variant, gap.metric))
        for method in (gap.method, gap.against)
    ]
    ours, theirs = values
    return None if ours is None or theirs is None else ours.mean - theirs.mean
