"""The walls between the rooms, as the import-linter reads them and as a fresh interpreter finds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]

ALL = """
import importlib, pkgutil, {room} as room
for module in pkgutil.walk_packages(room.__path__, "{room}."):
    importlib.import_module(module.name)
"""
"""imports every module of a room"""


def modules_after(code: str) -> set[str]:
    """What a fresh interpreter has imported after running the code."""
    show = "print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{show}"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("room", "strangers"),
    [
        ("gradscope.model", {"torch", "textual", "networkx", "numpy", "gradscope.findings", "gradscope.protocol"}),
        ("gradscope.findings", {"torch", "textual", "gradscope.protocol", "gradscope.session"}),
        ("gradscope.protocol", {"torch", "textual", "gradscope.session", "gradscope.debuggee"}),
        ("gradscope.session", {"torch", "textual", "gradscope.debuggee", "gradscope.export", "gradscope.tui"}),
        (
            "gradscope.export",
            {"torch", "textual", "networkx", "numpy", "gradscope.protocol", "gradscope.session", "gradscope.tui"},
        ),
        ("gradscope.tui", {"torch", "numpy", "gradscope.debuggee", "gradscope.cli"}),
    ],
)
def test_a_room_imports_no_stranger(room: str, strangers: set[str]) -> None:
    modules = modules_after(ALL.format(room=room))
    assert room in modules
    assert modules & strangers == set()


def test_the_debuggee_brings_no_torch_before_the_script_does() -> None:
    modules = modules_after("import gradscope.debuggee.bootstrap, gradscope.debuggee.debugging")
    assert modules & {"torch", "numpy", "networkx", "textual", "gradscope.session", "gradscope.tui", "gradscope.export"} == set()


def test_the_command_starts_light() -> None:
    modules = modules_after("from gradscope.cli import parse; parse(['examples/two_outputs.py'])")
    ours = {name for name in modules if name.startswith("gradscope")}
    assert ours == {
        "gradscope",
        *(f"gradscope.{name}" for name in ("cli", "command_line", "errors", "option_values", "settings")),
    }
    assert modules & {"torch", "textual", "networkx", "msgspec", "safetensors", "numpy", "asyncio", "json", "tempfile"} == set()


def test_the_library_starts_light() -> None:
    assert modules_after("import gradscope; gradscope.__version__") & {"msgspec", "networkx", "gradscope.model"} == set()
    assert modules_after("import gradscope; gradscope.load") & {"torch", "networkx", "textual"} == set()


def test_the_librarys_names() -> None:
    import gradscope

    assert dir(gradscope) == ["Report", "__version__", "load"]
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        gradscope.lod  # noqa: B018


def test_contracts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert code == 0, capsys.readouterr().out
