"""Parts that somebody has altered, checksums and all, are refused with a PartError, which every rank hears of."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mimogc.distributed import PartError, Partition, PartitionedGraph, load_part, save_parts
from mimogc.distributed.parts import _checked

NODES = 12
TWO = Partition(torch.arange(NODES), torch.tensor([0, 7, NODES]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    edges = torch.stack([torch.arange(NODES), torch.arange(NODES).roll(1)])
    save_parts(tmp_path / "parts", edges, NODES, TWO, {"x": torch.randn(NODES, 2)}, torch.randn(NODES))
    return tmp_path / "parts"


def relist(folder: Path, **changes: Any) -> None:
    """The list with the checksum that the first part has now, and these changes to its entry."""
    listed = json.loads((folder / "parts.json").read_text())
    listed["parts"][0]["sha256"] = hashlib.sha256((folder / "part-0.pt").read_bytes()).hexdigest()
    listed["parts"][0] |= changes
    (folder / "parts.json").write_text(json.dumps(listed))


STATES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no identity": lambda state: state.pop("identity"),
    "no edges": lambda state: state.pop("edges"),
    "no nodes": lambda state: state.pop("nodes"),
    "floats": lambda state: state.update(edges=state["edges"].float()),
    "sources beyond": lambda state: state["edges"].__setitem__((0, 0), 99),
    "targets beyond": lambda state: state["edges"].__setitem__((1, 0), 7),
    "negative": lambda state: state["edges"].__setitem__((1, 0), -1),
    "fewer edges": lambda state: state.update(edges=state["edges"][:, 1:]),
    "bounds down": lambda state: state.update(bounds=torch.tensor([0, 13, 12])),
    "bounds late": lambda state: state.update(bounds=torch.tensor([1, 7, 12])),
    "halo own": lambda state: state["halo_nodes"].fill_(3),
    "halo beyond": lambda state: state["halo_nodes"].fill_(12),
    "halo negative": lambda state: state["halo_nodes"].fill_(-1),
    "fewer rows": lambda state: state["nodes"].update(x=state["nodes"]["x"][1:]),
    "one number": lambda state: state["nodes"].update(x=torch.tensor(1.0)),
    "fewer attributes": lambda state: state.update(edge_attr=state["edge_attr"][1:]),
    "not tensors": lambda state: state.update(edges=[[0], [0]]),
}


@pytest.mark.parametrize("name", STATES)
def test_contents(folder: Path, name: str) -> None:
    _checked(folder, 0, 2)
    state = torch.load(folder / "part-0.pt", weights_only=True)
    STATES[name](state)
    torch.save(state, folder / "part-0.pt")
    relist(folder)
    with pytest.raises(PartError, match=r"part-0\.pt: not a part of a graph .*write it again"):
        _checked(folder, 0, 2)


@pytest.mark.parametrize("content", [b"", b"not of torch", b"PK\x03\x04" + bytes(60), None])
def test_files_of_another_kind(folder: Path, content: bytes | None) -> None:
    path = folder / "part-0.pt"
    if content is None:
        torch.save([1, 2, 3], path)
    else:
        path.write_bytes(content)
    relist(folder)
    with pytest.raises(PartError, match=r"part-0\.pt: not a part of a graph"):
        _checked(folder, 0, 2)


class Command:
    """What runs a function when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_nothing_in_a_part_is_run(folder: Path, tmp_path: Path) -> None:
    torch.save(Command(tmp_path / "ran"), folder / "part-0.pt")
    relist(folder)
    with pytest.raises(PartError, match="not a part of a graph"):
        _checked(folder, 0, 2)
    assert not (tmp_path / "ran").exists()


