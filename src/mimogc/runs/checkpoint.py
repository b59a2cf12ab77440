"""Checkpoints of a long training: written atomically, resumed bit by bit."""

import os
import pickle
import random
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Generator


class Stateful(Protocol):
    """A model, an optimiser or a scheduler."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Any) -> object: ...


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write ``state`` so that at every moment ``path`` is the old whole file or the new whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError | RuntimeError):  # torch does not say that a disk is full, nor which file it was
            raise RuntimeError(f"cannot write the checkpoint {path}; is the disk full? ({error})") from error
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name itself survives a power cut
    finally:
        os.close(folder)


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """The state in ``path``; ``None`` if there is none, or if it is damaged, which is said in a warning."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, KeyError, EOFError, OSError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(f"checkpoint {path} is damaged ({reason}); training starts again", stacklevel=2)
        return None
    return state


def capture(epoch: int, **parts: Stateful | Generator) -> dict[str, Any]:
    """What a training needs to go on after ``epoch`` as if it had never stopped, random states included.

    Args:
        epoch: the epochs that are complete.
        parts: model, optimiser, scheduler, generators of one's own, under names to give to :func:`restore`.
    """
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "epoch": epoch,
        "parts": {name: _state(part) for name, part in parts.items()},
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "python": random.getstate(),
    }


def restore(state: Mapping[str, Any], **parts: Stateful | Generator) -> int:
    """Put what :func:`capture` took back into ``parts`` and the random generators; the complete epochs."""
    if set(parts) != set(state["parts"]):
        raise ValueError(f"the checkpoint has the parts {sorted(state['parts'])}; got {sorted(parts)}")
    for name, part in parts.items():
        if isinstance(part, Generator):
            part.set_state(state["parts"][name])
        else:
            part.load_state_dict(state["parts"][name])
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    random.setstate(state["python"])
    return int(state["epoch"])


def _state(part: Stateful | Generator) -> Any:
    return part.get_state() if isinstance(part, Generator) else part.state_dict()
