"""Writes the report: one HTML page that needs nothing else, and a Markdown file per study."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import jinja2

import mimogc
from mimogc.experiments import registry
from mimogc.experiments.progress import duration
from mimogc.experiments.run import Record
from mimogc.experiments.store import Store
from mimogc.experiments.study import Study
from mimogc.report.comparison import SideTable
from mimogc.report.curves import Figure, standalone
from mimogc.report.gallery import gallery
from mimogc.report.names import label
from mimogc.report.specs import TABLES, TableSpec
from mimogc.report.tables import FilledTable, fill

DEFAULT_STORE = Path("results/runs.db")  # of the command line, so that commands need not name it
PAPER = "Roth and Liebig, “What Can We Learn From MIMO Graph Convolutions?” (IJCAI 2025)"


@dataclass(frozen=True, slots=True)
class Section:
    """What the page shows of one study."""

    spec: TableSpec
    title: str
    table: FilledTable
    figures: list[Figure]
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
        return sorted(
            {series for figure in self.figures for series in figure.series}, key=lambda series: series[1]
        )


def write_report(store: str | Path, output: str | Path) -> Path:
    """Write ``index.html``, one ``STUDY.md`` per study and the figures into the folder ``output``; returns the page.

    Only the store is read. What it does not have is shown as missing, with the command that computes it.
    """
    store, output = Path(store), Path(output)
    options = [] if store == DEFAULT_STORE else ["--store", str(store)]
    with Store(store) as results:
        output.mkdir(parents=True, exist_ok=True)
        pictures = gallery(results.records("figures"), output / "figures", options)
        sections = [
            _section(spec, registry.load(spec.study), results, options)
            for spec in TABLES
            if spec.study in registry.names()
        ]
    facts = {
        "sections": sections,
        "gallery": pictures,
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
    _write(output / "figures.md", _render("figures.md.j2", **facts))
    page = output / "index.html"
    _write(page, _render("index.html.j2", **facts))
    return page


def _section(spec: TableSpec, study: Study, results: Store, options: Sequence[str]) -> Section:
    records = results.records(study.name)
    borrowed = [record for name in spec.borrows for record in results.records(name)]
    shown = [*records, *borrowed]
    columns = {(column.dataset, column.variant) for column in spec.columns}
    used = [*records, *(r for r in borrowed if (r.run.dataset, r.run.variant) in columns)]
    return Section(
        spec=spec,
        title=study.title,
        table=fill(spec, study, study.aggregate(shown), options),
        figures=spec.figures(study.select(shown)) if spec.figures else [],
        findings=spec.findings(records) if spec.findings else [],
        beside=spec.beside(records) if spec.beside else [],
        runs=len(used),
        seconds=sum(record.outcome.seconds for record in used),
        diverged=[record.run.label() for record in records if record.status == "diverged"],
        failures=[(r.run.label(), r.error.partition("\n")[0]) for r in results.failures(study.name)],
        machines=Counter(_machine(record) for record in used).most_common(),
    )


def _machine(record: Record) -> str:
    """The environment of a record in a line."""
    facts = record.environment
    libraries = [
        f"{name} {facts[name]}" for name in ("mimogc", "torch", "torch_geometric", "python") if name in facts
    ]
    revision = str(facts.get("revision", ""))
    if revision:
        changed = " with local changes" if revision.endswith("+") else ""
        libraries.insert(1, f"revision {revision[:10]}{changed}")
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
    environment.filters["line"] = lambda text: " ".join(text.replace("|", "\\|").split())
    return environment.get_template(template).render(**facts)


def _write(path: Path, text: str) -> None:
    """All of the file or nothing: whoever looks at the page while it is written sees the old one."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
