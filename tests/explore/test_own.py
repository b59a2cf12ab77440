"""A graph of one's own is read from text or npz, and refused with a sentence that says why."""

import io

import numpy as np
import pytest

from mimogc.explore import cards, own
from mimogc.explore.choices import Choice, given_graph


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def one_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"0 1\n1,2\n# nothing\n\n2\t0 # closes it\n2 2\n1 0\n"),
        ("a.csv", "\ufeff# mine\nfrom,to\n0,1\n1,2\n2,0\n".encode()),
        ("a.csv", "\ufeff0,1\n1,2\n2,0\n".encode()),
        ("a.npz", npz(edges=np.array([[0, 1], [1, 2], [2, 0], [2, 2]]))),
        ("a.npz", npz(edge_index=np.array([[0, 1, 2], [1, 2, 0]]))),
        ("A.NPZ", npz(edge_index=np.array([[0, 1, 2], [1, 2, 0]]))),
    ],
)
def test_a_triangle(name: str, content: bytes) -> None:
    graph = given_graph(Choice(own.remember(name, content), method="gcn"))
    assert (graph.num_nodes, graph.num_edges, graph.is_undirected) == (3, 6, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"0 1\n1 x\n", "a.txt, line 2: expected two node numbers, got '1 x'"),
        ("a.txt", b"0 -1\n", "line 1: expected two node numbers"),
        ("a.txt", b"a b\nb c\n", "line 2: expected two node numbers, got 'b c'"),
        ("a.csv", b"from,to,weight\n0,1,0.5\n", "line 2: expected two node numbers, got '0,1,0.5'; a third column"),
        ("a.txt", b"", "expected 1 to 3,000 edges, got 0"),
        ("a.txt", b"0 300\n", "expected nodes 0 to 299 at most, got 0 to 300"),
        ("a.txt", b"0 1\n" * 3_001, "expected 1 to 3,000 edges, got 3,001"),
        ("a.txt", b"#" * 1_000_001, "expected at most 1,000,000 bytes, got 1,000,001"),
        ("a.npz", b"PK nonsense", "a.npz: not a readable npz file; it may be damaged"),
        ("a.npz", b"nonsense", "a.npz: not a readable npz file; it may be damaged"),
        ("a.npz", one_array(), "expected np.savez with edges [E, 2] or edge_index [2, E], got one array (np.save)"),
        ("a.npz", npz(edges=np.eye(2)), "expected whole numbers edges"),
        ("a.npz", npz(links=np.eye(2)), "expected whole numbers edges"),
        ("a.npz", npz(edges=np.array([[0, -1]])), "got -1 to 0"),
    ],
)
def test_what_is_wrong_is_said(name: str, content: bytes, message: str) -> None:
    with pytest.raises(own.FileError) as error:
        own.remember(name, content)
    assert message in str(error.value)


def test_an_unknown_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="graph: expected one of random"):
        Choice("own:nothing")


def test_the_edges_of_a_dataset_are_explained(datasets: object) -> None:
    text = cards.spectrum(Choice("texas"), 0.0).html
    assert "<code>mimogc data list</code> says 325: it counts entries" in text
    assert '<dd id="edges">279</dd>' in text
