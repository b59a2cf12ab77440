"""`import mimogc.graphgym` makes LMGConv a layer of PyG's GraphGym, configured by the group `lmgc`."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

from graphs import random_edges
from mimogc.nn import LMGConv

pytest.importorskip("yacs")
pytestmark = pytest.mark.filterwarnings("ignore:To use GraphGym:UserWarning")


@pytest.fixture
def cfg() -> Iterator[Any]:
    """GraphGym's global config with its defaults, before and after."""
    from torch_geometric.graphgym.config import cfg, set_cfg

    import mimogc.graphgym  # noqa: F401

    set_cfg(cfg)
    cfg.accelerator = "cpu"
    cfg.gnn.layer_type = "lmgconv"
    yield cfg
    set_cfg(cfg)


def batch(edge_dim: int | None = None) -> Batch:
    torch.manual_seed(0)
    graphs = []
    for nodes in (4, 7, 5):
        edge_index = random_edges(nodes, 3 * nodes, nodes)
        data = Data(x=torch.randn(nodes, 6), edge_index=edge_index, y=torch.randint(3, (nodes,)))
        if edge_dim:
            data.edge_attr = torch.randn(edge_index.size(1), edge_dim)
        graphs.append(data)
    return Batch.from_data_list(graphs)


def layer(cfg: Any) -> Any:
    from torch_geometric.graphgym.models.layer import GeneralLayer, new_layer_config

    config = new_layer_config(6, 8, 1, has_act=False, has_bias=True, cfg=cfg)
    return GeneralLayer("lmgconv", config)


def test_it_computes_what_lmgconv_computes(cfg: Any) -> None:
    cfg.gnn.batchnorm = cfg.gnn.l2norm = False
    made = layer(cfg)
    own = LMGConv(6, 8, heads=4)
    own.load_state_dict(made.layer.model.state_dict())
    given = batch()
    expected = own(given.x, given.edge_index)
    assert torch.equal(made(given).x, expected)


def test_options_reach_the_layer(cfg: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "gnn: {layer_type: lmgconv}\n"
        "lmgc: {heads: 3, coefficients: gatv2, combine: mean, negative_slope: 0.1, add_self_loops: False}\n"
    )
    cfg.merge_from_file(str(file))
    model = layer(cfg).layer.model
    assert repr(model) == "LMGConv(6, 8, heads=3, coefficients=GATv2)"
    assert (model.combine, model.add_self_loops, model.coefficients.negative_slope) == ("mean", False, 0.1)


def test_batch_norm_makes_the_bias_superfluous(cfg: Any) -> None:
    cfg.gnn.batchnorm = True
    assert layer(cfg).layer.model.bias is None
    cfg.gnn.batchnorm = False
    assert layer(cfg).layer.model.bias is not None


def test_edge_features(cfg: Any) -> None:
    cfg.merge_from_list(["lmgc.edge_features", True, "dataset.edge_dim", 5, "gnn.batchnorm", False])
    made, given = layer(cfg), batch(edge_dim=5)
    other = given.clone()
    other.edge_attr = -other.edge_attr
    assert not torch.allclose(made(given).x, made(other).x)


def test_edge_features_are_left_alone_unless_asked_for(cfg: Any) -> None:
    made, given = layer(cfg), batch(edge_dim=5)
    assert made(given).x.shape == (16, 8)


def test_the_network_of_graphgym_trains(cfg: Any) -> None:
    from torch_geometric.graphgym.loss import compute_loss
    from torch_geometric.graphgym.model_builder import create_model

    cfg.merge_from_list(["gnn.stage_type", "skipsum", "gnn.head", "node", "gnn.layers_pre_mp", 1])
    model = create_model(dim_in=6, dim_out=3)
    assert sum(isinstance(module, LMGConv) for module in model.modules()) == cfg.gnn.layers_mp
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(40):
        loss, _ = compute_loss(*model(batch()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_concatenation_is_refused(cfg: Any) -> None:
    cfg.lmgc.combine = "concat"
    with pytest.raises(ValueError, match=r"lmgc\.combine: .*'sum' or 'mean', got 'concat'"):
        layer(cfg)


def test_without_yacs_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mimogc.graphgym", raising=False)
    monkeypatch.setitem(sys.modules, "yacs.config", None)
    with pytest.raises(ModuleNotFoundError, match=r'GraphGym needs yacs.*pip install "mimogc\[graphgym\]"'):
        importlib.import_module("mimogc.graphgym")
