"""Files are found in the right order, verified before use, safe to fetch twice, never written to the mirror."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mimogc.data import DataError, list_datasets, load_molecules, load_nodes, verify
from mimogc.data.sources import cache_root, load_arrays, manifest, mirror_root, save_arrays, sha256

TEXAS = "webkb/texas/raw/out1_node_feature_label.txt"


@pytest.fixture
def copy(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of our own with Texas and ZINC12k only, and an empty cache beside it."""
    folder = tmp_path / "mirror"
    shutil.copytree(mirror / "webkb/texas/raw", folder / "webkb/texas/raw")
    (folder / "ZINC").mkdir()
    shutil.copyfile(mirror / "ZINC/zinc12k.npz", folder / "ZINC/zinc12k.npz")
    monkeypatch.setenv("MIMOGC_MIRROR", str(folder))
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    return folder


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(folder.rglob("*"))
    }


def test_nothing_is_written_into_the_mirror(copy: Path) -> None:
    for path in [*copy.rglob("*"), copy]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(copy)
    try:
        load_nodes("texas")
        load_molecules("zinc12k")
        verify(["texas", "zinc12k"])
        assert listing(copy) == before
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755)


def test_cache_comes_before_the_mirror(copy: Path) -> None:
    assert {row.found for row in verify(["texas"])} == {"mirror"}
    load_nodes("texas")
    assert {row.found for row in verify(["texas"])} == {"cache"}
    shutil.rmtree(copy / "webkb")
    assert load_nodes("texas").num_nodes == 183


def test_no_scratch_is_left_behind(copy: Path) -> None:
    load_nodes("texas")
    assert sorted(path.name for path in cache_root().iterdir()) == ["processed", "webkb"]


@pytest.mark.parametrize("where", ["mirror", "cache"])
def test_altered_file_is_named_and_refused(copy: Path, where: str) -> None:
    if where == "cache":
        load_nodes("texas")
    path = (copy if where == "mirror" else cache_root()) / TEXAS
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0,1", b"1,0", 1))
    with pytest.raises(DataError, match=r"out1_node_feature_label\.txt is altered: SHA-256 .*; (replace|delete)"):
        load_nodes("texas")
    assert [row.state for row in verify(["texas"]) if row.file == TEXAS] == ["altered"]


def test_truncated_file_is_named_and_refused(copy: Path) -> None:
    path = copy / "ZINC/zinc12k.npz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"zinc12k\.npz is truncated: 1000 of \d+ bytes; replace"):
        load_molecules("zinc12k")
    assert not (cache_root() / "ZINC/zinc12k.npz").exists()


def test_a_damaged_derived_file_is_made_again(copy: Path) -> None:
    first = load_nodes("texas")
    (derived,) = (cache_root() / "processed").iterdir()
    derived.write_bytes(derived.read_bytes()[:-100])
    assert load_arrays(derived) is None
    assert load_nodes("texas").x.equal(first.x)
    assert load_arrays(derived) is not None


def test_missing_file_says_which_and_what_to_do(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copy / TEXAS).unlink()

    def unreachable(*args: object, **kwargs: object) -> None:
        raise OSError("Network is unreachable")

    # The one part that is replaced: a test must not depend on whether the machine reaches the internet.
    monkeypatch.setattr("torch_geometric.datasets.webkb.download_url", unreachable)
    with pytest.raises(DataError) as caught:
        load_nodes("texas")
    message = str(caught.value)
    assert TEXAS in message
    assert "Network is unreachable" in message
    assert "MIMOGC_MIRROR" in message
    assert str(cache_root()) in message
    assert [row.state for row in verify(["texas"]) if row.file == TEXAS] == ["missing"]


def test_download_is_checked_too(copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (copy / TEXAS).unlink()

    def wrong(url: str, folder: str) -> None:
        Path(folder, url.rsplit("/", 1)[1]).write_text("not the file")

    monkeypatch.setattr("torch_geometric.datasets.webkb.download_url", wrong)
    with pytest.raises(DataError, match=r"out1_node_feature_label\.txt is truncated"):
        load_nodes("texas")
    assert not (cache_root() / TEXAS).exists()


def test_unknown_hash_is_computed_and_printed(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = "heterophilous/tolokers/raw/tolokers.npz"
    assert manifest()[file] is None
    folder = tmp_path / "mirror"
    (folder / file).parent.mkdir(parents=True)
    shutil.copyfile(mirror / "heterophilous/minesweeper/raw/minesweeper.npz", folder / file)
    monkeypatch.setenv("MIMOGC_MIRROR", str(folder))
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    (row,) = verify(["tolokers"])
    assert (row.state, row.expected, row.sha256) == ("unknown hash", None, sha256(folder / file))
    load_nodes("tolokers")
    output = capsys.readouterr()
    assert sha256(folder / file) in output.err
    assert output.out == ""


def test_manifest_names_exactly_the_files_of_the_mirror(mirror: Path) -> None:
    known = {file for file, entry in manifest().items() if entry}
    ignored = (".md", ".py", ".gz")
    found = {
        path.relative_to(mirror).as_posix()
        for path in mirror.rglob("*")
        if path.is_file() and not path.name.endswith(ignored)
    }
    assert known == found
    assert all(manifest().keys() >= set(entry.files) for entry in list_datasets())


def test_cache_inside_the_mirror_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMOGC_MIRROR", str(tmp_path))
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    with pytest.raises(DataError, match="never written to"):
        load_nodes("texas")
    assert not (tmp_path / "cache").exists()


def test_mirror_that_is_no_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMOGC_MIRROR", str(tmp_path / "absent"))
    with pytest.raises(DataError, match=r"MIMOGC_MIRROR: expected a folder .* got '.*absent'"):
        mirror_root()


def test_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIMOGC_DATA", raising=False)
    assert cache_root().name == "mimogc"
    assert cache_root().is_absolute()


def test_two_processes_fill_the_cache_at_once(copy: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        "import os, sys, time\n"
        "from mimogc.data import laplacian_encoding, load_molecules, load_nodes\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.001)\n"
        "data, molecules = load_nodes('texas'), load_molecules('zinc12k')\n"
        "print(int(data.x.sum()), len(molecules), float(laplacian_encoding(molecules).molecule.sum()))\n"
    )
    command = [sys.executable, "-c", script, str(go)]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    go.touch()
    results = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], results
    assert results[0][0] == results[1][0] != ""
    assert {row.state for row in verify(["texas", "zinc12k"])} == {"ok"}
    assert not [path for path in cache_root().iterdir() if path.name.startswith("tmp-")]


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    script = (
        "import pathlib, sys, numpy\n"
        "from mimogc.data.sources import save_arrays\n"
        "for i in range(30): save_arrays(pathlib.Path(sys.argv[1]), {'a': numpy.full(10**6, i)})\n"
    )
    path = tmp_path / "processed" / "a.npz"
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], env=os.environ)
    reads = 0
    while writer.poll() is None:
        if path.exists():
            arrays = load_arrays(path)
            assert arrays is not None
            assert arrays["a"].min() == arrays["a"].max()
            reads += 1
    assert writer.returncode == 0
    assert reads > 5


def test_arrays_keep_no_python_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    with pytest.raises(ValueError, match="Object arrays"):
        save_arrays(tmp_path / "a.npz", {"a": np.array([{}], dtype=object)})
    np.savez(tmp_path / "b.npz", a=np.array([{}], dtype=object))
    assert load_arrays(tmp_path / "b.npz") is None
