"""A rank of the test of `calibrate` with torch.distributed, in a module that a new process can import."""

from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from mimogc.nn import calibrate
from stacks import case


def rank(number: int, port: int, folder: str, spoil: bool) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=2)
    model, x, graph = case(3, seed=number)  # each rank starts elsewhere and has inputs of its own
    try:
        if spoil:
            model.layers[1].lin.weight.data.zero_()
            try:
                calibrate(model, x, graph)
            except ValueError as error:
                Path(folder, f"error{number}").write_text(str(error))
            return
        factors = calibrate(DistributedDataParallel(model), x, graph)
        # DistributedDataParallel has made the starts equal; what rank 0 found is what both have.
        torch.save((model.state_dict(), factors), Path(folder, f"rank{number}.pt"))
    finally:
        distributed.destroy_process_group()
