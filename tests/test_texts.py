"""Texts in files: sections of paragraphs or bullets."""

from pathlib import Path

import pytest

import mimogc
from mimogc._texts import read_texts


def test_sections_have_their_paragraphs_or_bullets_in_one_line_each(tmp_path: Path) -> None:
    file = tmp_path / "texts.md"
    file.write_text("# Title\n\nNot a text.\n\n## a key\n\nOne\nline.\n\nTwo – {field}\n\n## list\n\n- a\n  b\n- c\n")
    assert read_texts(file) == {"a key": ("One line.", "Two – {field}"), "list": ("a b", "c")}


@pytest.mark.parametrize("file", ["report/captions.md", "studies/figures/texts.md"])
def test_a_title_or_caption_is_two_texts(file: str) -> None:
    texts = read_texts(Path(mimogc.__file__).parent / file)
    assert {len(parts) for key, parts in texts.items() if key != "closed form"} == {2}
