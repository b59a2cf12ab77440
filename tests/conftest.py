"""Fixtures for tests on the real datasets: the read-only mirror of raw files, and a cache of their own."""

import os
from pathlib import Path

import pytest

# Some virtual machines name AMX among the processor's instructions and do not allow it: torch's own products in
# bfloat16 then end the process. Set before torch is loaded, and inherited by the processes that tests start.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
import torch

_DEVICE = os.environ.get("MIMOGC_TEST_DEVICE")  # of `make gpu-test`


def pytest_configure() -> None:
    """Tensors are made on that device, also those of parameters of tests."""
    if _DEVICE is None:
        return
    if _DEVICE.startswith("cuda") and not torch.cuda.is_available():
        raise pytest.UsageError(
            f"MIMOGC_TEST_DEVICE: expected a GPU that torch can use (cuda, for AMD's too), got {_DEVICE!r} "
            f"with torch {torch.__version__} and {torch.cuda.device_count()} GPUs"
        )
    torch.set_default_device(_DEVICE)


def _mirror() -> Path:
    given = os.environ.get("MIMOGC_MIRROR")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"


HERE = Path(__file__).parent
LONG = (
    "ops/test_triton_compiled.py",
    "test_packaging.py",
    "runs/test_interruption.py",
    "explore/test_page.py",
    "studies/test_zinc.py",
    "distributed/test_ranks.py",
    "distributed/test_faults.py",
    "ops/test_without_triton.py",
    "ops/test_safety.py",
    "nn/test_compile.py",
    "nn/test_start.py",
    "test_examples.py",
    "test_site.py",
    "test_methods.py",
    "runs/test_ray.py",
    "runs/test_ranks.py",
    "test_docs.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first: workers take them in this order, and end at about the same time."""
    places = {HERE / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test begins at the same place of torch's random numbers."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder with the real raw files. Without one a test is skipped; with CI=true that is a failure."""
    folder = _mirror()
    if not (folder / "webkb" / "texas" / "raw").is_dir():
        reason = f"no dataset mirror: set MIMOGC_MIRROR to a folder with the raw files (looked at {folder})"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return folder.resolve()


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that all tests of the session fill once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def datasets(mirror: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real datasets, read from the mirror into the session's cache; gives the cache folder."""
    monkeypatch.setenv("MIMOGC_MIRROR", str(mirror))
    monkeypatch.setenv("MIMOGC_DATA", str(shared_cache))
    return shared_cache
