"""Where formulas come from: the cache, the builder in the background, a snapshot."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from derivative_tables import path

from gradscope.export import snapshot
from gradscope.model.derivatives import Entry, read
from gradscope.model.formulas import Formulas
from gradscope.model.report import Report
from gradscope.protocol import messages as m
from gradscope.session.formulas import Library, build, cache_folder
from gradscope.session.session import Session

ENTRY = Entry("sin(Tensor self) -> Tensor", [("self", "Tensor")], ["result"], [True], ["self"], [(["self"], "grad * self.cos()")])
TEXT = """{"format": 1, "nodes": {"SinBackward0": {"forward": "sin(Tensor self) -> Tensor", "inputs": [["self", "Tensor"]],
"returns": ["result"], "differentiable": [true], "saved": ["self"], "derivatives": [[["self"], "grad * self.cos()"]]}}}"""

PATIENCE = 30.0


class Builder:
    """Stands in for the process that builds; counts."""

    def __init__(self, text: str = TEXT, why: str = "") -> None:
        self.text, self.why = text, why
        self.outs: list[Path] = []
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, python: str, out: Path) -> str:
        assert python == "python9"
        assert self.may_go.wait(PATIENCE)
        self.outs.append(out)
        if not self.why:
            out.write_text(self.text)
        return self.why


def found(builder: Builder, folder: Path, version: str = "2.13.0+cpu") -> Formulas:
    library = Library("python9", builder, folder)
    library.want(version)
    formulas = library.wait(PATIENCE)
    assert formulas is not None
    return formulas


def test_a_table_is_built_once_and_then_found(tmp_path: Path) -> None:
    builder = Builder()
    for _ in range(2):
        formulas = found(builder, tmp_path / "new")
        assert (formulas.table, formulas.torch, formulas.why_not) == ({"SinBackward0": ENTRY}, "2.13.0+cpu", "")
    assert builder.outs == [tmp_path / "new" / "derivatives-2.13.0+cpu-1.json"]


def test_each_torch_has_its_own(tmp_path: Path) -> None:
    builder = Builder()
    found(builder, tmp_path, "2.6.0")
    found(builder, tmp_path, "../2.14/x")
    assert sorted(out.name for out in builder.outs) == ["derivatives-.._2.14_x-1.json", "derivatives-2.6.0-1.json"]
    assert {out.parent for out in builder.outs} == {tmp_path}


def test_nobody_waits_for_the_builder(tmp_path: Path) -> None:
    builder, ready = Builder(), threading.Event()
    builder.may_go.clear()
    library = Library("python9", builder, tmp_path)
    library.on_ready = ready.set
    library.want("2.13.0")
    library.want("2.13.0")
    assert library.formulas is None
    assert library.wait(0.0) is None
    builder.may_go.set()
    assert ready.wait(PATIENCE)
    assert library.formulas is not None
    assert len(builder.outs) == 1


def test_a_damaged_table_is_built_anew(tmp_path: Path) -> None:
    builder = Builder()
    (tmp_path / "derivatives-2.13.0-1.json").write_text(TEXT[:40])
    assert found(builder, tmp_path, "2.13.0").table == {"SinBackward0": ENTRY}
    assert len(builder.outs) == 1


@pytest.mark.parametrize("name", ["a file", "a file/below"])
def test_where_the_cache_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").write_text("")
    builder = Builder()
    assert found(builder, tmp_path / name).table == {"SinBackward0": ENTRY}
    [out] = builder.outs
    assert not out.parent.exists()


def test_failures_are_told(tmp_path: Path) -> None:
    formulas = found(Builder(why="ModuleNotFoundError: No module named 'torchgen'"), tmp_path)
    assert formulas.why_not == "torch's derivative table cannot be read: ModuleNotFoundError: No module named 'torchgen'"
    assert formulas.table == {}
    assert "damaged" in found(Builder(text="{"), tmp_path).why_not

    def broken(python: str, out: Path) -> str:
        raise RuntimeError("odd")

    library = Library("python9", broken, tmp_path / "other")
    library.want("2.13.0")
    assert "odd" in (library.wait(PATIENCE) or Formulas({})).why_not


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({"XDG_CACHE_HOME": "/var/cache"}) == Path("/var/cache/gradscope")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "gradscope"
    assert cache_folder({}) == tmp_path / ".cache" / "gradscope"


# ---------------------------------------------------------------- the builder


def test_the_real_builder_knows_every_kind_of_node() -> None:
    table = read(path().read_bytes())
    assert len(table) > 600
    assert table["MmBackward0"].inputs == [("self", "Tensor"), ("mat2", "Tensor")]
    assert [names for names, _ in table["LinearBackward0"].derivatives] == [["input", "weight", "bias"]]
    assert table["TopkBackward0"].returns == ["values", "indices"]
    assert table["TopkBackward0"].differentiable == [True, False]
    assert set(table["SoftmaxBackward0"].saved) >= {"result", "dim"}


def test_an_interpreter_without_torch_is_told(tmp_path: Path) -> None:
    """`-S` has no site-packages; a file stands in for the interpreter."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    python.chmod(0o755)
    why = build(str(python), tmp_path / "out.json")
    assert why == "ModuleNotFoundError: No module named 'torchgen'"
    assert os.listdir(tmp_path) == ["python"]
    assert "No such file" in build(str(tmp_path / "none"), tmp_path / "out.json")


def test_the_builder_lends_yaml_and_imports_no_torch(tmp_path: Path) -> None:
    """torchgen is a package of its own in torch's wheel; PyYAML is taken from a folder where the interpreter has none."""
    code = f"""
import importlib.util, sys, yaml, os
folder = os.path.dirname(yaml.__file__)
del sys.modules["yaml"]
for name in [name for name in sys.modules if name.startswith("yaml.")]:
    del sys.modules[name]
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == "yaml" and not path:
            raise ModuleNotFoundError(name)
sys.path.insert(0, {str(Path(build.__code__.co_filename).parents[1] / "debuggee")!r})
import derivative_table
derivative_table._lend("yaml", folder)
from torchgen.packaged.autograd import load_derivatives
print(sys.modules["yaml"].__file__ == yaml.__file__, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "False"]


# ---------------------------------------------------------------- the session


def test_a_session_asks_when_torch_is_imported(tmp_path: Path) -> None:
    session = Session("train.py")
    session.handle(m.TorchImported("2.13.0"))
    assert session.view().formulas is None
    session.library = Library("python9", Builder(), tmp_path)
    session.handle(m.TorchImported("2.13.0"))
    session.library.wait(PATIENCE)
    formulas = session.view().formulas
    assert formulas is not None
    assert formulas.table == {"SinBackward0": ENTRY}


def test_a_snapshot_carries_them(tmp_path: Path) -> None:
    file = tmp_path / "a.gscope"
    file.write_bytes(b"".join(snapshot.chunks(Report("train.py", torch="2.13.0", formulas={"SinBackward0": ENTRY}))))
    session = Session.from_snapshot(snapshot.read(str(file)))
    formulas = session.view().formulas
    assert formulas is not None
    assert (formulas.table, formulas.torch) == ({"SinBackward0": ENTRY}, "2.13.0")


def test_a_snapshot_without_them_looks_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    session = Session.from_snapshot(Report("train.py", torch="2.13.0"))
    assert session.library is not None
    formulas = session.library.wait(PATIENCE)
    assert formulas is not None
    assert formulas.why_not == "no table of torch 2.13.0's derivatives is at hand"
    assert list(tmp_path.iterdir()) == []
