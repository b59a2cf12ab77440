"""Writes the report: one HTML page that needs nothing else, and a Markdown file per study."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

import mimogc
from mimogc.report.comparison import SideTable
from mimogc.report.curves import CurveFigure, standalone
from mimogc.report.gallery import gallery
from mimogc.report.layout import Layout, layout
from mimogc.report.names import label
from mimogc.report.specs import CAPTIONS, TABLES, TableSpec, derived
from mimogc.report.tables import FilledTable, fill
from mimogc.runs import registry
from mimogc.runs.run import Record
from mimogc.runs.store import DEFAULT, Store
from mimogc.runs.study import Study
from mimogc.runs.times import duration

PAPER = "Roth and Liebig, “What Can We Learn From MIMO Graph Convolutions?” (IJCAI 2025)"


@dataclass(frozen=True, slots=True)
class Section:
    """What the page shows of one study."""

    spec: TableSpec
    title: str
    table: FilledTable
    layout: Layout
    figures: list[CurveFigure]
    findings: list[str]
    beside: list[SideTable]
    runs: int
    seconds: float
    diverged: list[str]
    failures: list[tuple[str, str]]  # run and reason
    machines: list[tuple[str, int]]  # what results were computed on, and how many

    @property
    def series(self) -> list[tuple[str, int]]:
        """The series of all figures with the numbers of their colours."""
        return sorted({series for figure in self.figures for series in figure.series}, key=lambda series: series[1])


def write_report(store: str | Path, output: str | Path, everything: bool = False) -> Path:
    """Write ``index.html``, one ``STUDY.md`` per study and the figures into the folder ``output``; returns the page.

    Only the store is read. A cell that it does not have is shown as missing, with the command that computes it; studies
    and columns that it has nothing of are left out unless ``everything`` is asked for.
    """
    store, output = Path(store), Path(output)
    options = [] if store == DEFAULT else ["--store", str(store)]
    with Store(store) as results:
        records, failures = _by_study(results.records()), _by_study(results.failures())
        references = results.references()
    output.mkdir(parents=True, exist_ok=True)
    pictures = gallery(records.get("figures", []), output / "figures", options)
    shown = [spec for spec in TABLES if everything or spec.study in records or spec.study in failures]
    own = sorted({*records, *failures} - {spec.study for spec in TABLES} - {"figures"})
    sections, absent = [], []
    for spec, name in [*((spec, spec.study) for spec in shown), *((None, name) for name in own)]:
        try:  # what is wrong with one study does not take the others away
            study = registry.stored(name, references)
            failed = failures.get(name, [])
            sections.append(_section(spec or derived(study), study, records, failed, options, everything))
        except Exception as error:
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            absent.append(f"{name} ({_count(records.get(name, []), failures.get(name, []))}): {reason}")
    facts = {
        "unseen": [spec.study for spec in TABLES if spec not in shown],
        "with_figures": everything or bool(pictures.pictures),
        "sections": sections,
        "gallery": pictures,
        "absent": absent,
        "store": store,
        "paper": PAPER,
        "version": mimogc.__version__,
        "written": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    for section in sections:
        for number, figure in enumerate(section.figures, 1):
            (output / "curves").mkdir(exist_ok=True)
            _write(output / "curves" / f"{section.spec.study}-{number}.svg", standalone(figure))
        _write(output / f"{section.spec.study}.md", _render("study.md.j2", section=section, **facts))
    if facts["with_figures"]:
        _write(output / "figures.md", _render("figures.md.j2", **facts))
    page = output / "index.html"
    _write(page, _render("index.html.j2", **facts))
    return page


def _by_study(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.run.study, []).append(record)
    return found


def _count(records: Sequence[Record], failures: Sequence[Record]) -> str:
    counts = {"runs": len(records), "failed": len(failures)}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "no runs"


def _section(
    spec: TableSpec,
    study: Study,
    stored: Mapping[str, Sequence[Record]],
    failures: Sequence[Record],
    options: Sequence[str],
    everything: bool,
) -> Section:
    records = stored.get(study.name, [])
    borrowed = [record for name in spec.borrows for record in stored.get(name, [])]
    shown = [*records, *borrowed]
    columns = {(column.dataset, column.variant) for column in spec.columns}
    used = [*records, *(r for r in borrowed if (r.run.dataset, r.run.variant) in columns)]
    table = fill(spec, study, study.aggregate(shown), options, stored, everything)
    if spec.number and not any(entry.paper for row in table.rows for entry in row.entries):
        # Caption and notes are about the paper's columns.
        caption, of_curves = CAPTIONS["nothing of the paper"]
        spec = replace(spec, number="", caption=caption, curves_caption=of_curves, notes=())
    return Section(
        spec=spec,
        title=study.title if spec.number else re.sub(r" \(Table \d+\)$", "", study.title),
        table=table,
        layout=layout(table),
        figures=spec.figures(study, study.select(shown)) if spec.figures else [],
        findings=spec.findings(records) if spec.findings else [],
        beside=spec.beside(study, records) if spec.beside else [],
        runs=len(used),
        seconds=sum(record.outcome.seconds for record in used),
        diverged=[record.run.label() for record in records if record.status == "diverged"],
        failures=[(r.run.label(), r.error.partition("\n")[0]) for r in failures],
        machines=_machines(used),
    )


def _machines(records: Sequence[Record]) -> list[tuple[str, int]]:
    """The environments of the records, a line each with the revisions of the code, and how many are of it."""
    revisions: dict[str, Counter[str]] = {}
    for record in records:
        revision = str(record.environment.get("revision", ""))
        changed = " with local changes" if revision.endswith("+") else ""
        revisions.setdefault(_machine(record), Counter())[revision[:10] + changed] += 1
    lines = []
    for machine, found in sorted(revisions.items(), key=lambda item: -item[1].total()):
        named = [(revision, count) for revision, count in found.most_common() if revision]
        said = f"revision {named[0][0]}" if len(named) == 1 else "revisions "
        said += ", ".join(f"{revision} ({count:,})" for revision, count in named) * (len(named) > 1)
        lines.append((f"{machine}; {said}" if named else machine, found.total()))
    return lines


def _machine(record: Record) -> str:
    """The environment of a record in a line, without the revision."""
    facts = record.environment
    libraries = [f"{name} {facts[name]}" for name in ("mimogc", "torch", "torch_geometric", "python") if name in facts]
    if "threads" in facts:
        libraries.append(f"threads per batch: {facts['threads']}")
    machine = [str(facts[name]) for name in ("processor", "platform") if facts.get(name)]
    if facts.get("cores"):
        machine.append(f"{facts['cores']} cores")
    return "; ".join(text for text in (", ".join(libraries), ", ".join(machine)) if text)


def _render(template: str, **facts: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["duration"] = duration
    environment.filters["label"] = label
    environment.filters["runs"] = lambda count: f"{count:,} run{'' if count == 1 else 's'}"
    environment.filters["prose"] = _prose
    environment.filters["line"] = lambda text: " ".join(text.replace("|", "\\|").split())
    return environment.get_template(template).render(**facts)


def _prose(text: str) -> Markup:
    """A text of ours for a page: what stands between backticks is code."""
    return Markup(re.sub(r"`+([^`]+)`+", r"<code>\1</code>", str(escape(text))))


def _write(path: Path, text: str) -> None:
    """All of the file or nothing: whoever looks at the page while it is written sees the old one."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:  # which does not name the file where the disk is full
        raise OSError(error.errno, error.strerror, str(path)) from error
