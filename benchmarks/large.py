"""A large graph on this machine, of ogbn-products' size: python benchmarks/large.py [NODES EDGES HUB]."""

import sys

from mimogc.bench.large import run

if __name__ == "__main__":
    run(lambda line: print(line, flush=True), *map(int, sys.argv[1:4]))
