"""The cards that the page opens with are kept from one start to the next, and read without torch."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from mimogc.explore import cards, kept, server
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


def test_a_session_waits_while_torch_is_imported() -> None:
    """marimo imports torch as well when a session starts, and one import breaks the other."""
    opened = []

    async def page(scope: dict[str, str], receive: object, send: object) -> None:
        opened.append(scope["type"])

    async def visit() -> None:
        session = asyncio.ensure_future(server._patient(page)({"type": "websocket"}, None, None))
        await server._patient(page)({"type": "http"}, None, None)
        await asyncio.sleep(0.2)
        assert opened == ["http"]
        kept.importing.clear()
        await session

    kept.importing.set()
    try:
        asyncio.run(visit())
    finally:
        kept.importing.clear()
    assert opened == ["http", "websocket"]


def test_whoever_needs_the_libraries_has_them_imported_at_once() -> None:
    kept.wanted.clear()
    kept.wait()
    assert kept.wanted.is_set()
