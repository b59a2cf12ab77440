"""The parts of a graph as files: written once, read by one rank each, and refused where they do not belong together."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mimogc.distributed.group import Group, all_ranks, rank, size
from mimogc.distributed.ordering import Partition, check_edges, partition
from mimogc.distributed.part import PartitionedGraph, check_bounds, check_halo, check_size, local_edges

FORMAT = 1
_LIST = "parts.json"


class PartError(RuntimeError):
    """A part is missing, altered or of another graph; the message says which file, and what to do."""


class Part(NamedTuple):
    """What `load_part` gives."""

    graph: PartitionedGraph
    nodes: dict[str, Tensor]  #: the rows of this rank's nodes of what was saved with the graph
    original: Tensor  #: [num_dst] int64: their numbers in the graph as it was given


def save_parts(
    folder: str | Path,
    edge_index: Tensor,
    num_nodes: int,
    parts: int | Partition,
    nodes: Mapping[str, Tensor] | None = None,
    edge_attr: Tensor | None = None,
) -> Partition:
    """Cut a graph and write its parts into a folder, one file each; done once, by one process that has all of it.

    Args:
        folder: made where it is not there; the list of the parts, with their checksums, is written last.
        edge_index: ``[2, E]``.
        num_nodes: the number of nodes N.
        parts: how many, or a `Partition` of one's own.
        nodes: name → ``[N, ...]``: features, labels and what else each rank needs of its nodes.
        edge_attr: ``[E, ...]``.
    """
    folder, nodes = Path(folder), dict(nodes or {})
    check_edges(edge_index, num_nodes)
    for name, value in nodes.items():
        if value.dim() == 0 or value.size(0) != num_nodes:
            raise ValueError(f"nodes[{name!r}]: expected one row per node ({num_nodes}), got {list(value.shape)}")
    if edge_attr is not None and (edge_attr.dim() == 0 or edge_attr.size(0) != edge_index.size(1)):
        raise ValueError(f"edge_attr: expected one row per edge ({edge_index.size(1)}), got {list(edge_attr.shape)}")
    chosen = parts if isinstance(parts, Partition) else partition(edge_index, num_nodes, parts)
    order, bounds = chosen
    _check_partition(chosen, num_nodes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _LIST).unlink(missing_ok=True)  # what is half written is no set of parts
    renumbered = chosen.renumbered(edge_index)
    identity = _identity(renumbered, chosen, nodes, edge_attr)
    owner = torch.searchsorted(bounds, renumbered[1].contiguous(), right=True) - 1
    files = []
    for number in range(bounds.numel() - 1):
        mine = (owner == number).nonzero().flatten()
        edges, halo_nodes = local_edges(renumbered[:, mine], bounds, number)
        own = order[int(bounds[number]) : int(bounds[number + 1])]
        state = {
            "identity": identity,
            "part": number,
            "bounds": bounds,
            "edges": edges,
            "halo_nodes": halo_nodes,
            "original": own.clone(),
            "nodes": {name: value.detach()[own] for name, value in nodes.items()},
            "edge_attr": None if edge_attr is None else edge_attr.detach()[mine],
        }
        path = folder / f"part-{number}.pt"
        _write(path, lambda file, state=state: torch.save(state, file))
        sizes = {"own": own.numel(), "halo": halo_nodes.numel(), "edges": edges.size(1)}
        files.append({"file": path.name, "sha256": _sha256(path), **sizes})
    listed = {"format": FORMAT, "identity": identity, "nodes": num_nodes, "edges": edge_index.size(1), "parts": files}
    _write(folder / _LIST, lambda file: file.write(json.dumps(listed, indent=1).encode()))
    return chosen


def load_part(folder: str | Path, group: Group = None) -> Part:
    """This rank's part, checked against the list of parts and against those of the other ranks; called by all ranks."""
    here, ranks = rank(group), size(group)
    state, problem = None, ""
    try:
        state = _checked(Path(folder), here, ranks)
    except PartError as error:
        problem = str(error)
    heard = all_ranks((None if state is None else state["identity"], problem), group)
    wrong = [text for _, text in heard if text]
    if wrong or state is None:
        raise PartError(wrong[0])
    identities = [identity for identity, _ in heard]
    if len(set(identities)) > 1:
        listed = ", ".join(f"{number}: {identity[:8]}" for number, identity in enumerate(identities))
        raise PartError(f"{folder}: the parts of the ranks are of different graphs or cuts ({listed}); copy them again")
    graph = PartitionedGraph.from_part(state["edges"], state["halo_nodes"], state["bounds"], state["edge_attr"], group)
    return Part(graph, state["nodes"], state["original"])


