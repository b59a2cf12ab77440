"""An epoch of ZINC12k training, from a few hundred steps of each pipeline.

python benchmarks/zinc.py        # needs the data set: MIMOGC_MIRROR, MIMOGC_DATA or a download
"""

from mimogc.experiments.bench import zinc

if __name__ == "__main__":
    zinc.run(print)
