"""Makes pages of results in docs/results anew from the runs that are kept there as text, with the notes on them.

    python benchmarks/pages.py              # Tables 2, 3 and 8, their curves included
    python benchmarks/pages.py zinc12k      # one of them

Tables, curves and where they were computed are what `mimogc report` makes of the text; what they mean is written in
benchmarks/notes. {errors} in a note becomes the train and validation errors of what Table 2 shows, {long} the runs of
docs/results/long.sql, which have all the paper's epochs, {equal} Table 3 with one start for all methods, {told} the
deep models that are told labels.
"""

import argparse
import hashlib
import math
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder that holds `benchmarks`

from benchmarks.keep import kept

from mimogc import studies
from mimogc.methods import in_order
from mimogc.report import numbers, write_report
from mimogc.report.names import label
from mimogc.report.published import published
from mimogc.runs.run import Record
from mimogc.runs.store import Store
from mimogc.runs.times import duration
from mimogc.studies.heterophilic import DEEP_VALUES

ROOT = Path(__file__).resolve().parents[1]
RESULTS, NOTES = ROOT / "docs" / "results", Path(__file__).resolve().parent / "notes"
BEHIND_TABLES = ("\n## LMGC against the others", "\n## Where we differ")  # the notes come before the first of these
LONG = "long.sql"  # runs of Table 2 with all the paper's epochs: beside those with fewer they would stand alone
FROM_ZERO = (("gain", 0.0),)  # the options of runs whose layers' share is learnt from zero
NOTED_RUNS = "with `--gain 0` or `--labels`"  # those that `_in_notes` finds
TITLES = {
    "basic": "Basic",
    "lappe": "+ LapPE",
    "jk": "+ Jumping knowledge",
    "residual": "+ Residual",
    "all": "+ All three",
}


class Page(NamedTuple):
    """Where a page comes from."""

    text: str  # the runs
    study: str  # whose runs are in its notes
    everything: bool  # whether columns without any value are shown
    commands: tuple[str, ...]  # how the runs were made


