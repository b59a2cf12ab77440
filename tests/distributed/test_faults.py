"""A rank that is killed ends the others with one sentence, and the same command goes on from the last checkpoint."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from launching import torchrun
from mimogc.distributed import save_parts

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "partitioned.py"
pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc to find the ranks in")


def children(pid: int) -> list[int]:
    """The ranks that torchrun has started, in their order."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    found = [int(child) for child in text.split()]
    return [child for child in found if b"partitioned.py" in Path(f"/proc/{child}/cmdline").read_bytes()]


def losses(text: str) -> dict[int, float]:
    return {int(epoch): float(loss) for epoch, loss in re.findall(r"epoch (\d+): loss (\S+)", text)}


def test_after_a_kill_the_same_command_resumes(tmp_path: Path) -> None:
    ranks, epochs = 2, "40"
    undisturbed = [*torchrun(ranks), str(EXAMPLE), "--folder", str(tmp_path / "whole"), "--epochs", epochs]
    whole = subprocess.run(undisturbed, capture_output=True, text=True, timeout=600)
    assert whole.returncode == 0, whole.stderr
    command = [*torchrun(ranks, restarts=1), str(EXAMPLE), "--folder", str(tmp_path / "killed"), "--epochs", epochs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        while "epoch 10:" not in said:
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            said += line
        os.kill(children(process.pid)[1], signal.SIGKILL)
        rest, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert re.search(r"going on after epoch \d+", rest), rest
    found = losses(said + rest)
    assert found == losses(whole.stdout)
    exchanged, predicted = map(int, re.findall(r"bytes exchanged (\d+), predicted (\d+)", rest)[0])
    assert 0 < exchanged == predicted
    assert float(re.findall(r"accuracy (\S+) %", rest)[0]) > 50


def test_the_others_end_with_one_sentence(tmp_path: Path) -> None:
    """Without torchrun, which would end them itself."""
    command = [sys.executable, str(EXAMPLE), "--folder", str(tmp_path / "parts"), "--epochs", "100000"]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29617", "WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": "alone"}
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        assert ranks[0].stdout is not None
        while "epoch 5:" not in ranks[0].stdout.readline():
            assert ranks[0].poll() is None, ranks[0].communicate()[1]
        ranks[1].kill()
        start = time.monotonic()
        for rank in (0, 2):
            _, errors = ranks[rank].communicate(timeout=60)
            assert ranks[rank].returncode == 1
            (sentence,) = [line for line in errors.splitlines() if "cannot" in line]
            assert sentence.startswith(f"partitioned.py: rank {rank} cannot ")
            assert "another rank has ended or does not answer, so this one ends too" in sentence
            assert "Traceback" not in errors
        assert time.monotonic() - start < 60
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


def test_parts_that_do_not_fit_are_told_in_one_sentence(tmp_path: Path) -> None:
    save_parts(tmp_path, torch.randint(0, 9, (2, 20)), 9, 2)
    command = [sys.executable, str(EXAMPLE), "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"partitioned.py: {tmp_path}: expected as many parts as ranks, got 2 parts and 1 ranks"
    ]


WAITING = """
import time, torch.distributed as dist
from mimogc.distributed import LostRankError, group, on_rank_0

def fail():
    raise ValueError("no room")

with group(timeout=3):
    on_rank_0(lambda: time.sleep(8))  # longer than an exchange may take
    try:
        on_rank_0(fail)
    except (LostRankError, ValueError) as error:
        print(f"{dist.get_rank()}: {type(error).__name__} {error}\\n", end="", flush=True)  # in one piece
"""


def test_the_others_wait_for_rank_0(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(WAITING)
    done = subprocess.run([*torchrun(2), str(tmp_path / "wait.py")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    failed = "1: LostRankError rank 1 cannot go on: rank 0 has failed (ValueError: no room)"
    assert sorted(done.stdout.splitlines()) == ["0: ValueError no room", failed]
