"""Prints what the study `starts` found as Markdown: how LMGC should start.

    mimogc reproduce benchmarks.starts:STUDY   # several hours of one core; the same command goes on where it was
    python benchmarks/starts_tables.py         # the tables, from results/runs.db
    python benchmarks/starts_tables.py STORE [STORE ...]

Decided on training and validation; the test column is for the record.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder that holds `benchmarks`

from benchmarks.starts import FORMS, NODES, STUDY

from mimogc.runs.run import Record
from mimogc.runs.store import Store, StoreError
from mimogc.runs.study import Study

Table = tuple[str, str, int]  # title, metric, decimals
TABLES = {
    ("zinc12k", "plain"): ("ZINC12k, six layers, no residual connections, 60 epochs, mean absolute error", "mae", 3),
    ("zinc12k", "residual"): ("ZINC12k, ten residual layers, 15 epochs, mean absolute error", "mae", 3),
    ("zinc12k", "norm"): ("ZINC12k, ten residual layers with batch norm, 15 epochs, mean absolute error", "mae", 3),
    ("texas", "residual"): ("Texas, ten splits, accuracy in percent", "accuracy", 1),
    ("chameleon", "residual"): ("Chameleon, ten splits, accuracy in percent", "accuracy", 1),
    ("film", "residual"): ("Film, ten splits, accuracy in percent", "accuracy", 1),
}


def stored(study: Study) -> list[Record]:
    """The records of the stores that the command line names, each run once."""
    records = []
    try:
        for path in sys.argv[1:] or ["results/runs.db"]:
            with Store(path) as store:
                records += store.records(study.name)
    except StoreError as error:
        sys.exit(f"error: {error}")
    return study.select(list({record.run.id: record for record in records}.values()))


def print_tables(selected: Sequence[Record], tables: Mapping[tuple[str, str], Table], texts: Mapping[str, str]) -> None:
    """One table per dataset and variant, a row per form that was trained."""
    for (dataset, variant), (title, kind, decimals) in tables.items():
        better = "lower" if kind == "mae" else "higher"
        print(f"## {title}\n\n{better.capitalize()} is better.\n")
        print("| form | runs | train | validation | test |\n| --- | --- | --- | --- | --- |")
        for name, text in texts.items():
            runs = [r for r in selected if (r.run.dataset, r.run.variant, r.run.method) == (dataset, variant, name)]
            if not runs:
                continue
            cells = []
            for side in ("train", "val", "test"):
                values = [record.outcome.metrics[f"{side}_{kind}"] for record in runs]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                spread /= len(values) ** 0.5 if dataset in NODES else 1
                more = f" ± {spread:.{decimals}f}" if len(values) > 1 else ""
                cells.append(f"{statistics.fmean(values):.{decimals}f}{more}")
            print(f"| {text} (`{name}`) | {len(runs)} | {' | '.join(cells)} |")
        print()
    revisions = sorted({str(record.environment.get("revision", ""))[:10] for record in selected} - {""})
    print(f"{len(selected)} runs, one thread each, of revision {', '.join(revisions)}.")


if __name__ == "__main__":
    print("# How LMGC should start\n")
    print("Forms of the layer and of its start, trained alike by `mimogc reproduce benchmarks.starts:STUDY`;")
    print("printed by `benchmarks/starts_tables.py`. Decided on training and validation; test is for the record.")
    print("Mean ± standard deviation over seeds, or standard error over splits.\n")
    print_tables(stored(STUDY), TABLES, {name: form.text for name, form in FORMS.items()})
