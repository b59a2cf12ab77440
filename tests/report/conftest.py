"""A store with results to report on, and a real browser to look at the page with."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from browser import browser
from mimogc.runs.run import Record
from mimogc.runs.store import Store

__all__ = ["browser", "make_store"]

sys.path.insert(0, str(Path(__file__).parent))  # for stored_results


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[[Sequence[Record]], Path]:
    """Writes records into a new store."""

    def make(records: Sequence[Record]) -> Path:
        path = tmp_path / "runs.db"
        with Store(path, write=True) as store:
            store.add(records)
        return path

    return make
