"""Noting origins changes nothing that the script can see: numbers, modes, subclasses, compiled code, tracebacks, warnings."""

from __future__ import annotations

import copy
import linecache
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from gradscope.debuggee import hidden_frames
from gradscope.debuggee import origins as origins_module
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.origins import Origins


@pytest.fixture
def origins() -> Iterator[Origins]:
    table = origins_module.install(torch)
    yield table
    table.remove()


def without(origins: Origins, compute: Callable[[], Any]) -> Any:
    origins.pause()
    try:
        return compute()
    finally:
        origins.resume()


def test_padded_encoder_in_eval_keeps_its_fast_path(origins: Origins) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(3, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    with torch.no_grad():
        plain = without(origins, lambda: encoder(x, src_key_padding_mask=padding))
        noted = encoder(x, src_key_padding_mask=padding)
    assert torch.equal(plain, noted)
    assert torch.equal(plain[1, 3:], torch.zeros(2, 16)) == torch.equal(noted[1, 3:], torch.zeros(2, 16))


def test_nested_tensor_encoder_in_eval(origins: Origins) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
        x = torch.randn(3, 5, 16)
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
        with torch.no_grad():
            plain = without(origins, lambda: encoder(x, src_key_padding_mask=padding))
            noted = encoder(x, src_key_padding_mask=padding)
    assert torch.equal(plain, noted)
    assert torch.equal(noted[1, 3:], torch.zeros(2, 16))  # only the fast path fills the padding with zeros


def test_attention_in_eval(origins: Origins) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    called: list[Any] = []
    original = torch._native_multi_head_attention
    torch._native_multi_head_attention = lambda *args: called.append(1) or original(*args)  # type: ignore[assignment]
    try:
        with torch.no_grad():
            noted = attention(x, x, x)[0]
            plain = without(origins, lambda: attention(x, x, x)[0])
    finally:
        torch._native_multi_head_attention = original
    assert len(called) == 2
    assert torch.equal(plain, noted)


def test_a_mode_of_the_persons_sees_what_it_would(origins: Origins) -> None:
    seen: list[Any] = []

    class Theirs(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def compute() -> list[Any]:
        seen.clear()
        with Theirs():
            nn.functional.dropout(nn.functional.relu(torch.ones(2)), 0.5)
        return list(seen)

    assert compute() == without(origins, compute)
    assert nn.functional.relu in seen


def test_subclasses_are_seen(origins: Origins) -> None:
    seen: list[Any] = []

    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    def compute() -> tuple[list[Any], type]:
        seen.clear()
        x = torch.ones(2).as_subclass(Tagged)
        return list(seen), type(nn.functional.relu(x) + x.sin())

    noted, plain = compute(), without(origins, compute)
    assert noted == plain
    assert noted[1] is Tagged
    assert torch.overrides.has_torch_function((torch.ones(2).as_subclass(Tagged),))
    assert not torch.overrides.has_torch_function((torch.ones(2), 3))
    assert not torch.overrides.has_torch_function_variadic(torch.ones(2), None)


def test_default_device(origins: Origins) -> None:
    torch.set_default_device("meta")
    try:
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        assert torch.overrides.has_torch_function((x,))
    finally:
        torch.set_default_device(None)  # type: ignore[arg-type]
    assert x.device.type == "meta"
    assert origins.lookup(y.grad_fn._sequence_nr()).code == "y = x * 2"
    assert torch._C._len_torch_function_stack() == isinstance(origins, ModeOrigins)
    with torch.device("meta"):
        assert torch.ones(1).device.type == "meta"
    origins.pause()
    torch.set_default_device("meta")
    origins.resume()
    torch.set_default_device(None)  # type: ignore[arg-type]
    assert not isinstance(origins, ModeOrigins) or torch._C._get_function_stack_at(0) is origins.mode


def test_compile_fullgraph_traces_nothing_of_ours(origins: Origins) -> None:
    graphs: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    def work(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(nn.functional.linear(x, x)).sin().sum()

    torch._dynamo.reset()
    compiled = torch.compile(work, backend=backend, fullgraph=True)
    x = torch.ones(3, 3, requires_grad=True)
    y = compiled(x)
    assert torch.equal(y, work(x))
    assert [node.target for node in graphs[0].graph.nodes if node.op == "call_function"] == [
        torch.nn.functional.linear,
        torch.nn.functional.relu,
    ]
    assert origins.lookup(y.grad_fn._sequence_nr()).code == "y = compiled(x)"
    origins.pause()
    compiled(x)  # the same guards hold with and without us
    origins.resume()
    compiled(x)
    assert len(graphs) == 1
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_script_vmap_grad_autocast_deepcopy_trace(origins: Origins) -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.relu(x * 2).sum()

    x = torch.tensor([1.0, -2.0], requires_grad=True)
    assert torch.jit.script(work)(x).item() == 2.0
    assert torch.fx.symbolic_trace(work)(x).item() == 2.0
    assert torch.func.grad(work)(x).tolist() == [2.0, 0.0]
    assert torch.func.vmap(work)(torch.ones(2, 3)).tolist() == [6.0, 6.0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    assert torch.equal(copy.deepcopy(x), x)
    assert torch.jit.trace(work, (x,))(x).item() == 2.0


def fails(x: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, torch.ones(7, 7))


def test_tracebacks_do_not_show_us(origins: Origins) -> None:
    def printed() -> str:
        try:
            nn.Sequential(nn.Linear(2, 3))(torch.ones(5))
        except RuntimeError:
            return traceback.format_exc()
        return ""

    noted = printed()
    assert noted == without(origins, printed)
    assert "gradscope/debuggee" not in noted
    assert "Traceback" in noted


def test_strip_for_those_who_print_in_c(origins: Origins) -> None:
    try:
        try:
            fails(torch.ones(2))
        except RuntimeError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        hidden_frames.strip(error)
        place = error.__cause__.__traceback__
    names = []
    while place is not None:
        names.append(place.tb_frame.f_code.co_name)
        place = place.tb_next
    assert names == ["test_strip_for_those_who_print_in_c", "fails"]


def test_stacks_do_not_show_us(origins: Origins) -> None:
    stacks: list[list[str]] = []

    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            stacks.append(traceback.format_stack())
            return super().__torch_function__(func, types, args, kwargs)

    torch.ones(2).as_subclass(Tagged).sin()
    assert len(stacks) > 0
    assert not any("gradscope/debuggee" in line for line in stacks[-1])
    assert traceback.StackSummary.extract(traceback.walk_stack(None))[0].name == "test_stacks_do_not_show_us"


def test_warnings_from_torch_name_the_persons_line(origins: Origins) -> None:
    script = "import torch\ndef warns(n):\n    return torch.ones(n, 2, 2).T\nfor _ in range(3):\n    warns(2)\n"
    linecache.cache["<warner>"] = (len(script), None, script.splitlines(keepends=True), "<warner>")

    def shown(action: str) -> list[tuple[str, int, str]]:
        torch.set_warn_always(True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            warnings.simplefilter(action)
            exec(compile(script, "<warner>", "exec"), {"__name__": "__main__"})
        return [(one.filename, one.lineno, one.category.__name__) for one in caught]

    try:
        for action in ("default", "always", "once"):
            noted, plain = shown(action), without(origins, lambda action=action: shown(action))
            assert noted == plain
            assert noted[0][:2] == ("<warner>", 3)
        assert shown("ignore") == []
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models_train_as_without(origins: Origins, backend: str) -> None:
    def train() -> list[torch.Tensor]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        x = torch.randn(5, 3)
        for _ in range(2):
            loss = compiled(x).square().mean()
            loss.backward()
        line = origins.lookup(loss.grad_fn._sequence_nr())
        assert line is None or line.code == "loss = compiled(x).square().mean()"
        return [parameter.grad for parameter in model.parameters()]

    for noted, plain in zip(train(), without(origins, train), strict=True):
        assert torch.equal(noted, plain)
    torch._dynamo.reset()
