"""Where one way of computing gives way to another, each beside a measurement that speaks for it.

They were chosen by trials that were not kept, those of `ALIKE` beside it among them. The other numbers are what
`benchmarks/thresholds.py` printed on a quiet machine with AVX-512, where `LARGEST_WEIGHT` and `MANY_EDGES` do not
matter much. `mimogc bench` measures the paths as a whole. One thread, float32, K = 4, random graphs unless said
otherwise; a ratio above 1 speaks for the special way.
"""

# Gathering rows of x and multiplying by W afterwards (the narrow order) reads K·C/F times fewer bytes per edge than
# gathering rows of h, and stores no h. Forward and backward, 32 channels, 8 edges per node, wide / narrow by the size
# of h: 2 MB 0.95, 4 MB 1.11, 8 MB 1.40, 16 MB 1.58, 32 MB 1.82, 64 MB 2.36. Wider features gain less: with 64 channels
# and h of 64 MB, 32 features 1.64, 64 features 1.36, 128 features 0.89, 230 features 0.70, for which h is saved.
CACHE_BYTES = 32 * 2**20
# The same by the edges per node, 32 channels, h of 64 MB: 2 edges 1.42, 3 edges 1.58, 4 edges 1.73, 6 edges 1.93,
# 12 edges 2.31.
NARROW_EDGES = 4

# The kernel of a layer multiplies by W itself where W has at least so many rows and columns (a tile of its product
# needs 32; in the narrow order each W^(k)) and at most so many bytes. Forward and backward, 740 nodes, 3 edges per
# node, torch's product / its own:
# 16 KB 1.02, 36 KB 1.01, 64 KB 0.93, 144 KB 1.10, 256 KB 0.91, 400 KB 0.97, 576 KB 0.95, 1 MB 0.90.
SMALLEST_SIDE = 32
LARGEST_WEIGHT = 2**18

# Up to so many edges per row the gradient to h is not kept: its rows are made where they are used, for which rows of g
# are gathered twice. Forward and backward, 2000 nodes, 58 channels, kept / made by the edges per node:
# 3 edges 1.04, 6 edges 1.02, 12 edges 0.92, 16 edges 0.99, 24 edges 0.98.
MANY_EDGES = 12

# Classes of like nodes are refined once more if there are at most so many per node. A step of ZINC12k: 13.4 ms without
# classes (0), 10.4 (1/2), 10.8 (2/3), 10.6 (0.85), 10.8 (1).
ALIKE = 2 / 3

# Plain torch takes the edges in parts of so many numbers E · K · C: 64 MB in float32 for each of its few arrays.
PLAIN_NUMBERS = 2**24

# A GPU's program takes at most so many edges of a row; longer rows go to several. Chosen without a GPU to measure on:
# 256 edges of four graphs are 64 to 128 steps of a program, and the partial sums are at most E/128 rows.
SPLIT_EDGES = 256
