"""An epoch of node classification on Squirrel and Texas: LMGC, the naive layer and PyG's GATv2Conv.

python benchmarks/nodes.py       # needs the data sets: MIMOGC_MIRROR, MIMOGC_DATA or a download
"""

from mimogc.experiments.bench import nodes

if __name__ == "__main__":
    nodes.run(print)
