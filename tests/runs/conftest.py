"""Makes the tiny study importable, here and in the processes that tests start, and gives its true results."""

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parents[1])
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))

from harness import TINY, Results, Watch, results  # noqa: E402
from mimogc.runs.driver import reproduce  # noqa: E402
from mimogc.runs.registry import load  # noqa: E402
from mimogc.runs.study import Options  # noqa: E402


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of the tiny study when nothing happens: in this process, one batch after the other."""
    path = tmp_path_factory.mktemp("truth") / "runs.db"
    reproduce(load(TINY), Options(), path, Watch())
    return results(path)
