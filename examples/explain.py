"""Explaining a prediction: PyG's GNNExplainer on a graph where it is known which edges decide.

Every target node hears of its class along one planted path, signal → middle → target; all other edges come from nodes
with nothing but noise. LMGConv learns the classes on half of the targets; for some of the others the explainer is asked
which edges the prediction rests on. Expect the two planted edges to have most weight, for nearly all of them.

python examples/explain.py
"""

import argparse

import torch
from torch_geometric.explain import Explainer, GNNExplainer

from mimogc.nn import LMGConv

TARGETS, OTHERS, NOISE_EDGES = 200, 100, 1200


class Model(torch.nn.Module):
    def __init__(self, in_channels, hidden, classes):
        super().__init__()
        self.first = LMGConv(in_channels, hidden, heads=4)
        self.second = LMGConv(hidden, classes, heads=4)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def planted():
    """x, edge_index, the targets, their classes, and which two edges each one rests on ([TARGETS, 2])."""
    y = torch.randint(2, (TARGETS,))
    signal, middle, target = torch.arange(3 * TARGETS).view(3, TARGETS)
    paths = torch.cat([torch.stack([signal, middle]), torch.stack([middle, target])], dim=1)
    noise = torch.stack(
        [
            3 * TARGETS + torch.randint(OTHERS, (NOISE_EDGES,)),  # from nodes of noise
            TARGETS + torch.randint(2 * TARGETS, (NOISE_EDGES,)),  # to middles and targets
        ]
    )
    x = torch.randn(3 * TARGETS + OTHERS, 3)
    x[:, 0] = 0.0
    x[signal] = torch.stack([2.0 * y - 1.0, torch.zeros(TARGETS), torch.zeros(TARGETS)], dim=1)
    truth = torch.stack([torch.arange(TARGETS), torch.arange(TARGETS) + TARGETS], dim=1)
    return x, torch.cat([paths, noise], dim=1), target, y, truth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explain", type=int, default=8, help="how many targets to explain (default: 8)")
    parser.add_argument("--steps", type=int, default=60, help="of the explainer (default: 60)")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    x, edge_index, target, y, truth = planted()
    train, held_out = torch.arange(TARGETS).chunk(2)
    model = Model(x.size(1), 16, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=3e-3)
    for _ in range(150):
        loss = torch.nn.functional.cross_entropy(model(x, edge_index)[target[train]], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (model(x, edge_index)[target].argmax(-1) == y)[held_out].float().mean()
    print(f"the model classifies {100 * right:.0f} % of the held-out targets correctly")

    explainer = Explainer(
        model.eval(),
        # A price on every edge, found by trying; with the default, twenty times lower, the mask keeps edges that
        # hardly matter.
        algorithm=GNNExplainer(epochs=arguments.steps, lr=0.05, edge_size=0.1, edge_ent=0.1),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    found, asked = 0, held_out[: arguments.explain].tolist()
    for which in asked:
        mask = explainer(x, edge_index, index=int(target[which])).edge_mask  # [E]
        hit = len(set(mask.topk(2).indices.tolist()) & set(truth[which].tolist()))
        found += hit
        reached = int((mask > 0).sum())
        print(f"node {int(target[which])}: {hit} of 2 planted edges have most weight, of {reached} that reach it")
    print(f"planted edges found: {found} of {2 * len(asked)}")


if __name__ == "__main__":
    main()
