"""The report: tables and curves from stored results only, beside the published values."""

from mimogc.report.write import write_report

__all__ = ["write_report"]