def _check_partition(chosen: Partition, num_nodes: int) -> None:
    """Refuse what is not every node once, and ranges of them from the first to the last."""
    order, bounds = chosen
    if order.dtype != torch.int64 or not torch.equal(order.sort().values, torch.arange(num_nodes)):
        raise ValueError(
            f"parts: expected an order of {num_nodes} nodes, each once as int64, got {list(order.shape)} {order.dtype}"
        )
    ends = bounds.dtype == torch.int64 and bounds.dim() == 1 and bounds.numel() > 1 and bounds[[0, -1]].tolist()
    if ends != [0, num_nodes] or bool((bounds.diff() < 0).any()):
        raise ValueError(f"parts: expected ascending int64 bounds from 0 to {num_nodes}, got {bounds.tolist()}")


def _checked(folder: Path, part: int, ranks: int) -> dict[str, Any]:
    """The part as it was saved, or a PartError: whatever is wrong with the files, all ranks are to hear of it."""
    try:
        listed = json.loads((folder / _LIST).read_text())
        if listed["format"] != FORMAT:
            raise PartError(f"{folder}: expected parts of format {FORMAT}, got {listed['format']}; write them again")
        files = listed["parts"]
        if len(files) != ranks:
            raise PartError(f"{folder}: expected as many parts as ranks, got {len(files)} parts and {ranks} ranks")
        entry, identity = files[part], str(listed["identity"])
        path, wanted = folder / _plain_name(entry["file"]), str(entry["sha256"])
        own, halo, edges = (int(entry[key]) for key in ("own", "halo", "edges"))
        check_size(part, own, halo, edges)
        found = _sha256(path)
    except FileNotFoundError as error:
        raise PartError(f"{error.filename}: no such file; save_parts writes the parts of a graph") from error
    except OSError as error:
        raise PartError(f"{error.filename or folder}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PartError(f"{folder / _LIST}: not a list of parts ({type(error).__name__}: {error})") from error
    if found != wanted:
        raise PartError(f"{path}: expected SHA-256 {wanted[:16]}…, got {found[:16]}…; copy it again")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if (state["identity"], state["part"]) != (identity, part):
            raise PartError(f"{path}: expected part {part} of {identity[:8]}, got part {state['part']}")
        _check_state(state, ranks, (own, halo, edges))
    except PartError:
        raise
    except Exception as error:  # what torch raises on other files is of many kinds
        reason = (str(error).splitlines() or [""])[0]
        raise PartError(f"{path}: not a part of a graph ({type(error).__name__}: {reason}); write it again") from error
    return state


def _plain_name(name: Any) -> str:
    """The name of a file in the folder itself: a list from elsewhere may not point at other files."""
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(f"expected the name of a file in the folder, got {name!r}")
    return name


def _check_state(state: dict[str, Any], ranks: int, sizes: tuple[int, int, int]) -> None:
    """Refuse what is not as large as the list says, before ranks tell each other what they need."""
    own, halo, edges = sizes
    expected: dict[str, tuple[torch.dtype, list[int]]] = {
        "bounds": (torch.int64, [ranks + 1]),
        "edges": (torch.int32, [2, edges]),
        "halo_nodes": (torch.int64, [halo]),
        "original": (torch.int64, [own]),
    }
    for name, wanted in expected.items():
        if (state[name].dtype, list(state[name].shape)) != wanted:
            raise ValueError(f"{name}: expected {wanted}, got {state[name].dtype} {list(state[name].shape)}")
    for name, value in state["nodes"].items():
        if value.dim() == 0 or value.size(0) != own:
            raise ValueError(f"nodes[{name!r}]: expected one row per node ({own}), got {list(value.shape)}")
    if (given := state["edge_attr"]) is not None and (given.dim() == 0 or given.size(0) != edges):
        raise ValueError(f"edge_attr: expected one row per edge ({edges}), got {list(given.shape)}")
    check_bounds(state["bounds"], ranks)
    check_halo(state["halo_nodes"], state["bounds"], state["part"])
    if edges:
        low, high = state["edges"].min(1).values.tolist(), state["edges"].max(1).values.tolist()
        if min(low) < 0 or high[0] >= own + halo or high[1] >= own:
            raise ValueError(f"edges: expected sources below {own + halo} and targets below {own}, got {low} to {high}")


def _identity(edges: Tensor, chosen: Partition, nodes: Mapping[str, Tensor], edge_attr: Tensor | None) -> str:
    """What tells two cuts apart: the edges, the order, the bounds, and what belongs to the nodes."""
    total = hashlib.sha256()
    named = {"edges": edges, "order": chosen.order, "bounds": chosen.bounds}
    named |= {f"nodes {name}": value for name, value in nodes.items()}
    for name, value in (named if edge_attr is None else {**named, "edge_attr": edge_attr}).items():
        total.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        total.update(value.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**22):
            total.update(block)
    return total.hexdigest()


def _write(path: Path, write: Any) -> None:
    """So that at every moment the file is the old one or the whole new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
