"""An epoch of ZINC12k training, from a few hundred steps of each pipeline.

python benchmarks/zinc.py        # needs the data set: MIMOGC_MIRROR, MIMOGC_DATA or a download
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import add_self_loops

from mimogc.bench.naive import NaiveLMGC
from mimogc.data import DataError, load_molecules
from mimogc.models.graph_regressor import ATOM_TYPES, GraphRegressor
from mimogc.studies.zinc_models import regressor, width
from mimogc.training.graphs import BATCH_SIZE, CLIP, FlatAdamW, MoleculeTask, train_epoch

LAYERS, HEADS, BUDGET, LR = 6, 4, 100_000, 0.001
TIMED = ("lmgc", "gin", "gatv2")
PLAIN = "plain"  # the name of the plain pipeline beside the methods
STEPS, ROUNDS = 50, 6  # steps of one turn, turns of each after a first one to warm up

Turn = Callable[[], float]  # trains a few steps and gives their mean loss


class PlainRegressor(torch.nn.Module):
    """The basic model as one would first write it with PyG, with the naive layer."""

    def __init__(self, channels: int, layers: int = LAYERS, heads: int = HEADS) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(ATOM_TYPES, channels)
        self.layers = torch.nn.ModuleList(NaiveLMGC(channels, channels, heads) for _ in range(layers))
        self.hidden = torch.nn.Linear(channels, channels)
        self.last = torch.nn.Linear(channels, 1)

    def forward(self, data: Any) -> Tensor:
        edge_index, _ = add_self_loops(data.edge_index, num_nodes=data.num_nodes)
        h = self.embedding(data.x.squeeze(1))
        for layer in self.layers:
            h = F.gelu(layer(h, edge_index))
        out: Tensor = self.last(F.gelu(self.hidden(global_add_pool(h, data.batch)))).squeeze(1)
        return out

    @torch.no_grad()
    def copy_from(self, model: GraphRegressor) -> None:
        """Take over the weights of the library's model of the same size."""
        for name in ("embedding", "hidden", "last"):
            getattr(self, name).load_state_dict(getattr(model, name).state_dict())
        stack: Any = model.layers
        pairs: Iterator[tuple[Any, Any]] = zip(self.layers, stack.convolutions(), strict=True)
        for mine, theirs in pairs:
            mine.copy_from(theirs)


def plain_steps(model: torch.nn.Module, optimiser: torch.optim.Optimizer, loader: Any, molecules: int) -> float:
    """`train_epoch` as one would first write it: PyG's loader, the loss read at every step."""
    total = 0.0
    for data in loader:
        optimiser.zero_grad()
        loss = F.l1_loss(model(data), data.y)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        total += loss.item() * data.num_graphs
    return total / molecules


def _fast_turn(method: str, task: MoleculeTask, order: Tensor) -> Turn:
    torch.manual_seed(0)
    model = regressor(width(method, LAYERS, HEADS, BUDGET, ()), method, LAYERS, HEADS, ())
    optimiser = FlatAdamW(model, LR)
    return lambda: train_epoch(model, optimiser, task, order, model.add_self_loops)


def _plain_turn(task: MoleculeTask, order: Tensor) -> Turn:
    torch.manual_seed(0)
    model = PlainRegressor(width("lmgc", LAYERS, HEADS, BUDGET, ()))
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0)
    # The objects exist before the clock starts, as a dataset in memory would; collating is the loader's work.
    loader = DataLoader([task.molecules.data(int(molecule)) for molecule in order], BATCH_SIZE, shuffle=True)
    return lambda: plain_steps(model, optimiser, loader, order.size(0))


def seconds_per_epoch(rounds: int = ROUNDS, steps: int = STEPS) -> dict[str, tuple[float, float]]:
    """The time of a step times the steps of an epoch, the pipelines taking turns: the median and the fastest turn."""
    molecules = load_molecules("zinc12k")
    task = MoleculeTask.of(molecules, None, molecules.sizes[0])
    order = torch.randperm(molecules.sizes[0], generator=torch.Generator().manual_seed(0))[: steps * BATCH_SIZE]
    turns = {method: _fast_turn(method, task, order) for method in TIMED}
    turns[PLAIN] = _plain_turn(task, order)
    times: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name, turn in turns.items():
            start = time.perf_counter()
            turn()
            if number:
                times[name].append((time.perf_counter() - start) / steps)
    in_epoch = -(-molecules.sizes[0] // BATCH_SIZE)
    return {name: (in_epoch * statistics.median(values), in_epoch * min(values)) for name, values in times.items()}


def bfloat16_ratio(rows: int = 741, channels: int = 58, times: int = 200) -> float:
    """Time of a layer's product h = X Wᵀ in bfloat16 relative to float32: above 1 it cannot help."""
    taken = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.randn(rows, channels).to(dtype), torch.randn(HEADS * channels, channels).to(dtype)
        samples = []
        for _ in range(times):
            start = time.perf_counter()
            F.linear(x, weight)
            samples.append(time.perf_counter() - start)
        taken[dtype] = statistics.median(samples)
    return taken[torch.bfloat16] / taken[torch.float32]


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds per epoch and the ratios; nothing where the molecules cannot be had."""
    say(
        f"zinc12k: an epoch of training, {LAYERS} layers, at most {BUDGET:,} parameters, batches of {BATCH_SIZE}, "
        f"{torch.get_num_threads()} threads; from {ROUNDS} turns of {STEPS} steps"
    )
    try:
        turns = seconds_per_epoch()
    except DataError as error:
        say(f"  left out: {error}")
        return {}
    seconds = {name: median for name, (median, _) in turns.items()}
    fastest = {name: best for name, (_, best) in turns.items()}
    ratios = {
        "plain / lmgc": seconds[PLAIN] / seconds["lmgc"],
        "lmgc / gin": seconds["lmgc"] / seconds["gin"],
        "gatv2 / lmgc": seconds["gatv2"] / seconds["lmgc"],
    }
    for name, value in seconds.items():
        what = "  LMGC: naive layer, PyG's DataLoader, default AdamW" if name == PLAIN else ""
        say(f"  {name:6s} {value:7.2f} s, fastest turn {fastest[name]:6.2f} s{what}")
    for name, value in ratios.items():
        say(f"  {name:18s} {value:5.2f}")
    return {"seconds_per_epoch": seconds, "fastest_turn": fastest, "ratios": ratios}


def bfloat16_line() -> str:
    """The ratio as text, from a process of its own: where AMX is named but not allowed, such a product ends it."""
    child = subprocess.run([sys.executable, __file__, "bfloat16"], capture_output=True, text=True)
    if child.returncode:
        return "  bfloat16: torch's products end the process on this machine (see installation)"
    return f"  bfloat16 / float32 {float(child.stdout):5.2f}, of a layer's product, which is half of a step"


if __name__ == "__main__":
    if sys.argv[1:] == ["bfloat16"]:
        print(bfloat16_ratio())
    else:
        run(print)
        print(bfloat16_line())
