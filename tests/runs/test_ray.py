"""The same with Ray: a worker, the driver or a node dies in the middle, and the bits are those of one process."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from harness import TINY, Command, Results, Watch, results
from mimogc.runs.driver import reproduce
from mimogc.runs.registry import load
from mimogc.runs.study import Options

COMMAND = ("reproduce", TINY, "--store", "runs.db")


def stored(folder: Path) -> int:
    return len(results(folder / "runs.db")) if (folder / "runs.db").exists() else 0


def alive(pid: int) -> bool:
    """A zombie that nobody has reaped yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def starts(command: Command) -> Counter[str]:
    """How often each run was started."""
    return Counter(run for event, run, _ in command.traced() if event == "start")


def test_the_worker_is_killed_and_then_the_driver(tmp_path: Path, truth: Results) -> None:
    command = Command(tmp_path, *COMMAND, "--jobs", "2", seconds=0.3)
    command.wait_for(lambda: bool(command.traced()))
    _, victim, worker = command.traced()[0]
    os.kill(int(worker), signal.SIGKILL)
    command.wait_for(lambda: starts(command)[victim] == 2)  # Ray tries it again in another worker
    command.wait_for(lambda: stored(tmp_path) >= 3)
    command.process.kill()
    command.end()

    workers = {int(pid) for _, _, pid in command.traced()}
    assert len(workers) >= 3
    deadline = time.monotonic() + 30
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "workers outlive their driver"
        time.sleep(0.1)

    before = stored(tmp_path)
    assert 3 <= before < 12
    summary = reproduce(load(TINY), Options(), tmp_path / "runs.db", Watch())
    assert summary.count("done") == 12 - before
    assert results(tmp_path / "runs.db") == truth


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("TINY_TRACE", str(tmp_path / "trace"))  # the workers are children of the nodes
    monkeypatch.setenv("TINY_SECONDS", "0.3")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def test_a_node_dies_and_the_driver_is_stopped(tmp_path: Path, truth: Results, cluster: Cluster) -> None:
    node = cluster.add_node(num_cpus=1)
    command = Command(tmp_path, *COMMAND, "--cluster", cluster.address)
    command.wait_for(lambda: len({pid for _, _, pid in command.traced()}) == 2)  # both nodes work
    cluster.remove_node(node, allow_graceful=False)
    command.wait_for(lambda: stored(tmp_path) >= 3 and max(starts(command).values()) == 2)
    command.process.send_signal(signal.SIGINT)
    code, stdout, stderr = command.end()
    assert code == 130
    assert f"interrupted: {stored(tmp_path)} of 12 runs" in stderr
    assert "Traceback" not in stdout + stderr

    code, stdout, stderr = Command(tmp_path, *COMMAND, "--cluster", cluster.address, "--json").end()
    assert code == 0, stderr
    assert json.loads(stdout)["missing"] == 0
    assert results(tmp_path / "runs.db") == truth
