"""A graph of one's own for the page: read from a small file, checked, and remembered by its content."""

import hashlib
import io
import zipfile
import zlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mimogc.graph import Graph

PREFIX = "own:"  # of the names of such graphs
MAX_BYTES, MAX_NODES, MAX_EDGES = 1_000_000, 300, 3_000  # another method: 0.5 s of CPU; first drawing: 1 to 3 s
_graphs: "dict[str, Graph]" = {}


class FileError(ValueError):
    """What is wrong with a file, in a sentence for the page."""


def remember(name: str, content: bytes) -> str:
    """Read a graph and return what a choice calls it.

    Args:
        name: of the file; ``.npz`` holds ``edges`` [E, 2] or ``edge_index`` [2, E], any other is text with two node
            numbers in a line, separated by a space or a comma, and comments after #; a first line of words is a header.
        content: of the file.
    """
    import torch

    from mimogc.graph import Graph

    if len(content) > MAX_BYTES:
        raise FileError(f"{name}: expected at most {MAX_BYTES:,} bytes, got {len(content):,}")
    edges = _from_npz(name, content) if name.lower().endswith(".npz") else _from_text(name, content)
    if not len(edges) or len(edges) > MAX_EDGES:
        raise FileError(f"{name}: expected 1 to {MAX_EDGES:,} edges, got {len(edges):,}")
    low, nodes = int(edges.min()), int(edges.max()) + 1
    if low < 0 or nodes > MAX_NODES:
        raise FileError(f"{name}: expected nodes 0 to {MAX_NODES - 1} at most, got {low} to {nodes - 1}")
    key = PREFIX + hashlib.sha256(edges.tobytes()).hexdigest()[:12]
    index = torch.from_numpy(edges.T.copy())
    _graphs[key] = Graph.from_edge_index(index[:, index[0] != index[1]], nodes).to_undirected()
    return key


def graph_of(key: str) -> "Graph":
    """The graph that was remembered: undirected, without self-loops."""
    return _graphs[key]


def is_known(key: str) -> bool:
    return key in _graphs


def _from_npz(name: str, content: bytes) -> NDArray[np.int64]:
    try:
        file = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise FileError(
                f"{name}: expected np.savez with edges [E, 2] or edge_index [2, E], got one array (np.save)"
            )
        with file:
            arrays = {key: file[key] for key in ("edges", "edge_index") if key in file.files}
    except FileError:
        raise
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError, zlib.error) as error:
        raise FileError(f"{name}: not a readable npz file; it may be damaged, or of another kind") from error
    found = arrays.get("edges", arrays["edge_index"].T if "edge_index" in arrays else None)
    if found is None or found.ndim != 2 or found.shape[1] != 2 or not np.issubdtype(found.dtype, np.integer):
        raise FileError(f"{name}: expected whole numbers edges [E, 2] or edge_index [2, E]")
    return np.ascontiguousarray(found, dtype=np.int64)


def _from_text(name: str, content: bytes) -> NDArray[np.int64]:
    edges: list[list[int]] = []
    header = True  # whether this line may still be one
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if header and not any(map(_is_number, words)):
            header = False
            continue
        header = False
        if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
            more = "; a third column, such as weights, is not read: leave it out" if len(words) == 3 else ""
            raise FileError(f"{name}, line {number}: expected two node numbers, got {line.strip()[:40]!r}{more}")
        edges.append([int(word) for word in words])
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
