"""What the ranks of a group do together: begin, add up, agree, and end when one of them is lost."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

from mimogc._joining import join

Group = Any  # torch's ProcessGroup; None for the usual one
TIMEOUT = 60.0  # seconds after which a rank that does not answer counts as lost
JOINING = 300.0  # seconds in which all ranks have to be there: machines start at different times
PATIENCE = 24 * 3600.0  # seconds in which rank 0 has to have done what the others wait for


class LostRankError(RuntimeError):
    """Another rank has ended or does not answer, so this one cannot go on."""


def size(group: Group = None) -> int:
    """The number of ranks; 1 where torch.distributed does not run."""
    return distributed.get_world_size(group) if distributed.is_initialized() else 1


def rank(group: Group = None) -> int:
    """The number of this rank; 0 where torch.distributed does not run."""
    return distributed.get_rank(group) if distributed.is_initialized() else 0


@contextmanager
def group(timeout: float = TIMEOUT) -> Iterator[None]:
    """Join the ranks that torchrun has started, for as long as the block lasts: NCCL where there are GPUs, else Gloo.

    A rank that has died is noticed at once; one that hangs, or whose machine is gone, after `timeout` seconds: ranks
    may not be that far apart between two exchanges. Alone, without torchrun, nothing is joined.
    """
    if not distributed.is_torchelastic_launched():
        yield
        return
    with together("join the others"):
        join(timedelta(seconds=timeout), timedelta(seconds=max(JOINING, timeout)))
    try:
        yield
    finally:
        distributed.destroy_process_group()


@contextmanager
def together(what: str, group: Group = None) -> Iterator[None]:
    """Say clearly that another rank is lost, where torch says what its sockets saw."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, LostRankError):
            raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        here = rank(group) if distributed.is_initialized() else os.environ.get("RANK", "0")
        raise LostRankError(
            f"rank {here} cannot {what}: another rank has ended or does not answer, so this one ends too; "
            f"started again, training goes on from its last checkpoint ({reason[0]})"
        ) from error


def barrier(group: Group = None) -> None:
    """Go on when all ranks have come here."""
    if size(group) > 1:
        with together("meet the others", group):
            distributed.barrier(group)


def on_rank_0(work: Callable[[], object], timeout: float = PATIENCE) -> None:
    """Let rank 0 do what may take long, such as cutting a graph, while the others wait; called by all ranks.

    What it fails with there is raised, and the others end with a `LostRankError` that says so.
    """
    if size() == 1:
        work()
        return
    with together("wait for rank 0"):
        patient = distributed.new_group(timeout=timedelta(seconds=timeout))
    said: list[str | None] = [None]
    try:
        if rank() == 0:
            work()
    except Exception as error:
        said = [f"{type(error).__name__}: {error}"]
        raise
    finally:
        with together("wait for rank 0"):
            distributed.broadcast_object_list(said, 0, group=patient)
            distributed.destroy_process_group(patient)
    if said[0] is not None:
        raise LostRankError(f"rank {rank()} cannot go on: rank 0 has failed ({said[0]})")


def add_up(value: Tensor, group: Group = None) -> Tensor:
    """The sum of a value over the ranks, without gradients."""
    value = value.detach().clone()
    if size(group) > 1:
        with together("add up", group):
            distributed.all_reduce(value, group=group)
    return value


def sum_gradients(parameters: Iterable[Tensor], group: Group = None) -> None:
    """Add up the gradients of parameters that are the same on every rank: to be called between backward and step.

    A parameter without a gradient on one rank counts as zero there.
    """
    held = [parameter for parameter in parameters if parameter.requires_grad]
    if size(group) == 1:
        return
    for kind in dict.fromkeys((parameter.dtype, parameter.device) for parameter in held):
        alike = [parameter for parameter in held if (parameter.dtype, parameter.device) == kind]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).detach().reshape(-1) for p in alike])
        with together("add up gradients", group):
            distributed.all_reduce(flat, group=group)
        for parameter, part in zip(alike, flat.split([p.numel() for p in alike]), strict=True):
            parameter.grad = part.view_as(parameter).clone()


def same_parameters(model: torch.nn.Module, group: Group = None) -> None:
    """Give every rank the parameters and buffers of rank 0."""
    if size(group) == 1:
        return
    with torch.no_grad(), together("get the parameters of rank 0", group):
        for value in [*model.parameters(), *model.buffers()]:
            distributed.broadcast(value.data, distributed.get_global_rank(group, 0) if group else 0, group=group)


def all_ranks(value: Any, group: Group = None) -> list[Any]:
    """What each rank gives, in their order; for small things."""
    if size(group) == 1:
        return [value]
    found: list[Any] = [None] * size(group)
    with together("hear of the others", group):
        distributed.all_gather_object(found, value, group=group)
    return found