_STUDY, _SHORT = "mimogc reproduce zinc12k --paper-hparams", "--epochs 200"
_NODES, _SMALL = "mimogc reproduce heterophilic", "texas,cornell,wisconsin"
_DEEP = "--variants deep --methods gcn,lmgc"
_FROM_ZERO = "--variants deep --layers 4 --undirected --epochs 150"
_HIDDEN = f"{_NODES} --quick --datasets minesweeper --variants deep --epochs 1600 --dropout-rate 0 --lr 0.005 --cosine"
_MINES = f"{_NODES} --quick --datasets minesweeper --variants deep --epochs 700"
_ONCE = "--paper-hparams --seeds 1"
_TOLD = "--variants deep --epochs 800 --dropout-rate 0 --lr 0.005 --cosine --labels 0.9"
_STEPS = "--gain 0.1 --branch-scale 5"
_BOTH_WAYS = "--variants deep --layers 4 --gain none --undirected --epochs 150"
PAGES = {
    "zinc12k": Page(
        "runs.sql",
        "zinc12k",
        False,
        (
            f"{_STUDY} --seeds 1 {_SHORT}",
            f"{_STUDY} --methods lmgc --seeds 3 {_SHORT}",
            f"{_STUDY} --methods eq12 --variants all --seeds 1 {_SHORT}",
            f"{_STUDY} --methods eq12 --variants basic --lr 0.0003 --seeds 1 {_SHORT}",
            f"{_STUDY} --methods lmgc --variants rings --seeds 3 {_SHORT}",
            f"{_STUDY} --methods lmgc --variants structure --seeds 3 {_SHORT}",
            f"{_STUDY} --methods gatv2,fagcn --variants rings --seeds 1 {_SHORT}",
        ),
    ),
    "zinc": Page(
        "runs.sql",
        "zinc12k",
        True,
        (
            f"{_STUDY} --variants basic --seeds 1 {_SHORT}",
            f"{_STUDY} --methods lmgc --variants basic --seeds 3 {_SHORT}",
            f"{_STUDY} --methods eq12 --variants basic --lr 0.0003 --seeds 1 {_SHORT}",
            "mimogc reproduce zinc --paper-hparams --methods lmgc,gin --seeds 1 --epochs 50",
        ),
    ),
    "heterophilic": Page(
        "heterophilic.sql",
        "heterophilic",
        False,
        (
            f"{_NODES} --datasets {_SMALL} --methods gatv2,fagcn,acm,gin,lmgc",
            f"{_NODES} --datasets {_SMALL} --methods gatv2,fagcn,acm,gin --gain 0",
            f"{_NODES} --datasets {_SMALL} --methods gcn,mlp --paper-hparams --seeds 1",
            f"{_NODES} --datasets {_SMALL} --methods eq12 --variants residual,averaged --paper-hparams",
            f"{_NODES} --datasets film,chameleon,squirrel --methods gatv2,fagcn,acm,gin,eq12 --paper-hparams --seeds 1",
            f"{_NODES} --datasets film,chameleon,squirrel --methods gcn,mlp --paper-hparams --seeds 1",
            f"{_NODES} --datasets film,chameleon,squirrel --methods lmgc --paper-hparams",
            f"{_NODES} --datasets chameleon,squirrel --methods eq12 --variants averaged --paper-hparams --seeds 1",
            f"{_NODES} --datasets film --methods eq12 --variants averaged --paper-hparams --seeds 3",
            f"{_NODES} --datasets film,chameleon,squirrel,minesweeper --methods gatv2,fagcn,acm,gin {_ONCE} --gain 0",
            f"{_NODES} --datasets minesweeper --methods gcn,gatv2,fagcn,acm,gin,lmgc,mlp --paper-hparams --seeds 1",
            f"{_NODES} --datasets minesweeper --methods eq12 --variants residual,averaged --paper-hparams --seeds 1",
            f"{_NODES} --quick --datasets minesweeper {_DEEP} --epochs 700",
            f"{_NODES} --paper-hparams --seeds 1 --datasets chameleon {_DEEP} --layers 4 --channels 128 --epochs 300",
            f"{_NODES} --quick --datasets squirrel {_DEEP} --layers 4 --channels 128 --epochs 300",
            f"{_NODES} --paper-hparams --seeds 1 --datasets chameleon --methods gcn,lmgc,lmgc-sym {_BOTH_WAYS}",
            f"{_NODES} --quick --datasets squirrel --methods gcn,lmgc,lmgc-sym {_BOTH_WAYS}",
            f"{_NODES} --paper-hparams --seeds 1 --datasets chameleon --methods fagcn,acm {_BOTH_WAYS}",
            f"{_NODES} --paper-hparams --seeds 1 --datasets chameleon --methods lmgc {_FROM_ZERO}",
            f"{_NODES} --paper-hparams --seeds 1 --datasets chameleon --methods gcn,acm --calibrate {_BOTH_WAYS}",
            f"{_NODES} --quick --datasets squirrel --methods gcn --calibrate {_BOTH_WAYS}",
            f"{_MINES} --methods lmgc {_STEPS} --score-lr 0.02",
            f"{_HIDDEN} --methods gcn,lmgc --hide 0.5",
            f"{_HIDDEN} --methods gcn",
            f"{_NODES} --paper-hparams --seeds 1 --datasets minesweeper --methods gcn,lmgc {_TOLD} --hide 0.5",
            f"{_NODES} --quick --datasets minesweeper --methods acm,gin {_TOLD} --hide 0.5",
            f"{_NODES} --quick --datasets minesweeper --methods gcn --channels 80 {_TOLD} --hide 0.5",
            f"{_NODES} --quick --datasets minesweeper --methods gcn,lmgc {_TOLD}",
            f"{_MINES} --methods gcn {_STEPS} --calibrate",
            f"{_NODES} --paper-hparams --seeds 1 --datasets chameleon --methods lmgc {_FROM_ZERO} {_STEPS}"
            " --score-lr 0.02",
        ),
    ),
}


