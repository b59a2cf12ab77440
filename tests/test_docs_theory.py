"""Every Python snippet of docs/theory.md runs, in order, in one namespace."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "theory.md"


def test_snippets_of_the_theory_page():
    text = PAGE.read_text(encoding="utf-8")
    snippets = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(snippets) >= 15
    namespace = {}
    for snippet in snippets:
        # Blank lines in front, so that a traceback names the line of the page.
        blank = "\n" * text[: snippet.start(1)].count("\n")
        exec(compile(blank + snippet.group(1), str(PAGE), "exec"), namespace)
