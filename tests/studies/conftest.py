"""A watcher for the studies, and the script that runs as a process of its own."""

import sys
from pathlib import Path

import pytest

from harness import Watch

sys.path.insert(0, str(Path(__file__).parent))  # for zinc_process


@pytest.fixture
def watch() -> Watch:
    return Watch()
