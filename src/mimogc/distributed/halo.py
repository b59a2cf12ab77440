"""The rows that ranks need of each other's nodes: which they are, and their exchange with its gradient."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd import Function

from mimogc.distributed.group import Group, rank, size, together

_TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
_TYPES += [torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]


@dataclass
class Traffic:
    """What this rank has exchanged so far."""

    exchanges: int = 0
    sent: int = 0  #: bytes to other ranks
    received: int = 0  #: bytes from other ranks


@dataclass(frozen=True, eq=False)
class Halo:
    """What one rank sends to and gets from the others: the same rows, at every layer."""

    send: Tensor  #: [S] int64: own rows, those for rank 0 first
    to: tuple[int, ...]  #: how many of them are for each rank
    of: tuple[int, ...]  #: how many rows come from each rank
    group: Group = None
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def rows(self) -> int:
        """How many rows of other ranks this one needs."""
        return sum(self.of)

    def moved(self, device: torch.device | str) -> "Halo":
        return replace(self, send=self.send.to(device))

    def fetch(self, x: Tensor) -> Tensor:
        """[own + rows, ...]: the own rows x, and behind them those of other ranks."""
        self.check_alike(x)
        out: Tensor = _Fetch.apply(x, self)  # type: ignore[no-untyped-call]
        return out

    def check_alike(self, x: Tensor) -> None:
        """Refuse, on every rank, rows that have not the same type and width on all: they would be mixed up."""
        width = x.shape[1:].numel()
        mine = torch.tensor([_TYPES.index(x.dtype), width], device=x.device)
        heard = mine.new_empty(size(self.group) * 2)
        with together("compare its rows with the others'", self.group):
            distributed.all_gather_into_tensor(heard, mine, group=self.group)
        found = heard.view(-1, 2).tolist()
        if any(other != found[0] for other in found):
            listed = ", ".join(f"rank {at}: {count} of {_TYPES[kind]}" for at, (kind, count) in enumerate(found))
            raise ValueError(f"x: expected rows of the same width and type on every rank, got {listed}")

    def passed(self, rows: Tensor, counts: tuple[int, ...], into: Tensor, expected: tuple[int, ...]) -> None:
        """Send `rows`, `counts` to each rank, and put what comes, `expected` from each, `into` its place."""
        with together("exchange rows", self.group):
            distributed.all_to_all_single(into, rows, list(expected), list(counts), group=self.group)
        self.traffic.exchanges += 1
        self.traffic.sent += rows.numel() * rows.element_size()
        self.traffic.received += into.numel() * into.element_size()


def halo_of(needed: Tensor, bounds: Tensor, group: Group = None) -> Halo:
    """Tell every rank which of its nodes are needed here: `needed` [H] int64, ascending, none of the own.

    Nodes bounds[p] to bounds[p + 1] belong to rank p.
    """
    ranks, here = size(group), rank(group)
    owner = torch.searchsorted(bounds, needed, right=True) - 1
    counts = torch.bincount(owner, minlength=ranks)
    if ranks == 1:
        return Halo(needed, (0,), (0,), group)
    asked = torch.empty_like(counts)
    with together("say which rows it needs", group):
        distributed.all_to_all_single(asked, counts, group=group)
        of, to = tuple(counts.tolist()), tuple(asked.tolist())
        send = needed.new_empty(sum(to))
        distributed.all_to_all_single(send, needed, list(to), list(of), group=group)
    own = send - bounds[here]
    if send.numel() and not (int(own.min()) >= 0 and int(own.max()) < int(bounds[here + 1] - bounds[here])):
        raise ValueError(
            f"bounds: rank {here} has the nodes {int(bounds[here])} to {int(bounds[here + 1]) - 1}, and another rank "
            f"asks it for node {int(send.max())}: expected the same bounds on every rank"
        )
    return Halo(own, to, of, group)


class _Fetch(Function):
    """x → x, and behind it the rows of other ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, halo: Halo) -> Tensor:
        ctx.halo = halo
        own = x.size(0)
        out = x.new_empty(own + halo.rows, *x.shape[1:])
        out[:own] = x
        halo.passed(x.index_select(0, halo.send), halo.to, out[own:], halo.of)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Return.apply(g, ctx.halo), None  # type: ignore[no-untyped-call]


class _Return(Function):
    """The transpose: what belongs to rows of other ranks goes back to them and is added there."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, halo: Halo) -> Tensor:
        ctx.halo = halo
        own = g.size(0) - halo.rows
        came = g.new_empty(halo.send.numel(), *g.shape[1:])
        halo.passed(g[own:].contiguous(), halo.of, came, halo.to)
        return g[:own].index_add(0, halo.send, came)

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> Any:
        return _Fetch.apply(x, ctx.halo), None  # type: ignore[no-untyped-call]
