"""Graph regression with bond features: LMGConv on ZINC12k, or on generated molecules, in plain PyG style.

A bond type adds its own term to the scores of an edge (`edge_dim`). By default the first 1000 molecules of ZINC12k are
learned, taken from the cache, from the folder MIMOGC_MIRROR, or downloaded; `--synthetic` generates rings with one more
atom at each instead, whose target is a sum over their bonds. Expect the validation error to fall well below that of
always answering the mean of the training targets.

python examples/graph_regression.py
python examples/graph_regression.py --synthetic
"""

import argparse
import sys

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool

from mimogc.data import DataError, load_molecules
from mimogc.nn import LMGConv, calibrate

ATOMS, BONDS = 28, 4


class Model(torch.nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.atom = torch.nn.Embedding(ATOMS, hidden)
        self.convs = torch.nn.ModuleList(LMGConv(hidden, hidden, heads=4, edge_dim=BONDS) for _ in range(layers))
        self.readout = torch.nn.Sequential(torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))

    def forward(self, batch):
        x, bonds = self.atom(batch.x.view(-1)), F.one_hot(batch.edge_attr, BONDS).float()
        for conv in self.convs:
            x = x + conv(x, batch.edge_index, bonds).relu()
        return self.readout(global_add_pool(x, batch.batch) / 10).view(-1)


def generated(count):
    """Rings of atoms with one more at each; every double bond counts 1, every bond of unlike atoms -0.5."""
    torch.manual_seed(0)
    for _ in range(count):
        size = int(torch.randint(5, 9, ()))
        atoms = torch.randint(0, 4, (2 * size, 1))
        ring = torch.arange(size)
        edges = torch.cat([torch.stack([ring, (ring + 1) % size]), torch.stack([ring, ring + size])], dim=1)
        bonds = torch.randint(1, 3, (2 * size,))
        unlike = atoms[edges[0], 0] != atoms[edges[1], 0]
        y = (bonds == 2).float().sum() - 0.5 * unlike.float().sum()
        yield Data(x=atoms, edge_index=torch.cat([edges, edges.flip(0)], dim=1), edge_attr=bonds.repeat(2), y=y.view(1))


def error(model, loader):
    """The mean absolute error."""
    with torch.no_grad():
        return torch.cat([(model(batch) - batch.y).abs() for batch in loader]).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthetic", action="store_true", help="generated molecules instead of ZINC12k")
    parser.add_argument("--molecules", type=int, default=1000, help="to train on (default: 1000)")
    parser.add_argument("--epochs", type=int, default=10, help="(default: 10)")
    parser.add_argument("--hidden", type=int, default=48, help="channels (default: 48)")
    parser.add_argument("--layers", type=int, default=4, help="message-passing layers (default: 4)")
    arguments = parser.parse_args()
    if arguments.synthetic:
        molecules = list(generated(arguments.molecules + 200))
        train, val = molecules[:-200], molecules[-200:]
    else:
        try:
            zinc = load_molecules("zinc12k")
        except DataError as problem:
            sys.exit(f"error: {problem}\nOr give --synthetic for generated molecules.")
        train = [zinc.data(int(molecule)) for molecule in zinc.split("train")[: arguments.molecules]]
        val = zinc.data_list("val")

    torch.manual_seed(0)
    model = Model(arguments.hidden, arguments.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    train_loader, val_loader = DataLoader(train, 32, shuffle=True), DataLoader(val, 200)
    calibrate(model, next(iter(DataLoader(train, 128))))  # the layers then start at unit scale on molecules
    mean = torch.cat([molecule.y for molecule in train]).mean()
    constant = torch.cat([(molecule.y - mean).abs() for molecule in val]).mean()
    print(f"{len(train)} molecules; always answering their mean: validation error {constant:.3f}")
    for epoch in range(1, arguments.epochs + 1):
        for batch in train_loader:
            loss = F.l1_loss(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch:2d}: validation error {error(model, val_loader):.3f}")


if __name__ == "__main__":
    main()
