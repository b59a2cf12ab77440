"""LMGConv in place of GATv2Conv: node classification in plain PyG style, both layers in the same model.

The dataset is one of `mimogc data list`, by default Texas, a graph whose neighbours mostly have different classes. It
is taken from the cache, from the folder MIMOGC_MIRROR, or downloaded. Expect one line per layer with the mean test
accuracy over the splits, each taken at the first epoch of the best validation accuracy, and the loss that training
starts from. Both models start without their neighbours, whose share is learnt. This shows how to use the layer and is
no comparison; for one see docs/results/heterophilic.md.

python examples/node_classification.py
python examples/node_classification.py --dataset chameleon --splits 10 --epochs 200
"""

import argparse
import math
import sys

import torch
from torch.nn import functional as F
from torch_geometric.nn import GATv2Conv

from mimogc.data import DataError, load_nodes
from mimogc.nn import LMGConv, calibrate

LAYERS = {
    "LMGConv": lambda channels: LMGConv(channels, channels, heads=4),
    "GATv2Conv": lambda channels: GATv2Conv(channels, channels, heads=4, concat=False),
}


class Model(torch.nn.Module):
    """Two residual layers; the dataset's neighbours are unlike, so a node must not lose its own features."""

    def __init__(self, layer, in_channels, hidden, classes):
        super().__init__()
        self.encode = torch.nn.Linear(in_channels, hidden)
        self.convs = torch.nn.ModuleList([layer(hidden), layer(hidden)])
        self.gains = torch.nn.Parameter(torch.zeros(2))  # how much of each layer is added: learnt, from nothing
        self.decode = torch.nn.Linear(hidden, classes)

    def forward(self, x, edge_index):
        x = F.dropout(self.encode(x).relu(), 0.5, self.training)
        for conv, gain in zip(self.convs, self.gains, strict=True):
            x = F.dropout((x + gain * conv(x, edge_index)).relu(), 0.5, self.training)
        return self.decode(x)


def test_accuracy(model, data, split, epochs):
    """The accuracy on the test nodes at the first epoch of the best one on the validation nodes, and the first loss."""
    train, val, test = (mask[:, split] for mask in (data.train_mask, data.val_mask, data.test_mask))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, found, first_loss = -1.0, 0.0, None
    for _ in range(epochs):
        model.train()
        loss = F.cross_entropy(model(data.x, data.edge_index)[train], data.y[train])
        first_loss = loss.item() if first_loss is None else first_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(data.x, data.edge_index).argmax(-1) == data.y
        accuracy = right[val].float().mean().item()
        if accuracy > best:
            best, found = accuracy, right[test].float().mean().item()
    return found, first_loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="texas", help="a name, or npz:PATH (default: texas)")
    parser.add_argument("--splits", type=int, default=3, help="how many of the dataset's splits (default: 3)")
    parser.add_argument("--epochs", type=int, default=60, help="epochs of each training (default: 60)")
    parser.add_argument("--hidden", type=int, default=32, help="hidden channels (default: 32)")
    arguments = parser.parse_args()
    try:
        dataset = load_nodes(arguments.dataset)
    except (DataError, ValueError) as error:
        sys.exit(f"error: {error}")

    data = dataset.data()
    print(f"{dataset.name}: {data.num_nodes} nodes, {data.num_edges} edges, {dataset.num_classes} classes")
    for name, layer in LAYERS.items():
        found, losses = [], []
        for split in range(min(arguments.splits, dataset.num_splits)):
            torch.manual_seed(split)
            model = Model(layer, data.num_features, arguments.hidden, dataset.num_classes)
            if name == "LMGConv":
                calibrate(model, data.x, data.edge_index)  # its layers then start at unit scale on this graph
            accuracy, loss = test_accuracy(model, data, split, arguments.epochs)
            found.append(100 * accuracy)
            losses.append(loss)
        mean = sum(found) / len(found)
        print(
            f"{name:9s} test accuracy {mean:.1f} %  (splits: {', '.join(f'{value:.1f}' for value in found)}), "
            f"first loss {sum(losses) / len(losses):.2f} (by chance: {math.log(dataset.num_classes):.2f})"
        )


if __name__ == "__main__":
    main()
