"""The browser of the report's tests serves here too."""

from report.conftest import browser

__all__ = ["browser"]
