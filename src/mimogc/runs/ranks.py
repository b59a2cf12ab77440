"""One big run on several processes, started with torchrun: rank 0 drives and writes, the others compute along."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from mimogc._joining import join
from mimogc.runs.engine import Batch

JOINING = timedelta(minutes=5)  # in which all ranks have to be there: machines start at different times


def rank() -> int:
    """The rank of this process; 0 when it was started alone."""
    return int(os.environ.get("RANK", "0"))


def size() -> int:
    """How many processes torchrun started; 1 when this one was started alone."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def group() -> Iterator[None]:
    """Join the process group for as long as the work lasts: NCCL with GPUs, else Gloo."""
    if size() == 1:
        yield
        return
    from torch import distributed

    join(None, JOINING)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def agree(batches: Sequence[Batch]) -> list[Batch]:
    """The batches that rank 0 gives, on every rank."""
    if size() == 1:
        return list(batches)
    from torch import distributed

    message: list[Any] = [list(batches)]
    distributed.broadcast_object_list(message, src=0)
    agreed: list[Batch] = message[0]
    return agreed
