"""Under torchrun all processes compute a run together, and one of them writes it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import Results, results


@pytest.fixture
def torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINY_TRACE", str(tmp_path / "trace"))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*launcher, "-m", "mimogc", "reproduce", "tiny_study:SHARED", "--store", "runs.db"]


def test_two_processes_compute_and_one_writes(torchrun: list[str], tmp_path: Path, truth: Results) -> None:
    done = subprocess.run([*torchrun, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"] == 12
    metrics = [metrics for metrics, _ in results(tmp_path / "runs.db").values()]
    assert {m["ranks"] for m in metrics} == {2.0}
    assert len({line.split()[2] for line in (tmp_path / "trace").read_text().splitlines()}) == 2


def test_a_failure_ends_all_processes(torchrun: list[str]) -> None:
    environment = {**os.environ, "TINY_FAIL": "sgd"}
    done = subprocess.run([*torchrun, "--methods", "sgd"], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 1
    assert "RuntimeError: asked to fail" in done.stderr


ALONE_AT_THE_END = """
import os
import torch
from mimogc.runs import ranks
with ranks.group():
    torch.distributed.all_reduce(torch.ones(()))
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    torch.optim.Adam([weight]).step()
names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
assert not [name for name in names if "gloo" in name], names
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc to see threads in")
def test_no_thread_outlives_the_group(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ALONE_AT_THE_END)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launcher, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


STARTED_AGAIN = """
import os
import signal
import torch
from mimogc.runs import ranks
with ranks.group():
    torch.distributed.all_reduce(torch.ones(()))
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and ranks.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.all_reduce(total := torch.ones(()))
print(f"rank {ranks.rank()} of {int(total)}", flush=True)
"""


def test_ranks_that_are_started_again_find_each_other(tmp_path: Path) -> None:
    """Three and more speak with each other by addresses, which must not be those of the ranks before."""
    script = tmp_path / "script.py"
    script.write_text(STARTED_AGAIN)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    done = subprocess.run([*launcher, "--max-restarts", "1", str(script)], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    # Their lines may run into one another.
    assert sorted(re.findall(r"rank \d of \d", done.stdout)) == [f"rank {rank} of 3" for rank in range(3)]
