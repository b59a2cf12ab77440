"""The benchmark of large graphs, on a tiny one: every line is there, and memory is measured rightly."""

from pathlib import Path

import pytest
import torch

from mimogc.bench import large

needs_proc = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux")


def test_the_graph_has_the_size_and_the_hub_asked_for() -> None:
    edges = large.random_graph(2000, 40_001, 900)
    assert torch.equal(edges, large.random_graph(2000, 40_001, 900))
    assert edges.shape == (2, 40_001)
    assert torch.equal(edges[:, :20_000].flip(0), edges[:, 20_000:40_000])
    assert int(edges.min()) >= 0
    assert int(edges.max()) < 2000
    assert 700 < int(torch.bincount(edges[1]).max()) < 1100


def test_every_line_is_said() -> None:
    lines: list[str] = []
    document = large.run(lines.append, nodes=2000, edges=40_000, hub=400)
    text = "\n".join(lines)
    for name in (
        "sorted with self-loops",
        "one gather",
        *large.OURS,
        *large.PYG,
        "reordered",
        "lmgc, recomputed",
        "gin",
    ):
        assert name in text
    assert set(document["layers"]) == {*large.OURS, *large.PYG}
    assert set(document["steps"]) == {"lmgc", "lmgc, recomputed", "gcn", "gin"}
    for row in (*document["layers"].values(), document["reordered"]):
        assert min(row["both"], row["forward"]) > 0
    if Path("/proc/self/clear_refs").exists():
        assert all(step["peak_gb"] > 0 for step in document["steps"].values())


@needs_proc
def test_memory_that_was_used_before_counts_again() -> None:
    def run() -> None:
        blocks = [torch.ones(2**18) for _ in range(60)]  # 1 MB each, which the allocator keeps for reuse
        del blocks[::2], blocks

    peaks = [large.measured(run)[1].peak_gb for _ in range(3)]
    assert all(peak is not None and 0.055 < peak < 0.12 for peak in peaks), peaks


def test_a_layer_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """GATv2Conv needed six times its largest array."""
    need = 4 * large.HEADS * 4000 * large.CHANNELS / 1e9
    for room, fits in ((7.9 * need, False), (8.1 * need, True)):
        lines: list[str] = []
        monkeypatch.setattr(large, "_available", lambda room=room: room)
        document = large.run(lines.append, nodes=200, edges=4000, hub=40)
        assert ("both" in document["layers"]["GATv2Conv"]) == fits
        assert any("GATv2Conv" in line and "needs more than" in line for line in lines) != fits


def test_graphs_that_cannot_be_made_are_refused() -> None:
    for sizes in ((0, 10, 1), (10, -1, 1), (10, 10, -1)):
        with pytest.raises(ValueError, match="nodes, edges, hub: expected at least 1, 0 and 0, got"):
            large.random_graph(*sizes)
    for sizes in ((1, 7, 3), (5, 0, 9), (3, 1, 0), (4, 9, 100)):  # these can
        made = large.random_graph(*sizes)
        assert made.shape == (2, sizes[1])
        assert not made.numel() or 0 <= int(made.min()) <= int(made.max()) < sizes[0]
