"""GraphGym: importing this module registers the layer ``lmgconv`` and its options, the config group ``lmgc``.

.. code-block:: yaml

    gnn:
      layer_type: lmgconv
    lmgc:                    # all optional; these are the defaults
      heads: 4               # K, the number of computational graphs
      coefficients: lmgc     # or eq12, lmgc-sym, gcn, gat, gatv2, fagcn, acm, gated, sheaf, free
      combine: sum           # or mean
      negative_slope: 0.2
      add_self_loops: True
      edge_features: False   # True: scores get a term of batch.edge_attr, of size dataset.edge_dim

The layer is found wherever GraphGym's registry of layers is asked: PyG's network ``gnn`` (``model.type: gnn``), also
inside GraphGPS. Networks that list their layers themselves, such as GraphGPS's ``custom_gnn``, do not see it.
"""

from typing import Any

import torch

try:
    from yacs.config import CfgNode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'mimogc.graphgym: GraphGym needs yacs; install it with: pip install "mimogc[graphgym]"', name="yacs"
    ) from error

from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.register import register_config, register_layer

from mimogc.nn import LMGConv


def set_cfg_lmgc(cfg: Any) -> None:
    """Put the group ``lmgc`` with its defaults into a GraphGym config."""
    layer = {"heads": 4, "coefficients": "lmgc", "combine": "sum", "negative_slope": 0.2, "add_self_loops": True}
    cfg.lmgc = CfgNode({**layer, "edge_features": False})


class LMGConvGraphGym(torch.nn.Module):
    """`LMGConv` as a GraphGym layer: from a batch to the same batch with new ``x``.

    Args:
        layer_config: GraphGym's ``LayerConfig``; ``dim_in``, ``dim_out``, ``has_bias`` and ``edge_dim`` are used, all
            else is done by GraphGym around the layer.
        **kwargs: ignored, as by GraphGym's own layers.
    """

    def __init__(self, layer_config: Any, **kwargs: Any) -> None:
        super().__init__()
        options = dict(cfg.lmgc)
        if options["combine"] == "concat":
            raise ValueError("lmgc.combine: GraphGym expects dim_inner channels, so 'sum' or 'mean', got 'concat'")
        self.edge_features = options.pop("edge_features")
        options |= {"edge_dim": layer_config.edge_dim if self.edge_features else None, "bias": layer_config.has_bias}
        self.model = LMGConv(layer_config.dim_in, layer_config.dim_out, **options)

    def forward(self, batch: Any) -> Any:
        edge_attr = batch.edge_attr if self.edge_features else None
        batch.x = self.model(batch.x, batch.edge_index, edge_attr)
        return batch


register_layer("lmgconv", LMGConvGraphGym)
register_config("lmgc", set_cfg_lmgc)
# GraphGym filled its config when it was imported; programs that do not call set_cfg again need the group now.
set_cfg_lmgc(cfg)
