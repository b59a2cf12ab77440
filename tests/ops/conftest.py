"""Where Triton is asked for and cannot be imported, the tests are skipped, and say so."""

import importlib.util
import os

import pytest


def _without_triton() -> bool:
    return os.environ.get("MIMOGC_BACKEND") == "triton" and importlib.util.find_spec("triton") is None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _without_triton():
        for item in items:
            item.add_marker(
                pytest.mark.skip(reason="Triton cannot be imported: the dev extra installs it on Linux only")
            )
