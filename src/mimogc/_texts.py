"""Texts are data: they stand in Markdown files beside the code that shows them, in sections ``## key``."""

import re
from pathlib import Path


def read_texts(path: Path) -> dict[str, tuple[str, ...]]:
    """The paragraphs or bullets of each section by its key, each as one line; what precedes the first is no text."""
    texts = {}
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        key, _, body = section.partition("\n")
        parts = re.split(r"\n\n|\n- ", f"\n{body.strip()}")
        texts[key] = tuple(" ".join(part.split()) for part in parts if part.strip())
    return texts
