"""The documentation is true: its Python runs page by page, its commands are known, its links lead somewhere."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import mimogc
from mimogc import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(page):
    return str(page.relative_to(ROOT))


def text(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if SNIPPET.search(text(page))], ids=name)
def test_snippets_run(page):
    namespace = {"__name__": "__main__"}
    for snippet in SNIPPET.finditer(text(page)):
        # Blank lines in front, so that a traceback names the line of the page.
        blank = "\n" * text(page)[: snippet.start(1)].count("\n")
        exec(compile(blank + snippet.group(1), name(page), "exec"), namespace)


def test_no_snippet_is_missed():
    """Python in a form that the test above does not see would never be run."""
    for page in PAGES:
        fences = re.findall(r"^[ \t]*(?:`{3,}|~{3,}|:{3,})[ \t]*(.*py.*)$", text(page), re.MULTILINE | re.IGNORECASE)
        assert fences == ["python"] * len(SNIPPET.findall(text(page))), name(page)
    assert sum(len(SNIPPET.findall(text(page))) for page in PAGES) > 60


def commands():
    """The arguments of every ``mimogc ...`` in a block of commands, also of one that torchrun starts."""
    command = re.compile(r"^    .*?\bmimogc ((?:reproduce|report|methods|data|bench|explore|export)\b.*)", re.MULTILINE)
    for page in PAGES:
        for line in command.findall(text(page)):
            arguments = shlex.split(line, comments=True)
            yield pytest.param(arguments, id=f"{page.stem}: {' '.join(arguments)}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder as the pages assume it: with a study, methods and a graph of one's own."""
    monkeypatch.chdir(tmp_path)
    snippets = SNIPPET.findall(text(ROOT / "docs/reproducing.md"))
    Path("my_methods.py").write_text(next(snippet for snippet in snippets if "WIDE =" in snippet))
    Path("my_study.py").write_text(next(snippet for snippet in snippets if "STUDY =" in snippet))
    masks = {f"{part}_masks": np.eye(3, dtype=bool)[[row]] for row, part in enumerate(("train", "val", "test"))}
    edges = np.array([[0, 1], [1, 2]])
    np.savez("mine.npz", node_features=np.eye(3), node_labels=np.arange(3), edges=edges, **masks)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", commands())
def test_commands_are_known(arguments, capsys):
    """Studies say what they would compute; of other commands the help has to know every option."""
    if arguments[0] == "reproduce":
        if "--store" in arguments:
            arguments[arguments.index("--store") + 1] = "runs.db"
        assert cli.run([*arguments, "--dry-run"]) == 0, capsys.readouterr().err
        return
    words = [word for word in arguments if not word.startswith("-")]
    assert cli.run([*words[: 2 if words[0] == "data" else 1], "--help"]) == 0, capsys.readouterr().err
    known = capsys.readouterr().out
    assert all(word in known for word in arguments if word.startswith("-"))


@pytest.mark.usefixtures("folder")
def test_a_study_of_ones_own_runs_as_a_command(capsys):
    assert cli.run(["reproduce", "my_study:STUDY", "--store", "runs.db", "--steps", "5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["done"] == 16


def test_the_readme_keeps_what_it_promises(capsys):
    """Its first snippet, ten lines after the imports, trains and beats GATv2Conv; numbers have their places."""
    page = text(ROOT / "README.md")
    snippet = SNIPPET.search(page)
    lines = [line for line in snippet.group(1).splitlines() if line]
    assert sum(not line.startswith(("import ", "from ")) for line in lines) == 10
    said = dict(re.findall(r"(\w+Conv) (?:about )?(\d\.\d+)", page[snippet.end() :]))
    for _ in range(2):  # the same numbers each time, whatever else has drawn random ones
        np.random.rand()
        torch.rand(1)
        capsys.readouterr()
        exec(snippet.group(1), {})
        accuracy = dict(line.split() for line in capsys.readouterr().out.splitlines())
        assert float(accuracy["LMGConv"]) > 0.95 > float(accuracy["GATv2Conv"]) + 0.1
        assert {name: f"{float(value):.{len(said[name]) - 2}f}" for name, value in accuracy.items()} == said
    assert len(page.split()) < 900
    assert page.count("<!-- results: ") == 3
    assert page.count("<!-- end -->") == 4


def test_the_version_to_cite_is_this_one():
    assert re.findall(r"version = \{(.*)\}", text(ROOT / "docs/citing.md")) == [mimogc.__version__]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text(page)):
        assert (page.parent / target).exists(), target
