"""The report of a fitted model: one HTML file that needs nothing else."""

from mercer.report.page import write_report

__all__ = ["write_report"]
