"""The random graph of the synthetic experiments."""

import numpy as np
import torch
from scipy.sparse.csgraph import connected_components

from mimogc.graph import Graph


def connected_graph(nodes: int, probability: float, random: np.random.Generator) -> Graph:
    """An undirected Erdős–Rényi graph, drawn again until it is connected."""
    while True:
        upper = np.triu(random.random((nodes, nodes)) < probability, 1)
        adjacency = upper | upper.T
        if connected_components(adjacency, directed=False)[0] == 1:
            return Graph.from_edge_index(torch.from_numpy(np.array(adjacency.nonzero())), nodes)
