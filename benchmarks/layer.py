"""Time and memory of one layer.

python benchmarks/layer.py [zinc32 squirrel64 large]
"""

import sys

from mimogc.bench import layer
from mimogc.bench.workloads import WORKLOADS

if __name__ == "__main__":
    layer.run(print, sys.argv[1:] or tuple(WORKLOADS))
