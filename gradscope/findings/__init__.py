"""What is wrong, where and why: pure functions from a graph and a pass to findings."""

from gradscope.findings.diagnosis import diagnose
from gradscope.findings.finding import Finding

__all__ = ["Finding", "diagnose"]
