"""Kill the driver, stop it, start it twice, fill the disk: run again, and every run is there exactly once."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import TINY, Command, Results, Watch, results
from mimogc.cli import run
from mimogc.runs.driver import reproduce
from mimogc.runs.registry import load
from mimogc.runs.store import Store
from mimogc.runs.study import Options

COMMAND = ("reproduce", TINY, "--store", "runs.db")


def stored(folder: Path) -> set[str]:
    path = folder / "runs.db"
    return set(results(path)) if path.exists() else set()


def finish(folder: Path) -> Results:
    """Run again, undisturbed."""
    reproduce(load(TINY), Options(), folder / "runs.db", Watch())
    return results(folder / "runs.db")


def test_kill_9_at_any_moment(tmp_path: Path, truth: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(0)
    marks: list[tuple[int, set[str]]] = []  # at each kill: the length of the trace, what was stored
    # A batch is three runs and six lines of the trace: strike before the first, as it is written, and in the
    # middle of a later one.
    for lines in (0, 6, 9):
        command = Command(tmp_path, *COMMAND, seconds=0.1)
        target = len(command.traced()) + lines
        command.wait_for(lambda command=command, target=target: len(command.traced()) >= target)
        time.sleep(dice.uniform(0.0, 0.1))
        command.process.kill()
        command.end()
        marks.append((len(command.traced()), stored(tmp_path)))
    monkeypatch.setenv("TINY_TRACE", str(command.trace))
    assert finish(tmp_path) == truth
    assert {len(ids) % 3 for _, ids in marks} == {0}  # batches are there whole or not at all
    assert 0 < len(marks[-1][1]) < 12
    for length, ids in marks:
        assert not ids & {name for event, name, _ in command.traced()[length:] if event == "start"}


def test_ctrl_c(tmp_path: Path, truth: Results) -> None:
    command = Command(tmp_path, *COMMAND, seconds=0.2)
    command.wait_for(lambda: len(stored(tmp_path)) >= 3)
    command.process.send_signal(signal.SIGINT)
    code, stdout, stderr = command.end()
    count = len(stored(tmp_path))
    assert code == 130
    assert f"interrupted: {count} of 12 runs are in runs.db" in stderr
    assert "the same command goes on" in stderr
    assert "Traceback" not in stdout + stderr
    assert finish(tmp_path) == truth


def test_two_drivers_on_one_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.db")
    with Store(path, write=True):
        assert run(["reproduce", TINY, "--store", path]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[1:] == [  # after the title of the study
        f"mimogc: another run (process {os.getpid()}) is writing {path}; wait for it or choose another store"
    ]
    assert run(["reproduce", TINY, "--store", path]) == 0


def test_no_room_for_results(tmp_path: Path, truth: Results) -> None:
    reproduce(load(TINY), Options(methods=("sgd",)), tmp_path / "runs.db", Watch())
    limit = (tmp_path / "runs.db").stat().st_size  # no file may grow beyond it: the next batch does not fit
    process = subprocess.run(
        [sys.executable, "-m", "mimogc", *COMMAND],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith("mimogc: cannot write the store runs.db: ")
    assert "Traceback" not in process.stderr
    assert len(stored(tmp_path)) == 6
    assert finish(tmp_path) == truth
