"""Joining the processes that torchrun has started, also when it has started them again."""

import os
from datetime import timedelta


def join(limit: timedelta | None, joining: timedelta) -> None:
    """Begin torch's process group: NCCL with GPUs, else Gloo; `limit` is how long an exchange may take, None as usual.

    torchrun keeps one store over its restarts. Without a prefix ranks would read there where those before them were,
    and three and more would wait for addresses that nobody answers at.
    """
    import torch

    # Optimisers import this at their first step. Imported while there is a group, it keeps the group's threads alive,
    # and one that outlives the interpreter aborts the process.
    import torch._dynamo
    from torch import distributed

    store, here, ranks = next(distributed.rendezvous("env://", timeout=joining))  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = distributed.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
    store.set(f"rank {here}", "here")
    store.wait([f"rank {other}" for other in range(ranks)], joining)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=here, world_size=ranks, timeout=limit)
