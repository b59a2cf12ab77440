"""LMGConv on a heterogeneous graph: PyG's `to_hetero` gives every type of edge its own layer.

The generated graph has authors and papers; a paper's class is the field of most of its authors, which only the authors'
features tell, and papers cite papers of any class. Look at the first loss, which is near that of a guess (ln 3 = 1.10),
and at the test accuracy: a model without the edges can but guess, at 0.33.

python examples/heterogeneous.py
"""

import argparse

import torch
from torch.nn import functional as F
from torch_geometric.data import HeteroData
from torch_geometric.nn import to_hetero

from mimogc.nn import LMGConv

FIELDS, AUTHORS_PER_PAPER = 3, 3


class Model(torch.nn.Module):
    def __init__(self, hidden, classes):
        super().__init__()
        # Sizes of sources and targets differ by type and are found out; there are no loops between two types.
        self.first = LMGConv((-1, -1), hidden, heads=4, add_self_loops=False)
        self.second = LMGConv((-1, -1), classes, heads=4, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def generated(papers, authors):
    """Papers with three authors each; a paper has the field that most of its authors have."""
    data = HeteroData()
    field = torch.randint(FIELDS, (authors,))
    data["author"].x = F.one_hot(field, FIELDS) + 0.3 * torch.randn(authors, FIELDS)
    data["paper"].x = torch.randn(papers, 4)
    writers = torch.randint(authors, (papers, AUTHORS_PER_PAPER))
    writes = torch.stack([writers.view(-1), torch.arange(papers).repeat_interleave(AUTHORS_PER_PAPER)])
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "written_by", "author"].edge_index = writes.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(papers, (2, 4 * papers))
    data["paper"].y = F.one_hot(field[writers], FIELDS).sum(1).argmax(1)
    data["paper"].train_mask = torch.rand(papers) < 0.5
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=int, default=2000, help="papers in the graph (default: 2000)")
    parser.add_argument("--epochs", type=int, default=100, help="(default: 100)")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    data = generated(arguments.papers, arguments.papers // 2)
    print(data.metadata()[1])
    model = to_hetero(Model(16, FIELDS), data.metadata())
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict)  # finds out the sizes
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    train, y = data["paper"].train_mask, data["paper"].y
    for epoch in range(1, arguments.epochs + 1):
        out = model(data.x_dict, data.edge_index_dict)["paper"]
        loss = F.cross_entropy(out[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch == 1 or epoch % 20 == 0:
            print(f"epoch {epoch:3d}: loss {loss.item():.3f}")
    with torch.no_grad():
        right = model(data.x_dict, data.edge_index_dict)["paper"].argmax(-1) == y
    print(f"test accuracy {right[~train].float().mean():.3f} (by chance: {1 / FIELDS:.3f})")


if __name__ == "__main__":
    main()
