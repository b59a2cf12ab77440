"""A release works elsewhere: the sdist builds, wheel and sdist install into a fresh environment and run there."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import mimogc

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = {".ci", ".github", "benchmarks", "docs", "examples", "results", "tests"}
USE = """
import importlib.metadata, sys, warnings, torch
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
where = mimogc.__file__.startswith(sys.prefix)
print(where, importlib.metadata.version("mimogc"), mimogc.ops.backend(), len(said),
      f"{float(layer(x, edge_index).sum()):.3f}")
"""


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a command prints, which must succeed; it does not see this checkout."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=own)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with results beside them, and without environments and caches, which take long to walk."""
    folder = tmp_path_factory.mktemp("checkout") / "mimogc"
    skipped = shutil.ignore_patterns(".venv", ".git", ".*_cache", ".hypothesis", "__pycache__", "build", "results")
    shutil.copytree(ROOT, folder, ignore=skipped)
    (folder / "results").mkdir()
    (folder / "results" / "runs.db").write_text("not for the release")
    return folder


@pytest.fixture(scope="module")
def sdist(checkout: Path) -> Path:
    """What `python -m build --sdist` makes."""
    code = "from scikit_build_core.build import build_sdist; build_sdist('dist')"
    run(sys.executable, "-c", code, cwd=checkout)
    (path,) = (checkout / "dist").glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel of the sdist, as `python -m build` makes it."""
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    # Without optimisation, which takes most of the time and changes nothing that is looked at.
    run(sys.executable, "-m", "pip", "wheel", *options, "-Ccmake.build-type=None", sdist, cwd=sdist.parent)
    (path,) = sdist.parent.glob("*.whl")
    return path


def install(package: Path, folder: Path, **environment: str) -> Path:
    """A fresh environment with the package installed; the rest, torch above all, is seen there from this one."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Its .pth files are not read from there, so that the editable installation of this checkout is not seen.
    (packages / "rest.pth").write_text(sysconfig.get_path("purelib") + "\n")
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    command = [folder / "bin" / "python", "-m", "pip", "install", *options, "--ignore-installed", package]
    run(*command, cwd=folder, **environment)
    return folder


def use(environment: Path) -> tuple[str, str, str]:
    """Backend, number of warnings about it, and the sum of a layer's output, in that environment."""
    where, version, *found = run(environment / "bin" / "python", "-c", USE, cwd=environment).split()
    assert (where, version) == ("True", mimogc.__version__)
    assert "reproduce" in run(environment / "bin" / "mimogc", "--help", cwd=environment)
    backend, warnings, value = found
    return backend, warnings, value


def package_files(root: Path) -> set[str]:
    """Files of the package below src/, as the sdist should have them."""
    files = (path for path in (root / "src" / "mimogc").rglob("*") if path.is_file())
    return {str(path.relative_to(root / "src")) for path in files if "__pycache__" not in path.parts}


def test_sdist_holds_the_package_and_what_builds_it(checkout: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    expected = {f"src/{file}" for file in package_files(checkout) if not file.endswith(".so")}
    assert expected <= names
    assert {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff"} <= names
    assert not {name.split("/")[0] for name in names} & LEFT_OUT


@pytest.mark.kernels
def test_wheel_holds_the_kernels_and_no_sources(checkout: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert any("libmimogc_" in name for name in names)
    assert {file for file in package_files(checkout) if "csrc" not in file} <= names
    sources = [name for name in names if name.endswith((".cpp", ".h"))]
    assert sources == ["mimogc/ops/csrc/mimogc.h"]  # which Python reads
    assert "-py3-none-" in wheel.name  # one wheel for every Python


@pytest.mark.kernels
def test_both_install_and_without_a_compiler_it_says_so_once(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    compiled = use(install(wheel, tmp_path / "from_wheel"))
    assert compiled[:2] == ("native", "0")
    nothing = {"CXX": "/nonexistent/compiler", "CMAKE_ARGS": "-DCMAKE_CXX_COMPILER=NOTFOUND"}
    plain = use(install(sdist, tmp_path / "from_sdist", **nothing))
    assert plain[:2] == ("reference", "1")
    assert plain[2] == compiled[2]


def test_version_is_one() -> None:
    assert f'version = "{mimogc.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"[{mimogc.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == mimogc.__version__


def test_citation_names_the_paper_and_the_software() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)  # what the format asks for
    paper = citation["preferred-citation"]
    assert paper["type"] == "conference-paper"
    assert [author["family-names"] for author in paper["authors"]] == ["Roth", "Liebig"]
    assert citation["license"] == "MIT"


def workflow(name: str) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    return loaded


@pytest.mark.parametrize("name", ["tests", "docs", "publish"])
def test_workflows_are_whole(name: str) -> None:
    """Jobs need jobs that are there, steps do one thing, and what they `make` is in the Makefile."""
    loaded = workflow(name)
    assert loaded["name"] == name
    assert True in loaded  # YAML 1.1 reads the key `on` so
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in loaded["jobs"].values():
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= set(loaded["jobs"])
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert set(re.findall(r"^make (\w+)", step.get("run", ""))) <= targets


def test_workflows_do_what_their_names_say() -> None:
    def commands(name: str) -> list[str]:
        return [step["run"] for job in workflow(name)["jobs"].values() for step in job["steps"] if "run" in step]

    assert commands("tests") == ["make test"]
    assert commands("docs") == ["make docs"]
    assert "python -m build --sdist" in commands("publish")
    publish = workflow("publish")["jobs"]["publish"]
    assert set(publish["needs"]) == {"sdist", "wheels"}
    assert publish["permissions"] == {"id-token": "write"}
