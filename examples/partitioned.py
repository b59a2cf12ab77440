"""One graph over several processes: full-batch training with the graph in parts, which goes on after a crash.

The graph, made here, has eight communities, and its nodes are to be told theirs from noisy features, of which they
have too few without their neighbours. Rank 0 cuts it into as many parts as there are ranks and writes them to a folder;
then every rank reads its own part and no rank has all. Every fifth epoch is a checkpoint: when a rank dies, torchrun
starts all of them again, and they go on from there. Look at two things: nodes that were not trained on are told far
better than by chance, and the bytes that the ranks have exchanged are exactly those that the cut predicts.

python examples/partitioned.py
torchrun --standalone --nproc-per-node 4 --max-restarts 3 examples/partitioned.py --folder parts --epochs 100
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from torch import distributed
from torch.nn import functional as F

from mimogc.distributed import (
    LostRankError,
    PartError,
    cut,
    group,
    load_part,
    on_rank_0,
    same_parameters,
    save_parts,
    sum_gradients,
)
from mimogc.models import NodeClassifier
from mimogc.runs.checkpoint import capture, load_checkpoint, restore, save_checkpoint

FEATURES, CHANNELS, CLASSES = 12, 16, 8


def community_graph(nodes, degree=8):
    """Edges, features and labels: nine of ten edges stay in their community."""
    torch.manual_seed(0)
    label = torch.randint(0, CLASSES, (nodes,))
    members = [(label == c).nonzero().flatten() for c in range(CLASSES)]
    src = torch.arange(nodes).repeat(degree)
    near = torch.stack([m[torch.randint(0, len(m), (nodes,))] for m in members])  # [CLASSES, nodes]
    dst = torch.where(torch.rand(len(src)) < 0.9, near[label[src], src.roll(7)], torch.randint(0, nodes, (len(src),)))
    x = F.one_hot(label, FEATURES).float() + torch.randn(nodes, FEATURES)
    return torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]), x, label


def write_parts(folder, ranks):
    if (folder / "parts.json").exists():
        return
    edges, x, y = community_graph(4000)
    trained_on = torch.rand(len(y)) < 0.5
    chosen = save_parts(folder, edges, len(y), ranks, nodes={"x": x, "y": y, "trained_on": trained_on})
    rows = int(cut(chosen.renumbered(edges), chosen.bounds).sum())
    parts = "one part" if ranks == 1 else f"{ranks} parts, which need {rows} rows of each other"
    print(f"{len(y)} nodes, {edges.size(1)} edges in {parts}", flush=True)


def train(folder, epochs):
    rank, ranks = (distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else (0, 1)
    on_rank_0(lambda: write_parts(folder, ranks))  # the others wait
    graph, nodes, _ = load_part(folder)
    torch.manual_seed(0)
    model = NodeClassifier(FEATURES, CHANNELS, CLASSES)
    same_parameters(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    state = load_checkpoint(folder / "checkpoint.pt")
    done = restore(state, model=model, optimiser=optimiser) if state else 0
    if done and rank == 0:
        print(f"going on after epoch {done}", flush=True)
    y, trained_on = nodes["y"], nodes["trained_on"]
    held_out, count = ~trained_on, float(graph.total(trained_on.sum()))
    for epoch in range(done + 1, epochs + 1):
        logits = model(nodes["x"], graph)
        loss = F.cross_entropy(logits[trained_on], y[trained_on], reduction="sum") / count
        optimiser.zero_grad()
        loss.backward()
        sum_gradients(model.parameters())  # each rank has those of its own nodes
        optimiser.step()
        total = float(graph.total(loss))
        if rank == 0 and epoch % 5 == 0:
            save_checkpoint(folder / "checkpoint.pt", capture(epoch, model=model, optimiser=optimiser))
        if rank == 0 and (epoch == 1 or epoch % 5 == 0):
            print(f"epoch {epoch}: loss {total:.4f}", flush=True)
    with torch.no_grad():
        right = graph.total((model(nodes["x"], graph).argmax(1) == y)[held_out].sum())
    # Two layers, each forward and backward, and one more pass to count: x is what is fetched, and gradients go back.
    sent, received = graph.predicted_bytes(CHANNELS, torch.float32)
    steps = epochs - done
    predicted = graph.total(torch.tensor(2 * steps * (sent + received) + 2 * sent))
    exchanged = graph.total(torch.tensor(graph.traffic.sent))
    if rank == 0:
        accuracy = 100 * int(right) / (graph.total_nodes - count)
        print(f"accuracy {accuracy:.1f} % of the nodes not trained on (by chance: {100 / CLASSES:.1f} %)")
        print(f"bytes exchanged {int(exchanged)}, predicted {int(predicted)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="for the parts and the checkpoint; by default a temporary one")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    if arguments.folder is None and distributed.is_torchelastic_launched():
        parser.error("--folder: expected one that all ranks share, got none")
    try:
        with group(), tempfile.TemporaryDirectory() as temporary:
            train(arguments.folder or Path(temporary), arguments.epochs)
    except LostRankError as error:
        raise SystemExit(f"partitioned.py: {error}") from None
    except PartError as error:
        print(f"partitioned.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
