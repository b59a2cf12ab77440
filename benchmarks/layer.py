"""Time and memory of one layer.

python benchmarks/layer.py [zinc32 squirrel64 large]
"""

import sys

from mimogc.experiments.bench import layer
from mimogc.experiments.bench.workloads import WORKLOADS

if __name__ == "__main__":
    layer.run(print, sys.argv[1:] or tuple(WORKLOADS))
