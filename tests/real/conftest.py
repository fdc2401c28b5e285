"""Collects the tests of code that nobody here wrote only where the extra named `real` is installed, as the README says."""

from importlib.util import find_spec

REAL = ("transformers", "lightning", "torchdiffeq", "torch_geometric")

collect_ignore = [] if all(find_spec(package) for package in REAL) else ["test_real.py"]
