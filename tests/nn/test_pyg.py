"""LMGConv among PyG's tools: explainers, heterogeneous graphs, loaders, models, saving."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import to_hetero

from graphs import random_edges
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import BY_NAME


class Model(torch.nn.Module):
    def __init__(self, in_channels=5, **options):
        super().__init__()
        self.first = LMGConv(in_channels, 8, **options)
        self.second = LMGConv(8 if isinstance(in_channels, int) else (-1, -1), 3, **options)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def _explainer(algorithm, model):
    return Explainer(
        model,
        algorithm=algorithm,
        explanation_type="model",
        edge_mask_type="object",
        node_mask_type=None if isinstance(algorithm, AttentionExplainer) else "attributes",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )


@pytest.fixture
def case():
    torch.manual_seed(0)
    edge_index = random_edges(12, 40)
    return torch.randn(12, 5), edge_index[:, edge_index[0] != edge_index[1]]


@pytest.mark.parametrize("name", ["lmgc", "gat", "gatv2", "acm"])
def test_attention_explainer_finds_alpha(case, name):
    x, edge_index = case
    model = Model(coefficients=name)
    explanation = _explainer(AttentionExplainer(), model)(x, edge_index)
    weights = []
    h = x
    for layer in (model.first, model.second):
        h, (_, alpha) = layer(h, edge_index, return_attention_weights=True)
        weights.append(alpha[: edge_index.size(1)].max(dim=-1).values)
        h = h.relu()
    torch.testing.assert_close(explanation.edge_mask, torch.stack(weights).max(dim=0).values, rtol=1e-4, atol=1e-5)


def test_attention_explainer_without_self_loops(case):
    x, edge_index = case
    explanation = _explainer(AttentionExplainer(), Model(add_self_loops=False))(x, edge_index)
    assert explanation.edge_mask.shape == (edge_index.size(1),)


def test_gnn_explainer_masks_messages(case):
    x, edge_index = case
    model = Model()
    before = model(x, edge_index)
    explanation = _explainer(GNNExplainer(epochs=20), model)(x, edge_index, index=3)
    assert explanation.edge_mask.shape == (edge_index.size(1),)
    assert float(explanation.edge_mask.max()) > 0
    torch.testing.assert_close(model(x, edge_index), before)  # and the model is fast again


@pytest.mark.parametrize("name", BY_NAME)
def test_the_path_for_explainers_gives_the_same_output(case, name):
    x, edge_index = case
    layer = LMGConv(5, 6, coefficients=name)
    expected = layer(x, edge_index)
    seen = []
    handle = layer.register_message_forward_hook(lambda module, inputs, out: seen.append(out.shape))
    torch.testing.assert_close(layer(x, edge_index), expected, rtol=1e-4, atol=1e-5)
    assert seen
    handle.remove()
    layer(x, edge_index)
    assert len(seen) == 1


def test_to_hetero():
    torch.manual_seed(0)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(10, 4), torch.randn(6, 7)
    data["author", "writes", "paper"].edge_index = torch.stack([random_edges(6, 20)[0], random_edges(10, 20)[1]])
    data["paper", "written", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)
    data["paper", "cites", "paper"].edge_index = random_edges(10, 15)
    model = to_hetero(Model((-1, -1), add_self_loops=False), data.metadata())
    out = model(data.x_dict, data.edge_index_dict)
    assert out["paper"].shape == (10, 3)
    assert out["author"].shape == (6, 3)
    sum(value.sum() for value in out.values()).backward()


def test_batches_of_graphs_are_graphs_apart():
    torch.manual_seed(0)
    graphs = [Data(x=torch.randn(n, 5), edge_index=random_edges(n, 3 * n, n)) for n in (3, 7, 5)]
    model = Model()
    batch = next(iter(DataLoader(graphs, batch_size=3)))
    expected = torch.cat([model(graph.x, graph.edge_index) for graph in graphs])
    torch.testing.assert_close(model(batch.x, batch.edge_index), expected, rtol=1e-4, atol=1e-5)


def test_saving_the_whole_model(case, tmp_path):
    x, edge_index = case
    model = Model()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = Model()
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(model(x, edge_index), other(x, edge_index))