def errors(records: Sequence[Record]) -> str:
    """Train and validation errors of the runs that Table 2 shows: the means over the seeds."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in studies.load("zinc12k").compared(records):
        groups.setdefault((record.run.method, record.run.variant), []).append(record)
    order = [*TITLES, *dict.fromkeys(record.run.variant for record in records)]
    variants = sorted({variant for _, variant in groups}, key=order.index)
    lines = [
        ["train, validation", *(TITLES.get(variant, variant) for variant in variants)],
        ["---"] * (1 + len(variants)),
    ]
    for method in in_order(method for method, _ in groups):
        cells = [
            ", ".join(
                f"{statistics.mean(record.outcome.metrics[f'{side}_mae'] for record in found):.3f}"
                for side in ("train", "val")
            )
            if (found := groups.get((method, variant)))
            else "–"
            for variant in variants
        ]
        lines.append([label(method), *cells])
    return _markdown(lines)


def long(records: Sequence[Record]) -> str:
    """The runs with all the paper's epochs beside what Table 2 shows of the same cells, and the paper's values."""
    with tempfile.TemporaryDirectory() as folder, Store(kept(RESULTS / LONG, Path(folder))) as store:
        trained = store.records("zinc12k")
    shorter: dict[tuple[str, str], list[float]] = {}
    for record in studies.load("zinc12k").compared(records):
        shorter.setdefault((record.run.method, record.run.variant), []).append(record.outcome.metrics["test_mae"])
    lines = [
        ["", "seed", "epochs", "best epoch", "train", "validation", "test", "after 200 epochs (of seeds)", "paper"]
    ]
    lines += [["---"] * len(lines[0])]
    for record in sorted(trained, key=lambda record: record.run.label()):
        cell, of = (record.run.method, record.run.variant), record.outcome.metrics
        before = shorter.get(cell, [])
        paper = published().get(("zinc12k", cell[0], "zinc12k", cell[1], "test_mae"))
        lines.append(
            [
                f"{label(cell[0])}, {TITLES.get(cell[1], cell[1])}",
                str(record.run.seed),
                f"{of['epochs']:,.0f}",
                f"{of['best_epoch']:,.0f}",
                *(f"{of[f'{side}_mae']:.3f}" for side in ("train", "val", "test")),
                f"{statistics.mean(before):.3f} (of {len(before)})" if before else "–",
                "–" if paper is None else numbers.mean_std(paper.mean, paper.std, 3),
            ]
        )
    return _markdown(lines)


def equal(records: Sequence[Record]) -> str:
    """Table 3 where all methods start without their neighbours, as LMGC does, and how far LMGC is ahead of each."""
    study = studies.load("heterophilic")
    alike = []
    for record in records:
        options = study.unusual(record.run.hparams)
        if options == FROM_ZERO or (record.run.method == "lmgc" and not options):
            values = tuple(pair for pair in record.run.hparams if pair not in FROM_ZERO)
            alike.append(replace(record, run=replace(record.run, hparams=values)))
    cells = {
        (cell.method, cell.dataset): cell
        for cell in study.aggregate(alike)
        if cell.variant == "residual" and not cell.lacks
    }
    gaps = {(gap.against, gap.dataset): gap for gap in study.differences(alike)}
    datasets = [name for name in study.datasets if any(name == dataset for _, dataset in cells)]
    lines = [["learnt from 0", *map(label, datasets)], ["---"] * (1 + len(datasets))]
    for method in in_order(method for method, _ in cells):
        line = [label(method)]
        for dataset in datasets:
            cell, gap = cells.get((method, dataset)), gaps.get((method, dataset))
            text = "–" if cell is None else numbers.mean_std(cell.mean, cell.std, 1)
            more = f" ({gap.mean:+.1f} ± {gap.standard_error:.1f})".replace("-", numbers.MINUS) if cell and gap else ""
            line.append(text + more)
        lines.append(line)
    return _markdown(lines)


def told(records: Sequence[Record]) -> str:
    """Deep models that are told labels of training nodes, and how far LMGC is ahead of each on the same splits."""
    rows: dict[tuple[float, str, int], dict[int, Mapping[str, float]]] = {}
    for record in records:
        values, metrics = dict(record.run.hparams), record.outcome.metrics
        if values.get("labels"):
            row = float(values.get("hide", 0.0)), record.run.method, int(values["channels"])
            rows.setdefault(row, {})[record.run.split] = metrics
    lines = [["told", "parameters", "splits", "test", "validation", "LMGC ahead: test", "validation"]]
    lines += [["---"] * len(lines[0])]
    order = in_order(method for _, method, _ in rows)
    for hide, method, channels in sorted(rows, key=lambda row: (-row[0], order.index(row[1]), row[2])):
        own = rows[hide, method, channels]
        ours = next((rows[row] for row in rows if row[:2] == (hide, "lmgc")), {}) if method != "lmgc" else {}
        name = label(method) + (f", {channels} channels" if channels != DEEP_VALUES["channels"] else "")
        line = [name if hide else f"{name}, nothing hidden", f"{next(iter(own.values()))['parameters']:,.0f}"]
        line.append(str(len(own)))
        sides = "test_roc_auc", "val_roc_auc"
        line += [f"{statistics.mean(metrics[side] for metrics in own.values()):.2f}" for side in sides]
        for side in sides:
            gaps = [ours[split][side] - own[split][side] for split in sorted(own.keys() & ours.keys())]
            line.append(_mean_error(gaps) if len(gaps) > 1 else "–")
        lines.append(line)
    return _markdown(lines)


def _mean_error(values: Sequence[float]) -> str:
    """Mean ± standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):+.2f} ± {error:.2f}".replace("-", numbers.MINUS)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


