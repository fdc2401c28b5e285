"""Runs inside the script's interpreter when it has started up and before it looks at the script.

Python imports a module of this name by itself. So `python script.py` stays exactly that: what `__main__` is, how an error is
printed, what the exit code is, all of it is python's own work, and no frame of gradscope lies under the script's.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path.remove(_here)
sys.path_importer_cache.pop(_here, None)


def _load_package() -> None:
    """Make `gradscope` importable, this very copy, without a word in `sys.path`."""
    import importlib.util

    package = os.path.dirname(os.path.dirname(_here))
    spec = importlib.util.spec_from_file_location("gradscope", os.path.join(package, "__init__.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gradscope"] = module
    spec.loader.exec_module(module)


if "GRADSCOPE_DEBUGGEE" in os.environ:
    _load_package()
    from gradscope.debuggee.bootstrap import begin

    begin()

# The environment may have a sitecustomize of its own. Where it has none, the ImportError is what python expects to see.
del sys.modules["sitecustomize"]
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
