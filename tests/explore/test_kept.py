"""The cards that the page opens with are kept from one start to the next, and read without torch."""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mimogc.explore import cards, kept, page
from mimogc.explore.choices import COMPONENT, Choice

OPENS = """
import sys
from mimogc.explore import cards
from mimogc.explore.choices import COMPONENT, tour
made = cards.made(tour()[0][2], COMPONENT / 100)
assert len(made) == 4 and "torch" not in sys.modules, "torch" in sys.modules
print(made[1].html.count("<img"))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    kept.folder.cache_clear()
    yield tmp_path / "explore"
    kept.folder.cache_clear()


def test_the_first_page_needs_no_torch_the_second_time(folder: Path) -> None:
    making = "from mimogc.explore import cards\nfrom mimogc.explore.choices import Choice\ncards.made(Choice(), 0.02)"
    subprocess.run([sys.executable, "-c", making], check=True)
    done = subprocess.run([sys.executable, "-c", OPENS], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
    inside = kept.read(*cards.parts(Choice(), COMPONENT / 100)[1])
    assert inside is not None
    assert '<dd id="operator-rank">4</dd>' in inside


def test_other_cards_and_former_ones_are_not_kept(folder: Path) -> None:
    former = folder / "former"
    former.mkdir(parents=True)
    (former / "amplification-1.html").write_text("old")
    cards.amplification(Choice(nodes=8, seed=5))
    assert former.exists()
    assert list(folder.iterdir()) == [former]
    name, arguments = cards.parts(Choice(), COMPONENT / 100)[1]
    kept.write(name, arguments, "new")
    assert kept.read(name, arguments) == "new"
    assert not former.exists()


def test_the_very_first_page_is_what_would_be_made(folder: Path) -> None:
    """The cards that come with the package: their words, their numbers, and pictures of that size."""
    shipped, made = json.loads(page.text_of("opening.json")), page.remade()
    number = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
    remake = "python -m mimogc.explore.page makes them anew"
    for name, inside in made.items():
        assert dict.fromkeys(shipped) == dict.fromkeys(made)
        (words, pictures), (now, drawn) = (_parts(text) for text in (shipped[name], inside))
        assert number.sub("#", words) == number.sub("#", now), remake
        pairs = zip(number.findall(words), number.findall(now), strict=True)
        assert all(float(one) == pytest.approx(float(other), rel=0.02, abs=0.0011) for one, other in pairs), remake
        assert [image.size for image in pictures] == [image.size for image in drawn]
        for one, other in zip(pictures, drawn, strict=True):
            apart = np.asarray(one.convert("L"), float) - np.asarray(other.convert("L"), float)
            assert np.abs(apart).mean() < 3, remake


def _parts(text: str) -> tuple[str, list[Image.Image]]:
    """A card without its pictures, and its pictures."""
    found = re.findall(r"data:image/png;base64,([^\"]*)", text)
    images = [Image.open(io.BytesIO(base64.b64decode(code))) for code in found]
    return re.sub(r'src="[^"]*"', "", text), images


def test_the_very_first_page_needs_no_torch(folder: Path) -> None:
    code = "import sys\nfrom mimogc.explore import page\nprint(page.opening().count('<img'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("3 False\n", 0), done.stderr
    assert not folder.exists()


def test_the_page_prefers_what_was_made_here(folder: Path) -> None:
    name, arguments = cards.parts(Choice(), COMPONENT / 100)[1]
    kept.write(name, arguments, "<p>made here</p>")
    assert "<p>made here</p>" in page.opening()


def test_whoever_needs_the_libraries_has_them_imported_at_once() -> None:
    kept.wanted.clear()
    kept.wait()
    assert kept.wanted.is_set()
