"""What a person waits for: the command line, the molecules, an analysis of a real graph, the page of `explore`."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

# Each prints its seconds: measured in a process of its own, as a person would start it.
_PRELUDE = "import time; clock = time.perf_counter\n"
_HELP = """
import subprocess, sys
times = []
for _ in range(5):
    start = clock()
    subprocess.run([sys.executable, "-m", "mimogc", "--help"], check=True, capture_output=True)
    times.append(clock() - start)
print(sorted(times)[2])
"""
_MOLECULES = """
from mimogc.data import load_molecules
load_molecules("zinc12k")
start = clock()
load_molecules("zinc12k")
print(clock() - start)
"""
_AMPLIFICATION = """
import torch
from mimogc.data import load_nodes
from mimogc.nn import LMGConv
from mimogc.spectral import component_amplification
graph = load_nodes("chameleon").graph()
layer, x = LMGConv(32, 32), torch.randn(graph.num_nodes, 32)
start = clock()
component_amplification(layer, x, graph)
print(clock() - start)
"""
_EXPLORE = """
from mimogc.explore import cards
from mimogc.explore.choices import METHODS, Choice
def views(choice):
    start = clock()
    cards.spectrum(choice, 0.02), cards.amplification(choice), cards.depth(choice), cards.multisets(choice)
    return clock() - start
views(Choice(nodes=16))
print(max(views(Choice(nodes=64, method=method, seed=1 + seed)) for seed, method in enumerate(METHODS)))
"""


@dataclass(frozen=True)
class _Wait:
    what: str
    script: str


_WAITS = {
    "help": _Wait("mimogc --help, the median of five", _HELP),
    "molecules": _Wait("ZINC12k ready, after the first time", _MOLECULES),
    "amplification": _Wait(
        "component amplification of a layer with 32 channels on Chameleon", _AMPLIFICATION
    ),
    "explore": _Wait("the four views of explore for 64 nodes, the slowest method", _EXPLORE),
}


def seconds(name: str) -> float:
    """How long one of the waits takes."""
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + _WAITS[name].script], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])
    return float(done.stdout.split()[-1])


def run(say: Callable[[str], None]) -> dict[str, float]:
    """The seconds of each; one that cannot be had here, for want of data or packages, is left out with the reason."""
    say("waiting: seconds until it is there")
    found = {}
    for name, wait in _WAITS.items():
        try:
            found[name] = seconds(name)
        except RuntimeError as reason:
            say(f"  left out: {wait.what}: {reason}")
        else:
            say(f"  {found[name]:6.2f} s  {wait.what}")
    return found
