"""Layers and models on a graph in parts compute what they compute on the whole graph, for one to three ranks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from launching import torchrun

PROCESS = Path(__file__).with_name("ranks_process.py")
PRESETS = ("lmgc", "eq12", "gcn", "gat", "gatv2", "fagcn", "acm", "gated", "sheaf", "lmgc-sym")
CASES = [*PRESETS, *(f"{name} fetching h" for name in PRESETS)]
CASES += ["lmgc with edge features", "gatv2 with edge features", "gcn with weights", "acm with weights"]
CASES += ["without loops", "mean and residual", "concat", "pair", "gatv2 of two maps", "gin", "gated acm", "chebyshev"]
CASES += [
    "second derivative",
    "training lmgc",
    "training gcn",
    "training gin",
    "training gatv2",
    "training with batch norm",
    "large",
]


@pytest.fixture(scope="module", params=[1, 2, 3])
def differences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    path = tmp_path_factory.mktemp("ranks") / "found.json"
    launcher = torchrun(request.param) if request.param > 1 else [sys.executable]
    done = subprocess.run([*launcher, str(PROCESS), str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(path.read_text())
    return found


def test_all_cases_ran(differences: dict[str, float]) -> None:
    assert sorted(differences) == sorted([*CASES, "bytes", "large float32"])


@pytest.mark.parametrize("case", CASES)
def test_parts_compute_what_the_whole_does(differences: dict[str, float], case: str) -> None:
    assert differences[case] < 1e-10


def test_float32_agrees_to_rounding(differences: dict[str, float]) -> None:
    assert differences["large float32"] < 1e-4


def test_the_bytes_exchanged_are_those_of_the_cut(differences: dict[str, float]) -> None:
    assert differences["bytes"] == 0