NOTED: dict[str, Callable[[Sequence[Record]], str]] = {
    "{errors}": errors,
    "{long}": long,
    "{equal}": equal,
    "{told}": told,
}


def _in_notes(record: Record) -> bool:
    """Whether a run is shown in a table of the notes, and not in those of the report."""
    return bool(set(FROM_ZERO).intersection(record.run.hparams) or dict(record.run.hparams).get("labels"))


def made(name: str, folder: Path) -> tuple[str, list[Path]]:
    """The page, and the pictures of its curves."""
    page, text = PAGES[name], RESULTS / PAGES[name].text
    whole, shown = kept(text, folder), folder / "shown.db"
    with Store(whole) as results, Store(shown, write=True) as tables:
        records = results.records(page.study)
        tables.add(record for record in results.records() if not _in_notes(record))
    write_report(shown, folder / "report", page.everything)
    found = (folder / "report" / f"{name}.md").read_text()
    head = found[: min(place for mark in BEHIND_TABLES if (place := found.find(mark)) >= 0)]
    rest = found[len(head) : found.index("\n", 1 + found.rindex("\n- "))]  # without the gaps of the table
    notes = (NOTES / f"{name}.md").read_text()
    for mark, write in NOTED.items():
        notes = notes.replace(mark, write(records)) if mark in notes else notes
    hidden = [record for record in records if _in_notes(record)]
    if hidden:
        seconds = sum(record.outcome.seconds for record in hidden)
        rest = rest.strip() + f"\n- {len(hidden):,} further runs, {duration(seconds)} of computing, {NOTED_RUNS}"
    digest = hashlib.sha256(text.read_bytes()).hexdigest()[:16]
    parts = [
        head.rstrip() + "\n",
        notes.strip() + "\n",
        rest.strip() + "\n",
        f"The runs are in `docs/results/{text.name}` (SHA-256 {digest}…), of which `python benchmarks/pages.py {name}`",
        f"makes this page, and `mkdir -p results && sqlite3 results/kept.db < docs/results/{text.name} &&",
        "mimogc report --store results/kept.db` a report. They were computed by\n",
        "```sh\n" + "\n".join(page.commands) + "\n```\n",
    ]
    return "\n".join(parts), sorted((folder / "report" / "curves").glob(f"{name}-*.svg"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"some of {', '.join(PAGES)}; default all")
    given = parser.parse_args(arguments)
    for name in given.pages or PAGES:
        if name not in PAGES:
            parser.error(f"PAGE: expected some of {', '.join(PAGES)}, got {name!r}")
        with tempfile.TemporaryDirectory() as folder:
            text, curves = made(name, Path(folder))
            (RESULTS / f"{name}.md").write_text(text)
            for old in (RESULTS / "curves").glob(f"{name}-*.svg"):
                old.unlink()
            for curve in curves:
                shutil.copy(curve, RESULTS / "curves" / curve.name)
        print(f"wrote docs/results/{name}.md and {len(curves)} pictures")


if __name__ == "__main__":
    main()
