"""What a person waits for: the command line, the molecules, an analysis of a real graph, the page of `explore`.

python benchmarks/waiting.py     # needs the data sets: MIMOGC_MIRROR, MIMOGC_DATA or a download
"""

from mimogc.experiments.bench import waiting

if __name__ == "__main__":
    waiting.run(print)
