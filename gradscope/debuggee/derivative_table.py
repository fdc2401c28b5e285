"""Writes torch's own table of derivatives as JSON, for the Formula tab.

Run as a program, `PYTHON derivative_table.py OUT [YAML]`, with the interpreter of the script and in a process of its own:
torchgen and PyYAML must not enter the person's `sys.modules`, and reading takes seconds. torchgen comes in torch's wheel, with
the files that torch's C++ was generated from (`torchgen/packaged`); importing it does not import torch. It needs PyYAML, which
torch does not require: where the script's interpreter has none, gradscope's own is used (YAML is the folder of that package).

    {"format": 1, "nodes": {"MmBackward0": {"forward": "mm(Tensor self, Tensor mat2) -> Tensor",
        "inputs": [["self", "Tensor"], ["mat2", "Tensor"]], "returns": ["result"], "differentiable": [true],
        "saved": ["mat2", "self"], "derivatives": [[["self"], "mm_mat1_backward(grad, …)"], …]}}}
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

FORMAT = 1
"""of the file; `gradscope.session.formulas` names its files after it"""


def main(out: str, yaml: str = "") -> None:
    """Write the table to the file `out`, which appears whole or not at all.

    Raises:
        ImportError: this interpreter has no torchgen.
    """
    os.nice(10)  # nobody waits for it
    if yaml and importlib.util.find_spec("yaml") is None:
        _lend("yaml", yaml)
    table = {"format": FORMAT, "nodes": _nodes()}
    part = f"{out}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(table, file, separators=(",", ":"))
    os.replace(part, out)  # atomic: two that build at once both succeed


def _lend(name: str, folder: str) -> None:
    """Import a package from a folder, without its neighbours coming along on `sys.path`."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


def _nodes() -> dict[str, dict[str, Any]]:
    """Node name -> its entry. The torch 2.6 … 2.15 wheels all have these files."""
    import torchgen
    from torchgen.packaged.autograd.load_derivatives import load_derivatives

    packaged = os.path.join(os.path.dirname(torchgen.__file__), "packaged")
    native = os.path.join(packaged, "ATen", "native")
    found, _ = load_derivatives(
        os.path.join(packaged, "autograd", "derivatives.yaml"),
        os.path.join(native, "native_functions.yaml"),
        os.path.join(native, "tags.yaml"),
    )
    nodes: dict[str, dict[str, Any]] = {}
    for by_dispatch_key in found.values():
        for info in by_dispatch_key.values():
            if info.op is not None:
                nodes.setdefault(info.op, _entry(info))
    return nodes


def _entry(info: Any) -> dict[str, Any]:
    schema = info.func.func
    returns = [result.name for result in schema.returns]
    unnamed = ["result"] if len(returns) == 1 else [f"result{place}" for place in range(len(returns))]
    saved = [attribute.nctype.name for attribute in (*info.all_saved_inputs, *info.all_saved_outputs)]
    return {
        "forward": str(schema),
        "inputs": [[binding.name, str(binding.argument.type)] for binding in info.args_with_derivatives],
        "returns": [name or other for name, other in zip(returns, unnamed, strict=True)],
        "differentiable": list(info.output_differentiability or [True] * len(returns)),
        "saved": [getattr(name, "name", name) for name in saved],
        "derivatives": [[list(one.var_names), one.original_formula] for one in info.derivatives],
    }


if __name__ == "__main__":
    del sys.path[0]  # this very folder
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
