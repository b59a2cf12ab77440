"""Prints how far one row of node classification is ahead of another on the same splits: mean ± standard error.

    python benchmarks/paired.py STORE lmgc:residual eq12:averaged           # method:variant of Table 3; no speed
    python benchmarks/paired.py STORE starts/gate-0:residual eq12:averaged   # a row of `benchmarks.starts`

Test accuracies and, behind them, those on validation. Of several repeats a split has their mean.
"""

import math
import statistics
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder that holds `benchmarks`

from benchmarks.starts import STUDY as STARTS

from mimogc.runs.selection import metric_of, place
from mimogc.runs.store import Store, StoreError
from mimogc.studies.heterophilic import STUDY

STUDIES = {study.name: study for study in (STUDY, STARTS)}
Scores = dict[tuple[str, str], dict[int, list[float]]]  # (dataset, test or val) → split → repeats


def scores_of(store: Store, row: str) -> Scores:
    """What the selected runs of a row have, as ``[study/]method:variant``."""
    name, _, rest = row.rpartition("/")
    method, _, variant = rest.partition(":")
    if (name or STUDY.name) not in STUDIES or not variant:
        sys.exit(f"error: {row}: expected [STUDY/]method:variant with STUDY one of {', '.join(STUDIES)}")
    study = STUDIES[name or STUDY.name]
    found: Scores = {}
    for record in study.select(store.records(study.name)):
        usual = not study.unusual(record.run.hparams)  # with --gain 0 a row is another one
        if usual and (record.run.method, record.run.variant) == (method, variant):
            test = metric_of(record)
            for side, metric in (("test", test), ("validation", test.replace("test_", "val_"))):
                splits = found.setdefault((record.run.dataset, side), {})
                splits.setdefault(record.run.split, []).append(record.outcome.metrics[metric])
    return found


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    path, *rows = sys.argv[1:]
    try:
        with Store(path) as store:
            one, other = (scores_of(store, row) for row in rows)
    except StoreError as error:
        sys.exit(f"error: {error}")
    shown = False
    for dataset, side in sorted(one, key=lambda key: place(STUDY.datasets, key[0])):
        ours, theirs = one[dataset, side], other.get((dataset, side), {})
        common = sorted(ours.keys() & theirs.keys())
        gaps = [statistics.fmean(ours[split]) - statistics.fmean(theirs[split]) for split in common]
        if len(gaps) > 1:
            error = statistics.stdev(gaps) / math.sqrt(len(gaps))
            print(f"{dataset:12s} {side:10s} {statistics.fmean(gaps):+6.2f} ± {error:.2f} over {len(gaps)} splits")
            shown = True
    if not shown:
        sys.exit(f"error: {path} has no splits that both rows have")


if __name__ == "__main__":
    main()
