"""Every Python snippet of the documentation runs, page by page, in order, in one namespace."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": 3, "docs/theory.md": 15}  # and how many snippets there are at least


@pytest.mark.parametrize("name", PAGES)
def test_snippets_run(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    snippets = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(snippets) >= PAGES[name]
    namespace = {"__name__": "__main__"}
    for snippet in snippets:
        # Blank lines in front, so that a traceback names the line of the page.
        blank = "\n" * text[: snippet.start(1)].count("\n")
        exec(compile(blank + snippet.group(1), name, "exec"), namespace)


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
