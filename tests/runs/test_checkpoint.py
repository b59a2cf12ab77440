"""A training that is killed goes on from its checkpoint and ends with the same bits as one that is not."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mimogc.runs.checkpoint import capture, load_checkpoint, restore, save_checkpoint

EPOCHS = 6


def train(folder: Path, stop_after: int | None = None) -> list[torch.Tensor]:
    """A small training with every kind of state: dropout, AdamW, a schedule, four random generators."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    own = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    parts = {"model": model, "optimiser": optimiser, "scheduler": scheduler, "own": own}
    state = load_checkpoint(folder / "last.pt")
    start = restore(state, **parts) if state else 0
    for epoch in range(start, EPOCHS):
        x = torch.randn(32, 5, generator=own) * random.random() + np.random.normal()
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()
        scheduler.step()
        save_checkpoint(folder / "last.pt", capture(epoch + 1, **parts))
        if epoch + 1 == stop_after:
            os._exit(9)
    return [tensor.clone() for tensor in model.state_dict().values()]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_resumed_bit_by_bit_after_a_kill(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole")
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom test_checkpoint import train, Path\n"
    child = subprocess.run([sys.executable, "-c", f"{code}train(Path({str(tmp_path / 'killed')!r}), 3)"])
    assert child.returncode == 9
    state = load_checkpoint(tmp_path / "killed" / "last.pt")
    assert state is not None
    assert state["epoch"] == 3
    assert equal(train(tmp_path / "killed"), whole)


@pytest.mark.parametrize("part", ["torch", "numpy", "python", "parts"])
def test_every_part_of_the_state_matters(tmp_path: Path, part: str) -> None:
    whole = train(tmp_path)
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    other = capture(3, own=torch.Generator().manual_seed(1))
    (tmp_path / "last.pt").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "_exit", _raise)
        with pytest.raises(InterruptedError):
            train(tmp_path, 3)
    state = load_checkpoint(tmp_path / "last.pt")
    assert state is not None
    if part == "parts":
        state["parts"]["own"] = other["parts"]["own"]
    else:
        state[part] = other[part]
    save_checkpoint(tmp_path / "last.pt", state)
    assert not equal(train(tmp_path), whole)


def _raise(code: int) -> None:
    raise InterruptedError


def test_a_missing_checkpoint_is_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "none.pt") is None


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:10], lambda b: b"", lambda b: b"x" * 99])
def test_a_damaged_checkpoint_is_reported_and_ignored(tmp_path: Path, damage: object) -> None:
    whole = train(tmp_path)
    path = tmp_path / "last.pt"
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=r"last.pt is damaged .*; training starts again"):
        again = train(tmp_path)
    assert equal(again, whole)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    torch.save({"epoch": Trap()}, tmp_path / "last.pt")
    with pytest.warns(UserWarning, match="damaged"):
        assert load_checkpoint(tmp_path / "last.pt") is None
    assert not (tmp_path / "sprung").exists()


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "last.pt", {"epoch": 1})
    with pytest.raises(Exception, match="pickle"):
        save_checkpoint(tmp_path / "last.pt", {"epoch": lambda: None})
    assert load_checkpoint(tmp_path / "last.pt") == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_a_full_disk_is_said_with_the_file(tmp_path: Path) -> None:
    code = f"""
import resource
from pathlib import Path
import torch
from mimogc.runs.checkpoint import save_checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
save_checkpoint(Path({str(tmp_path / "last.pt")!r}), {{"weights": torch.zeros(10_000)}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"RuntimeError: cannot write the checkpoint {tmp_path / 'last.pt'}; is the disk full?" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_parts_must_be_the_same() -> None:
    state = capture(1, own=torch.Generator())
    with pytest.raises(ValueError, match=r"the checkpoint has the parts \['own'\]; got \['other'\]"):
        restore(state, other=torch.Generator())
