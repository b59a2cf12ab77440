"""Where raw files come from: cache, read-only mirror or download; each is checked by SHA-256 first."""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
State = Literal["ok", "altered", "unknown hash", "missing"]
Download = Callable[[Path], None]  # puts the files of one dataset below the given folder


class DataError(RuntimeError):
    """A dataset file is missing, truncated or altered; the message says which one and what to do."""


@dataclass(frozen=True)
class FileStatus:
    """One raw file of a dataset: where it was found, and whether it is the file the manifest names."""

    dataset: str
    file: str  #: relative to the cache or the mirror, with forward slashes
    found: Literal["cache", "mirror", "missing"]
    path: str | None
    state: State
    bytes: int | None
    sha256: str | None  #: of the file that was found
    expected: str | None  #: of the manifest; None where no copy has been verified yet


@dataclass(frozen=True)
class Known:
    """What the manifest says about a file."""

    sha256: str
    bytes: int


def cache_root() -> Path:
    """The writable folder: `MIMOGC_DATA`, by default `mimogc` in the user's cache folder."""
    given = os.environ.get("MIMOGC_DATA")
    if given:
        return Path(given).expanduser().resolve()
    homes = {"win32": os.environ.get("LOCALAPPDATA", "~/AppData/Local"), "darwin": "~/Library/Caches"}
    base = homes.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(base).expanduser() / "mimogc").resolve()


def mirror_root() -> Path | None:
    """The read-only folder `MIMOGC_MIRROR`, if one is named."""
    given = os.environ.get("MIMOGC_MIRROR")
    if not given:
        return None
    mirror = Path(given).expanduser().resolve()
    if not mirror.is_dir():
        raise DataError(f"MIMOGC_MIRROR: expected a folder with raw files, got {given!r}, which is no folder")
    if cache_root().is_relative_to(mirror):
        raise DataError(f"MIMOGC_DATA: the cache {cache_root()} lies in the mirror {mirror}, which is never written to")
    return mirror


@cache
def manifest() -> dict[str, Known | None]:
    """What is known of every raw file, by its path below the mirror; None where no copy was verified yet."""
    entries = json.loads(Path(__file__).with_name("manifest.json").read_text())
    return {file: Known(**known) if known else None for file, known in entries.items()}


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def status(dataset: str, files: Sequence[str]) -> list[FileStatus]:
    """Where each file is now and whether it is the right one. Copies and downloads nothing."""
    return [_status(dataset, file) for file in files]


def _status(dataset: str, file: str) -> FileStatus:
    known = manifest().get(file)
    expected = known.sha256 if known else None
    roots: list[tuple[Literal["cache", "mirror"], Path | None]] = [("cache", cache_root()), ("mirror", mirror_root())]
    for found, root in roots:
        if root is not None and (path := root / file).is_file():
            digest = sha256(path)
            state: State = "unknown hash" if known is None else "ok" if digest == expected else "altered"
            return FileStatus(dataset, file, found, str(path), state, path.stat().st_size, digest, expected)
    return FileStatus(dataset, file, "missing", None, "missing", None, None, expected)


def fetch(dataset: str, files: Sequence[str], download: Download) -> str:
    """Bring every file into the cache, verified; return one digest of them all."""
    root, mirror = cache_root(), mirror_root()
    digests: dict[str, str] = {}
    missing: list[str] = []
    for file in files:
        if (root / file).is_file():
            digests[file] = _checked(root / file, file, f"delete {root / file}; it is then fetched again")
        elif mirror is not None and (mirror / file).is_file():
            with scratch_folder() as folder:
                copy = folder / "copy"
                shutil.copyfile(mirror / file, copy)
                digests[file] = _checked(copy, file, f"replace {mirror / file} by the original", mirror / file)
                _publish(copy, root / file)
        else:
            missing.append(file)
    if missing:
        with scratch_folder() as folder:
            _download(dataset, missing, download, folder)
            for file in missing:
                digests[file] = _checked(folder / file, file, remedy="download it again, or use a mirror")
            for file in missing:
                _publish(folder / file, root / file)
    return hashlib.sha256("".join(digests[file] for file in files).encode()).hexdigest()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of this process alone, on the cache's file system, so that a rename out of it is atomic."""
    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=root))
    except OSError as error:
        why = f"MIMOGC_DATA: cannot write to the cache {root} ({error.strerror}); name a writable folder"
        raise DataError(why) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an npz so that other processes see either nothing or all of it."""
    with scratch_folder() as folder:
        with (folder / "arrays.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        _publish(folder / "arrays.npz", path)


def load_arrays(path: Path) -> dict[str, Array] | None:
    """The arrays of an npz that this package derived, or None where it has to be derived (again).

    The zip container's own checksums catch truncation and altered bytes; nothing is ever unpickled.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError):
        return None


def derived(name: str, compute: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """The arrays that the cache keeps by this name, or else computes now and keeps."""
    path = cache_root() / "processed" / f"{name}.npz"
    arrays = load_arrays(path)
    if arrays is None:
        arrays = compute()
        save_arrays(path, arrays)
    return arrays


_shown: set[str] = set()


def announce(file: str, digest: str) -> None:
    """Print the hash of a file whose hash is not known, once per process."""
    if digest not in _shown:
        _shown.add(digest)
        print(f"{file}: no SHA-256 is known for this file, found {digest}", file=sys.stderr)


def _checked(path: Path, file: str, remedy: str, shown: Path | None = None) -> str:
    """The SHA-256 of `path`, which must be the manifest's for `file`."""
    if not path.is_file():
        raise DataError(f"{file}: the file is missing after the download; {remedy}")
    digest, known = sha256(path), manifest().get(file)
    if known is None:
        announce(file, digest)
    elif digest != known.sha256:
        size, how = path.stat().st_size, f"altered: SHA-256 {digest}, expected {known.sha256}"
        if size < known.bytes:
            how = f"truncated: {size} of {known.bytes} bytes"
        raise DataError(f"{shown or path} is {how}; {remedy}")
    return digest


def _publish(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


def _download(dataset: str, missing: Sequence[str], download: Download, folder: Path) -> None:
    try:
        download(folder)
    except Exception as error:
        named = os.environ.get("MIMOGC_MIRROR")
        mirror = f" nor in the mirror {named}" if named else "; no mirror is named"
        files = f"{missing[0]} and {len(missing) - 1} more files are" if len(missing) > 1 else f"{missing[0]} is"
        raise DataError(
            f"{dataset}: {files} neither in the cache {cache_root()} (MIMOGC_DATA){mirror} (MIMOGC_MIRROR), and the "
            f"download failed: {type(error).__name__}: {error}. Connect to the internet once, or set MIMOGC_MIRROR to "
            "a folder that holds these files."
        ) from error
