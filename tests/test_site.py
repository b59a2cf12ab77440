"""The documentation site builds without a warning, and is whole: every public name, every page, no network."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the site needs mimogc[docs]")
from sphinx.util.inventory import InventoryFile

DOCS = Path(__file__).resolve().parents[1] / "docs"
MODULES = ("mimogc", "mimogc.nn", "mimogc.nn.coefficients", "mimogc.ops", "mimogc.spectral", "mimogc.theory")
MODULES += ("mimogc.data", "mimogc.testing", "mimogc.plot")
# Aliases, a table, and what is described as mimogc.nn.Coefficients.
NOT_DESCRIBED = {f"mimogc.nn.coefficients.{name}" for name in ("BY_NAME", "Channels", "Pair", "Coefficients")}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, from the pages as they are."""
    folder = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-n", "-q", "-b", "html"]  # as `make docs`
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_public_name_is_in_the_reference(site):
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    described = {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}
    public = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}
    assert public - described == NOT_DESCRIBED


def test_every_page_is_in_the_menu(site):
    front = (site / "index.html").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.glob("**/*.md")}
    assert {page for page in pages if f'href="{page}"' not in front} == {"index.html"}


def test_every_example_is_shown(site):
    shown = (site / "examples.html").read_text(encoding="utf-8")
    assert shown.count('<div class="highlight-default') == len(list(DOCS.parent.glob("examples/*.py"))) > 0


def test_nothing_is_fetched_from_elsewhere(site):
    """Scripts, styles, fonts and images are the site's own, so that it can be read without network."""
    for page in site.glob("**/*.html"):
        html = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="([^"]+)"|<link[^>]*\bhref="([^"]+)"', html)
        addresses = [address for pair in fetched for address in pair if address]
        assert addresses
        for address in addresses:
            assert not re.match(r"(?:https?:)?//", address), f"{page.name}: {address}"
            assert (page.parent / address.partition("?")[0].partition("#")[0]).exists(), f"{page.name}: {address}"


def test_formulas_are_drawn_by_the_browser(site):
    html = (site / "reference/nn.html").read_text(encoding="utf-8")
    assert html.count("<math ") > 10
    assert "\\mathbf" not in html
