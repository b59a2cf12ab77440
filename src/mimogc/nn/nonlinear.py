"""Layers that are not linear in the paper's sense and therefore no LMGC: GIN, the gated ACM, and that of an MLP."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.inits import glorot

from mimogc.graph import Graph
from mimogc.nn._inputs import check_features, plain_graph
from mimogc.nn._layout import Operator
from mimogc.nn._parameters import check_size
from mimogc.nn.coefficients import ACM
from mimogc.nn.conv import LMGConv
from mimogc.ops import propagate


class GINLayer(torch.nn.Module):
    r"""The graph isomorphism layer of Xu et al. with the two-layer MLP of the paper's experiments.

    .. math::
        \mathbf{x}^{\prime}_i = \mathrm{MLP}\Bigl((1 + \epsilon)\,\mathbf{x}_i + \sum_{j \in N_i} \mathbf{x}_j\Bigr)

    Args:
        in_channels: size of each input.
        out_channels: size of each output, and of the hidden layer.
        eps: the initial weight of the own features.
        train_eps: whether it is learnt.
    """

    def __init__(self, in_channels: int, out_channels: int, eps: float = 0.0, train_eps: bool = False) -> None:
        super().__init__()
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.initial_eps = eps
        self.hidden = torch.nn.Linear(in_channels, out_channels)
        self.last = torch.nn.Linear(out_channels, out_channels)
        self.eps: Tensor
        if train_eps:
            self.eps = Parameter(torch.tensor(eps))
        else:
            self.register_buffer("eps", torch.tensor(eps))

    def reset_parameters(self) -> None:
        self.hidden.reset_parameters()
        self.last.reset_parameters()
        torch.nn.init.constant_(self.eps, self.initial_eps)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        check_features(x, self.in_channels, like=getattr(self.last, "weight", None))
        graph = plain_graph(edge_index, x.size(0))
        around = propagate(graph.ones(x.dtype), graph.gathered(x).unsqueeze(1), graph)
        hidden = F.relu(self.hidden((1 + self.eps) * x + around))
        out: Tensor = self.last(hidden)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"


class ACMConv(torch.nn.Module):
    r"""ACM-GCN (Luan et al.): the filter bank A_sym, L_sym, I with a gate that every node sets for itself.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_k \beta_{ik} \mathbf{h}_{ik}, \qquad
        \mathbf{h}_{\cdot k} = \mathrm{ReLU}(\tilde{\mathbf{A}}^{(k)} \mathbf{X} \mathbf{W}^{(k)}), \qquad
        \beta_i = \mathrm{softmax}\bigl(\tfrac{1}{K} [\sigma(\mathbf{h}_{ik}^{\top} \mathbf{g}_k)]_k \mathbf{M}\bigr)

    The gate depends on the features after aggregation, so no set of edge weights expresses it.

    Args:
        in_channels: size of each input.
        out_channels: size of each output.
        identity: whether I is the third filter.
        add_self_loops: replace self-loops by exactly one per node before A_sym is formed.
    """

    def __init__(self, in_channels: int, out_channels: int, identity: bool = True, add_self_loops: bool = True) -> None:
        super().__init__()
        bank = ACM(identity=identity)
        self.out_channels = out_channels
        self.bank = LMGConv(
            in_channels, out_channels, coefficients=bank, combine="concat", add_self_loops=add_self_loops, bias=False
        )
        self.gate = Parameter(torch.empty(bank.heads, out_channels))
        self.mix = Parameter(torch.empty(bank.heads, bank.heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.bank.reset_parameters()
        glorot(self.gate)
        glorot(self.mix)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        parts = F.relu(self.bank(x, edge_index)).view(-1, *self.gate.shape)  # [N, K, C]
        score = torch.sigmoid((parts * self.gate).sum(-1)) @ self.mix / self.gate.size(0)
        return (torch.softmax(score, dim=-1).unsqueeze(-1) * parts).sum(1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bank.in_channels}, {self.out_channels}, K={self.gate.size(0)})"


class NoMessages(torch.nn.Module):
    """The layer of an MLP: a linear map that looks at no neighbour."""

    def __init__(self, channels: int, bias: bool = True) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, channels, bias)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        out: Tensor = self.lin(x)
        return out

    def operator(self, x: Tensor, graph: Graph) -> Operator:
        """The layer as a linear map, without its bias: on the graph of self-loops alone."""
        node = torch.arange(x.size(0), device=x.device)
        loops = Graph.from_edge_index(torch.stack([node, node]), x.size(0))
        return Operator(x.new_ones(x.size(0), 1), self.lin.weight.t().unsqueeze(0), loops)
