"""A new method is one class: here edges weigh by how well the transformed features of their ends agree.

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
x, edge_index, y = torch.randn(100, 16), torch.randint(0, 100, (2, 600)), torch.randn(100, 8)
layer = LMGConv(16, 8, coefficients=Cosine(heads=4))
calibrate(layer, x, edge_index, only=Cosine)  # start at unit scale
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
for step in range(301):
    loss = torch.nn.functional.mse_loss(layer(x, edge_index), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3d}: loss {loss.item():.3f}")
