"""The tables of the paper as data: what their rows and columns are, and what to say about them.

A new table is one :class:`TableSpec` in :data:`TABLES`; figures and statements that need the results are functions.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mimogc._texts import read_texts
from mimogc.report import comparison, curves
from mimogc.report.comparison import SideTable
from mimogc.report.names import PAPER_METHODS, label
from mimogc.report.published import notes
from mimogc.runs.run import HParams, Record
from mimogc.runs.study import Study
from mimogc.studies.zinc_models import PAPER_VARIANTS


@dataclass(frozen=True, slots=True)
class Column:
    """A column: which cells of the study belong to it, and under which variant the paper has them."""

    label: str
    dataset: str
    variant: str
    metric: str
    published_variant: str = ""  # where it is not the variant
    published_metric: str = ""  # under which the paper prints it, where it is not the metric
    study: str = ""  # that computes it, where it is not the study of the table
    options: HParams = ()  # of the study, that are not as usual
    further: bool = False  # shown where there are results, and not missed where there are none


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table, of the paper or of a study of one's own."""

    study: str
    number: str  # in the paper; empty where it has none
    caption: str
    columns: tuple[Column, ...]
    decimals: int = 3
    published_decimals: int = 3  # as printed in the paper
    notes: tuple[str, ...] = ()  # where and why we differ, in plain words
    methods: tuple[str, ...] = PAPER_METHODS  # always shown; others only where there are results
    figures: Callable[[Study, Sequence[Record]], list[curves.CurveFigure]] | None = None
    curves_caption: str = ""
    borrows: tuple[str, ...] = ()  # further studies whose results the table shows
    findings: Callable[[Sequence[Record]], list[str]] | None = None  # statements made from the results
    beside: Callable[[Study, Sequence[Record]], list[SideTable]] | None = None  # further tables made from the results


CAPTIONS = read_texts(Path(__file__).with_name("captions.md"))


def closed_form(records: Sequence[Record]) -> list[str]:
    """What the closed form of Proposition 1 reaches, from the runs of MIMO-GC."""
    metrics = [record.outcome.metrics for record in records]
    errors = [found["closed_form_mse"] for found in metrics if "closed_form_mse" in found]
    return [CAPTIONS["closed form"][0].format(error=max(errors))] if errors else []


def _of_the_paper(study: str, number: str, columns: Iterable[Column], **options: Any) -> TableSpec:
    """A table with its captions and, unless given, the notes of its own study."""
    caption, of_curves = CAPTIONS[study]
    options = {"notes": notes(study), **options}
    return TableSpec(study, number, caption, tuple(columns), curves_caption=of_curves, **options)


UNIVERSALITY = _of_the_paper(
    "universality",
    "Table 1",
    (
        Column("n = 64", "erdos_renyi", "n64", "mse", "basic"),
        Column("n = 64, lr decay", "erdos_renyi", "n64-decay", "mse", "basic"),
        Column("n = 16", "erdos_renyi", "n16", "mse", "basic"),
        Column("as released, absolute error", "erdos_renyi", "released", "mae", "basic", "mse", further=True),
        Column("the same, n = 16", "erdos_renyi", "released-n16", "mae", "basic", "mse", further=True),
    ),
    published_decimals=2,
    methods=(*PAPER_METHODS, "mimogc"),
    figures=curves.universality,
    findings=closed_form,
)

_ADDED = ("Basic", "+ LapPE", "+ Jumping knowledge", "+ Residual", "+ All three")
ZINC12K = _of_the_paper(
    "zinc12k",
    "Table 2",
    (Column(text, "zinc12k", name, "test_mae") for text, name in zip(_ADDED, PAPER_VARIANTS, strict=True)),
    figures=curves.by_variant,
    beside=comparison.paired_by_seed,
)

_HETEROPHILIC = ("texas", "cornell", "wisconsin", "film", "chameleon", "squirrel")
HETEROPHILIC = _of_the_paper(
    "heterophilic",
    "Table 3",
    (Column(label(name), name, "residual", "test_accuracy") for name in _HETEROPHILIC),
    decimals=1,
    published_decimals=1,
    figures=curves.by_dataset,
    findings=comparison.findings,
    beside=comparison.paired_by_split,
)

ZINC = _of_the_paper(
    "zinc",
    "Table 8",
    (
        Column(f"{label(dataset)} {side}", dataset, "basic", f"{side}_mae", study=dataset)
        for dataset in ("zinc", "zinc12k")
        for side in ("train", "test")
    ),
    notes=notes("zinc12k", "zinc"),
    borrows=("zinc12k",),
    figures=curves.by_variant,
    beside=comparison.paired_by_seed,
)

TABLES = (UNIVERSALITY, ZINC12K, HETEROPHILIC, ZINC)


def derived(study: Study) -> TableSpec:
    """The table of a study that is not of the paper, from its declaration: a column per dataset, variant and metric."""
    usual = {option.name: option.default for option in study.options}
    places = [
        (dataset, variant, metric)
        for dataset in study.usual.get("datasets", study.datasets)
        for variant in study.usual.get("variants", study.variants)
        for metric in study.metrics(dataset)
        if any(study.has(dataset, method, variant, usual) for method in study.methods)
    ]
    columns = tuple(Column(", ".join([label(place[0]), *place[1:]]).replace("_", " "), *place) for place in places)
    caption = " ".join((inspect.getdoc(study) or study.title).split("\n\n")[0].split())
    return TableSpec(study.name, "", caption, columns, methods=study.usual.get("methods", study.methods))
