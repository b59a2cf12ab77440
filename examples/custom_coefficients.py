"""A new method is one class: here edges weigh by how well the transformed features of their ends agree.

A layer of it learns from half of the nodes what another one, with other weights, computes. Look at the held-out nodes:
their loss falls with that of the others, from 2, that of two unrelated layers, to nearly nothing.
python examples/custom_coefficients.py"""

import argparse

import torch

from mimogc.nn import Coefficients, LMGConv, calibrate


class Cosine(Coefficients):
    def forward(self, x, h, graph):
        source, target = (torch.nn.functional.normalize(side, dim=-1) for side in h)  # [N, K, C]
        return (source[graph.src] * target[graph.dst]).sum(-1)  # [E, K]


argparse.ArgumentParser(description=__doc__).parse_args()
torch.manual_seed(0)
x, edge_index, held_out = torch.randn(1000, 8), torch.randint(0, 1000, (2, 6000)), torch.arange(1000) >= 500
teacher, layer = (LMGConv(8, 8, coefficients=Cosine(heads=4)) for _ in range(2))
for one in (teacher, layer):
    calibrate(one, x, edge_index, only=Cosine)  # outputs of unit scale
y = teacher(x, edge_index).detach()
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
for step in range(301):
    error = (layer(x, edge_index) - y).square().mean(1)
    loss = error[~held_out].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3d}: loss {loss.item():.3f} (of held-out nodes {error[held_out].mean().item():.3f})")
