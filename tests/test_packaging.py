"""The built wheel works elsewhere: with kernels where there was a compiler, and without one in plain torch."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mimogc

ROOT = Path(__file__).resolve().parents[1]
USE = """
import warnings, torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import mimogc.ops
    from mimogc.nn import LMGConv
    torch.manual_seed(0)
    x, edge_index = torch.randn(50, 8), torch.randint(0, 50, (2, 300))
    layer = LMGConv(8, 16)
    for _ in range(2):
        layer(x, edge_index).sum().backward()
said = [str(warning.message) for warning in caught if "compiled kernels" in str(warning.message)]
print(mimogc.__path__[0], mimogc.ops.backend(), len(said), f"{float(layer(x, edge_index).sum()):.3f}")
"""


def _wheel(folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
               "--disable-pip-version-check", f"--config-settings=build-dir={folder / 'build'}",
               "--wheel-dir", str(folder), str(ROOT)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def _use(wheel: Path, folder: Path) -> list[str]:
    """Unpacked on its own, with the other packages of this environment but not this checkout."""
    place = folder / "site"
    zipfile.ZipFile(wheel).extractall(place)
    # -S leaves out the .pth file of the editable installation; the packages are added by hand.
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    code = f"import sys; sys.path[:0] = [{str(place)!r}, {packages!r}]\n" + USE
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    where, *found = done.stdout.split()
    assert where == str(place / "mimogc")
    return found


@pytest.fixture(scope="module")
def with_compiler(tmp_path_factory):
    folder = tmp_path_factory.mktemp("with")
    return _wheel(folder), folder


@pytest.mark.kernels
def test_wheel_holds_the_kernels_and_no_sources(with_compiler):
    wheel, folder = with_compiler
    names = zipfile.ZipFile(wheel).namelist()
    assert any("libmimogc_" in name for name in names)
    assert "mimogc/py.typed" in names
    assert not [name for name in names if name.endswith((".cpp", ".h"))]
    assert "-py3-none-" in wheel.name  # one wheel for every Python
    backend, warnings, _ = _use(wheel, folder)
    assert (backend, warnings) == ("native", "0")


@pytest.mark.kernels
def test_without_a_compiler_the_install_succeeds_and_says_so_once(with_compiler, tmp_path):
    wheel = _wheel(tmp_path, CXX="/nonexistent/compiler", CMAKE_ARGS="-DCMAKE_CXX_COMPILER=NOTFOUND")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "libmimogc_" in name]
    backend, warnings, value = _use(wheel, tmp_path)
    assert (backend, warnings) == ("reference", "1")
    assert value == _use(*with_compiler)[2]


def test_version_is_one():
    assert f'version = "{mimogc.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"[{mimogc.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
