"""Prints what the study `starts` found as Markdown: how LMGC should start.

    mimogc reproduce starts            # several hours of one core; the same command goes on where it was
    python benchmarks/starts.py        # the tables, from results/runs.db
    python benchmarks/starts.py STORE [STORE ...]

Decided on training and validation; the test column is for the record.
"""

import statistics
import sys

from mimogc.experiments.starts import FORMS, NODES, STUDY
from mimogc.experiments.store import Store, StoreError

TABLES = {
    ("zinc12k", "plain"): (
        "ZINC12k, six layers, no residual connections, 60 epochs, mean absolute error",
        "mae",
        3,
    ),
    ("zinc12k", "residual"): ("ZINC12k, ten residual layers, 15 epochs, mean absolute error", "mae", 3),
    ("texas", "residual"): ("Texas, ten splits, accuracy in percent", "accuracy", 1),
    ("chameleon", "residual"): ("Chameleon, ten splits, accuracy in percent", "accuracy", 1),
}


def main() -> None:
    records = []
    try:
        for path in sys.argv[1:] or ["results/runs.db"]:
            with Store(path) as store:
                records += store.records(STUDY.name)
    except StoreError as error:
        sys.exit(f"error: {error}")
    selected = STUDY.select(list({record.run.id: record for record in records}.values()))
    print("# How LMGC should start\n")
    print("Forms of the layer and of its start, trained alike by `mimogc reproduce starts`; printed by")
    print("`benchmarks/starts.py`. Decided on training and validation; the test column is for the record.")
    print("Mean ± standard deviation over seeds, or standard error over splits.\n")
    for (dataset, variant), (title, kind, decimals) in TABLES.items():
        better = "lower" if kind == "mae" else "higher"
        print(f"## {title}\n\n{better.capitalize()} is better.\n")
        print("| form | runs | train | validation | test |\n| --- | --- | --- | --- | --- |")
        for name, form in FORMS.items():
            runs = [
                r
                for r in selected
                if (r.run.dataset, r.run.variant, r.run.method) == (dataset, variant, name)
            ]
            if not runs:
                continue
            cells = []
            for side in ("train", "val", "test"):
                values = [record.outcome.metrics[f"{side}_{kind}"] for record in runs]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                spread /= len(values) ** 0.5 if dataset in NODES else 1
                more = f" ± {spread:.{decimals}f}" if len(values) > 1 else ""
                cells.append(f"{statistics.fmean(values):.{decimals}f}{more}")
            print(f"| {form.text} (`{name}`) | {len(runs)} | {' | '.join(cells)} |")
        print()
    revisions = sorted({str(record.environment.get("revision", ""))[:10] for record in selected} - {""})
    print(f"{len(selected)} runs, one thread each, of revision {', '.join(revisions)}.")


if __name__ == "__main__":
    main()
