"""The figures on the page: drawn from stored numbers, inside the page, the others with their command."""

import base64
import re
from pathlib import Path

from mimogc.cli import run as command_line
from mimogc.report import write_report
from mimogc.studies.figures import FIGURES

DRAWN = ("random-filters", "gcn-filters")


def test_stored_figures_are_shown_and_the_others_named(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    assert command_line(["reproduce", "figures", "--variants", ",".join(DRAWN), "--store", str(store)]) == 0
    page = write_report(store, tmp_path / "report").read_text()
    images = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)"', page)
    assert [title for _, title in images] == [FIGURES[name].title for name in FIGURES if name in DRAWN]
    assert all(b"<svg" in base64.b64decode(data) for data, _ in images)
    rest = ",".join(name for name in FIGURES if name not in DRAWN)
    assert f"mimogc reproduce figures --variants {rest} --store {store}" in page
    for name in DRAWN:
        assert (tmp_path / "report" / "figures" / f"{name}.png").stat().st_size > 1000
        assert f"(figures/{name}.svg)" in (tmp_path / "report" / "figures.md").read_text()
