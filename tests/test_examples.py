"""Every example runs as a reader would run it, prints what it promises, and explains itself."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from example_process import run_example

FOLDER = Path(__file__).resolve().parents[1] / "examples"
EXAMPLES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
TESTED = {
    "custom_coefficients",
    "explain",
    "graph_regression",
    "graphgym_lmgconv",
    "heterogeneous",
    "node_classification",
    "partitioned",
    "story",
}
NEEDS = {"graphgym_lmgconv": ("yacs", "pytorch_lightning"), "story": ("marimo",)}


def output(name: str, folder: Path, *arguments: str) -> str:
    """What an example prints, run on its own in an empty folder."""
    for package in NEEDS.get(name, ()):
        if find_spec(package) is None:
            pytest.skip(f"{name} needs {package}")
    code, out, error = run_example(EXAMPLES[name], list(arguments), folder)
    assert code == 0, error
    return out


def numbers(pattern: str, text: str) -> list[float]:
    found = [float(value) for value in re.findall(pattern, text)]
    assert found, text
    return found


def test_every_example_is_tested() -> None:
    assert set(EXAMPLES) == TESTED


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_says_what_it_shows(name: str, tmp_path: Path) -> None:
    path = EXAMPLES[name]
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring is not None
    assert f"python examples/{path.name}" in docstring
    assert f"usage: {path.name}" in output(name, tmp_path, "--help")


def test_a_new_coefficient_trains_in_under_thirty_lines(tmp_path: Path) -> None:
    assert sum(bool(line) for line in EXAMPLES["custom_coefficients"].read_text().splitlines()) < 30
    losses = numbers(r"loss (\S+)", output("custom_coefficients", tmp_path))
    assert losses[0] < 3  # the targets have variance 1
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_site_shows_what_it_prints(name: str) -> None:
    """The stored output has the words of the example; the numbers are those of one machine."""
    shown = (FOLDER.parent / "docs" / "outputs" / f"{name}.txt").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z]{4,}", EXAMPLES[name].read_text(encoding="utf-8")))
    said = re.findall(r"[a-z]{4,}", shown)
    assert said
    assert sum(word in words for word in said) > 0.7 * len(said)


def test_node_classification(datasets: Path, tmp_path: Path) -> None:
    """Both layers do better than always answering the most frequent class, which 55 % of the nodes have."""
    text = output("node_classification", tmp_path, "--splits", "2")
    assert "texas: 183 nodes, 325 edges, 5 classes" in text
    accuracy = dict(re.findall(r"^(\w+Conv) +test accuracy (\S+) %", text, re.MULTILINE))
    assert list(accuracy) == ["LMGConv", "GATv2Conv"]
    assert all(60 < float(value) < 100 for value in accuracy.values())


def test_a_graph_in_one_part_trains(tmp_path: Path) -> None:
    """With more ranks: tests/distributed/test_faults.py."""
    text = output("partitioned", tmp_path, "--epochs", "40")
    losses = numbers(r"loss (\S+)", text)
    assert losses[-1] < 0.5 * losses[0]
    assert "bytes exchanged 0, predicted 0" in text


def test_graph_regression_on_zinc(datasets: Path, tmp_path: Path) -> None:
    text = output("graph_regression", tmp_path, "--molecules", "300", "--epochs", "3")
    constant, *errors = numbers(r"validation error (\S+)", text)
    assert text.startswith("300 molecules")
    assert len(errors) == 3
    assert errors[-1] < 0.8 * constant


def test_graph_regression_on_generated_molecules(tmp_path: Path) -> None:
    constant, *errors = numbers(r"validation error (\S+)", output("graph_regression", tmp_path, "--synthetic"))
    assert errors[-1] < 0.4 * constant


@pytest.mark.parametrize("name", ["node_classification", "graph_regression"])
def test_missing_data_is_an_error_and_nothing_else_is_trained(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    code, out, error = run_example(EXAMPLES[name], [], tmp_path)
    assert code == 1
    assert re.search(r"^error: .*neither in the cache .*MIMOGC_MIRROR", error, re.MULTILINE), error
    assert out == ""


def test_heterogeneous(tmp_path: Path) -> None:
    (accuracy,) = numbers(r"test accuracy (\S+)", output("heterogeneous", tmp_path))
    assert accuracy > 0.75


def test_explainer_finds_the_planted_edges(tmp_path: Path) -> None:
    text = output("explain", tmp_path, "--explain", "3")
    assert numbers(r"classifies (\d+) %", text)[0] > 95
    ((found, planted),) = re.findall(r"planted edges found: (\d+) of (\d+)", text)
    assert planted == "6"
    assert int(found) >= 5


def test_graphgym(tmp_path: Path) -> None:
    text = output("graphgym_lmgconv", tmp_path, "optim.max_epoch", "20")
    assert "2 layers lmgconv" in text
    assert numbers(r"test  accuracy (\S+)", text)[0] > 0.8


def test_story(tmp_path: Path) -> None:
    text = output("story", tmp_path)
    assert re.findall(r"operator rank (\d+)", text) == ["1", "4", "16"]
    rank = dict(re.findall(r"^(\w+): effective rank .*, (\S+) after", text, re.MULTILINE))
    assert rank["GCN"] == "1.00"
    assert float(rank["LMGC"]) > 1.5
    measured, predicted = numbers(r"(-\d\.\d+)", text)
    assert measured == pytest.approx(predicted, abs=0.01)


def test_the_notebook_runs_and_is_stored_with_what_it_prints(tmp_path: Path) -> None:
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    stored = nbformat.read(FOLDER / "story.ipynb", as_version=4)
    nbformat.validate(stored)
    again = nbformat.read(FOLDER / "story.ipynb", as_version=4)
    nbclient.NotebookClient(again, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    def printed(notebook: Any) -> list[str]:
        found = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        return [line for output in found if output.get("name") == "stdout" for line in output["text"].splitlines()]

    ranks = [line.partition(", coupling")[0] for line in printed(again)[:3]]
    assert ranks == ["GCN: operator rank 1", "LMGC, K = 4: operator rank 4", "MIMO-GC: operator rank 16"]
    assert [line.partition(", coupling")[0] for line in printed(stored)[:3]] == ranks
    pictures = [output for cell in stored.cells for output in cell.get("outputs", []) if "data" in output]
    assert sum("image/png" in output["data"] for output in pictures) == 4
