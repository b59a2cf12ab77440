"""Memory and traffic per rank: one training step of LMGC on a graph of a million edges in one, two and four parts.

The graph has communities of a hundred nodes, in which nine of ten edges stay. The peak is that of a step with the part
loaded, beyond what the process had before it was; the largest over the ranks (Linux).

python benchmarks/ranks.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn import functional as F

from mimogc.bench.large import CHANNELS, CLASSES, FEATURES, LAYERS, measured
from mimogc.distributed import cut, group, load_part, save_parts, sum_gradients
from mimogc.distributed.group import all_ranks, rank
from mimogc.models import NodeClassifier

NODES, EDGES, COMMUNITY = 100_000, 1_000_000, 100


def community_graph() -> torch.Tensor:
    """[2, EDGES], every edge in both directions, the nodes shuffled."""
    torch.manual_seed(0)
    src = torch.randint(0, NODES, (EDGES // 2,))
    near = src // COMMUNITY * COMMUNITY + torch.randint(0, COMMUNITY, src.shape)
    dst = torch.where(torch.rand(src.shape) < 0.9, near, torch.randint(0, NODES, src.shape))
    edges = torch.randperm(NODES)[torch.stack([src, dst])]
    return torch.cat([edges, edges.flip(0)], dim=1)


def step(folder: Path) -> None:
    """What one rank does: rank 0 prints the line."""
    torch.set_num_threads(1)
    with group():
        torch.manual_seed(0)
        model = NodeClassifier(FEATURES, CHANNELS, CLASSES, layers=LAYERS)
        warm = torch.randn(8, FEATURES)
        model.decoder(model.encoder(warm)).sum().backward()  # what libraries make once is not the part's

        def run() -> int:
            graph, own, _ = load_part(folder)
            F.cross_entropy(model(own["x"], graph), own["y"], reduction="sum").backward()
            sum_gradients(model.parameters())
            return graph.traffic.received

        received, found = measured(run)
        heard = all_ranks((found.peak_gb or 0.0, received))
        if rank() == 0:
            peak, most = max(p for p, _ in heard), max(r for _, r in heard)
            print(f"peak {1000 * peak:5.0f} MB, received {most / 1e6:6.1f} MB in a step", flush=True)


def main() -> None:
    edges = community_graph()
    nodes = {"x": torch.randn(NODES, FEATURES), "y": torch.randint(0, CLASSES, (NODES,))}
    print(f"{NODES:,} nodes, {EDGES:,} edges, {FEATURES} features, {LAYERS} layers of {CHANNELS} channels; per rank:")
    for ranks in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            chosen = save_parts(folder, edges, NODES, ranks, nodes)
            halo = int(cut(chosen.renumbered(edges), chosen.bounds).sum(1).max())
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
            command = [*command, __file__, folder] if ranks > 1 else [sys.executable, __file__, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        own = int(chosen.bounds.diff().max())
        print(f"  {ranks} ranks: {own:6d} own nodes, {halo:5d} of others, {done.stdout.strip()}")


if __name__ == "__main__":
    step(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
