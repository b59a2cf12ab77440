"""LMGConv inside PyG's GraphGym: `import mimogc.graphgym` makes `layer_type: lmgconv` work in a config file.

Edges lead from nodes of class c to nodes of class c + 1, and features are the class under much noise, so a node's
class is read off its neighbours. GraphGym builds and trains the network of graphgym_lmgconv.yaml; options of the config
can be given on the command line. Expect a test accuracy far above that of guessing, 0.25.

pip install "mimogc[graphgym]"
python examples/graphgym_lmgconv.py
python examples/graphgym_lmgconv.py lmgc.heads 8 optim.max_epoch 60
"""

import argparse
import json
import logging
import tempfile
import warnings
from pathlib import Path

import torch
from torch_geometric import seed_everything
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.graphgym.config import cfg, load_cfg
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.register import register_loader
from torch_geometric.graphgym.train import GraphGymDataModule, train

import mimogc.graphgym  # noqa: F401  (registers lmgconv)

CLASSES, NODES, EDGES = 4, 400, 3200


class CycleOfClasses(InMemoryDataset):
    """One graph whose edges lead from nodes of class c to nodes of class c + 1."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        y = torch.randint(CLASSES, (NODES,), generator=generator)
        edge_index = torch.randint(NODES, (2, 12 * EDGES), generator=generator)
        wanted = (y[edge_index[0]] + 1) % CLASSES == y[edge_index[1]]
        x = torch.nn.functional.one_hot(y, CLASSES) + 2 * torch.randn(NODES, CLASSES, generator=generator)
        part = torch.rand(NODES, generator=generator)
        data = Data(x=x, edge_index=edge_index[:, wanted][:, :EDGES], y=y)
        data.train_mask, data.val_mask, data.test_mask = (part < 0.5, (part >= 0.5) & (part < 0.75), part >= 0.75)
        self.data, self.slices = self.collate([data])


register_loader("example", lambda form, name, folder: CycleOfClasses() if form == "example" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cfg", dest="cfg_file", default=str(Path(__file__).with_suffix(".yaml")), help="GraphGym config file"
    )
    parser.add_argument("opts", nargs=argparse.REMAINDER, help="options of the config as: name value ...")
    load_cfg(cfg, parser.parse_args())
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*(pin_memory|num_workers|treespec).*")
    seed_everything(cfg.seed)

    with tempfile.TemporaryDirectory() as folder:
        cfg.out_dir = cfg.run_dir = folder
        data = GraphGymDataModule()
        model = create_model()
        cfg.params = sum(parameter.numel() for parameter in model.parameters())
        print(f"{cfg.gnn.layers_mp} layers {cfg.gnn.layer_type}, {cfg.params} parameters")
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        train(model, data, trainer_config=quiet)
        for split in ("train", "val", "test"):
            lines = (Path(folder) / split / "stats.json").read_text().splitlines()
            print(f"{split:5s} accuracy {json.loads(lines[-1])['accuracy']:.3f}")


if __name__ == "__main__":
    main()
