"""Prints how far one row of Table 3 is ahead of another on the same splits: mean ± standard error of the differences.

python benchmarks/paired.py STORE lmgc:residual eq12:averaged     # method:variant of each; no speed
"""

import math
import statistics
import sys

from mimogc.runs.selection import metric_of
from mimogc.runs.store import Store
from mimogc.studies.heterophilic import STUDY


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    path, *rows = sys.argv[1:]
    with Store(path) as store:
        selected = STUDY.select(store.records(STUDY.name))
    scores: dict[tuple[str, str], dict[int, list[float]]] = {}
    for record in selected:
        row, split = f"{record.run.method}:{record.run.variant}", record.run.split
        found = scores.setdefault((record.run.dataset, row), {}).setdefault(split, [])
        found.append(record.outcome.metrics[metric_of(record)])
    for dataset in STUDY.datasets:
        one, other = (scores.get((dataset, row), {}) for row in rows)
        gaps = [statistics.fmean(one[split]) - statistics.fmean(other[split]) for split in one.keys() & other.keys()]
        if len(gaps) > 1:
            error = statistics.stdev(gaps) / math.sqrt(len(gaps))
            print(f"{dataset:12s} {statistics.fmean(gaps):+6.2f} ± {error:.2f} over {len(gaps)} splits")


if __name__ == "__main__":
    main()