def test_every_truncation(folder: Path) -> None:
    path = folder / "part-0.pt"
    good = path.read_bytes()
    for end in range(0, len(good), 97):
        path.write_bytes(good[:end])
        with pytest.raises(PartError, match="expected SHA-256"):
            _checked(folder, 0, 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file": "../part-0.pt"}, "name of a file in the folder"),
        ({"file": "/etc/passwd"}, "name of a file in the folder"),
        ({"file": ".."}, r"not a list of parts|cannot be read"),
        ({"file": ""}, r"not a list of parts|cannot be read"),
        ({"file": 3}, "name of a file in the folder"),
        ({"sha256": 5}, "expected SHA-256 5"),
        ({"sha256": None}, "expected SHA-256 None"),
        ({"own": "many"}, "not a list of parts"),
        ({"own": None}, "not a list of parts"),
        ({"own": 6}, "original: expected"),
        ({"edges": 2**31}, "expected at most 2147483647"),
    ],
)
def test_lists(folder: Path, changes: dict[str, Any], said: str) -> None:
    relist(folder, **changes)
    with pytest.raises(PartError, match=said):
        _checked(folder, 0, 2)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "[1]", "3", "null", '"parts"', "[" * 100_000, '{"format": 1}', '{"format": 1, "parts": {}}'),
        *('{"format": 1, "parts": [1, 2]}', '{"format": 1, "parts": [{}, {}], "identity": "a"}'),
    ],
)
def test_lists_of_another_kind(folder: Path, text: str) -> None:
    (folder / "parts.json").write_text(text)
    with pytest.raises(PartError):
        _checked(folder, 0, 2)


def test_another_format_and_lists_that_are_not_text(folder: Path) -> None:
    path = folder / "parts.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with pytest.raises(PartError, match="expected parts of format 1, got 2; write them again"):
        _checked(folder, 0, 2)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PartError, match="not a list of parts"):
        _checked(folder, 0, 2)
    path.unlink()
    path.mkdir()
    with pytest.raises(PartError, match=r"parts\.json: cannot be read"):
        _checked(folder, 0, 2)


def test_links(folder: Path, tmp_path: Path) -> None:
    """Reading follows a link, to whatever has the checksum; writing never writes through one."""
    path, other = folder / "part-0.pt", tmp_path / "elsewhere"
    path.rename(other)
    path.symlink_to(other)
    _checked(folder, 0, 2)
    before = other.read_bytes()
    save_parts(folder, torch.tensor([[0], [1]]), NODES, TWO)
    assert other.read_bytes() == before
    assert not path.is_symlink()
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(PartError, match=r"part-0\.pt: cannot be read"):
        _checked(folder, 0, 2)


def test_parts_in_each_others_place(folder: Path) -> None:
    path, other = folder / "part-0.pt", folder / "part-1.pt"
    path.write_bytes(other.read_bytes())
    with pytest.raises(PartError, match="expected SHA-256"):
        _checked(folder, 0, 2)
    relist(folder)
    with pytest.raises(PartError, match=r"expected part 0 of .*, got part 1"):
        _checked(folder, 0, 2)


def test_parts_that_are_made_wrongly() -> None:
    edges, bounds = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, NODES])
    with pytest.raises(TypeError, match="edge_index: expected integers"):
        PartitionedGraph.from_edge_index(edges.double(), bounds)
    with pytest.raises(ValueError, match=r"edge_index: expected shape \[2, E\]"):
        PartitionedGraph.from_edge_index(edges[0], bounds)
    for wrong in (bounds.int(), bounds[:1], bounds + 1, bounds.flip(0)):
        with pytest.raises(ValueError, match="bounds: expected 2 ascending int64 for 1 ranks, from 0 on"):
            PartitionedGraph.from_edge_index(edges, wrong)
    for halo in ([3], [NODES], [-1]):
        with pytest.raises(ValueError, match="halo_nodes: expected ascending int64 of 0 to 11 without 0 to 11"):
            PartitionedGraph.from_part(edges.int(), torch.tensor(halo), bounds)


def test_what_is_learnt_and_what_is_empty_can_be_saved(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    rows = {"learnt": torch.randn(2, 3, requires_grad=True), "none": torch.zeros(2, 0), "of bits": torch.ones(2) > 0}
    rows["half"] = torch.randn(2, 1).bfloat16()
    save_parts(tmp_path, edges, 2, 1, rows, torch.randn(2, requires_grad=True))
    part = load_part(tmp_path)
    assert not part.nodes["learnt"].requires_grad
    assert all(torch.equal(part.nodes[name], rows[name][part.original]) for name in rows)
    for wrong in ("4", 2.0, None, True):
        with pytest.raises(ValueError, match="parts: expected a whole number"):
            save_parts(tmp_path, edges, 2, wrong)  # type: ignore[arg-type]
