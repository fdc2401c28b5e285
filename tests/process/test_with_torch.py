"""Scripts that use torch: nothing of gradscope shows in what they print, and they end as under python."""

from __future__ import annotations

import pytest
from children import NEVER, RECORD, Scripts

from gradscope.protocol.messages import Captured, Committed, Configure, Died, Recorded, Stopped, TensorBytes, TorchImported

BOTH = (NEVER, RECORD)


def test_torch_is_not_there_before_the_script_imports_it(scripts: Scripts) -> None:
    scripts.write(
        """
        import os, sys, importlib.util
        print("torch" in sys.modules, [name for name in sys.modules if name.startswith("torch")])
        os.environ["OMP_NUM_THREADS"] = "2"
        spec = importlib.util.find_spec("torch")
        print(spec.name, spec.origin, "torch" in sys.modules)
        import torch
        print(torch.get_num_threads(), torch.__spec__, torch.__loader__)
        """
    )
    outcome = scripts.same("script.py")
    assert outcome.out.startswith("False []\n")
    assert "\n2 ModuleSpec" in outcome.out
    outcome.only(TorchImported)


def test_a_broken_torch_fails_as_it_does(scripts: Scripts) -> None:
    scripts.write("def f():\n    raise ImportError('libcuda is missing')\nf()", "torch.py")
    scripts.write("try:\n    import torch\nexcept ImportError as e:\n    print(e)\nimport torch")
    outcome = scripts.same("script.py")
    assert outcome.all(TorchImported) == []
    assert outcome.only(Died).message == "libcuda is missing"


TRAINS = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4)).square().mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), [p.grad.sum().item() for p in model.parameters()], torch.randn(1).item())
    x = torch.randn(3, requires_grad=True)
    print(torch.autograd.grad(x.sin().sum(), x))
"""


def test_training_prints_the_same(scripts: Scripts) -> None:
    scripts.write(TRAINS)
    scripts.same("script.py", configures=BOTH)


def test_every_call_is_recorded(scripts: Scripts) -> None:
    scripts.write(TRAINS)
    outcome = scripts.same("script.py", configures=[Configure(stop_at="never", record=-1, send_tensors=True)])
    assert [stopped.reason for stopped in outcome.all(Stopped)] == ["recorded"] * 4
    assert [stopped.call.line for stopped in outcome.all(Stopped)] == [9, 9, 9, 13]
    assert len(outcome.all(Captured)) == 4
    assert [recorded.tape.kind for recorded in outcome.all(Recorded)] == ["committed"] * 4
    assert [committed.exact for committed in outcome.all(Committed)][:3] == ["true"] * 3
    assert {one.dtype for one in outcome.all(TensorBytes)} == {"F32"}


def test_only_as_many_calls_as_asked(scripts: Scripts) -> None:
    scripts.write(TRAINS)
    outcome = scripts.same("script.py", configures=[Configure(stop_at="never", record=2)])
    assert [stopped.call.number for stopped in outcome.all(Stopped)] == [1, 2]


ERRORS = {
    "in forward": "(x @ x.reshape(3, 1, 1)).backward()",
    "in backward": "Fails.apply(x).sum().backward()",
    "no scalar": "(x * 2).backward()",
    "exit in backward": "Exits.apply(x).sum().backward()",
    "interrupt in backward": "Interrupts.apply(x).sum().backward()",
}

CAUGHT = """
import threading, traceback
def in_backward():
    Fails.apply(x).sum().backward()
def in_forward():
    x @ torch.ones(2)
def in_a_hook():
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
def wrong_seed():
    (x * 2).backward(torch.ones(2))
def no_graph():
    torch.ones(3).sum().backward()
def twice():
    y = x.sin().sum()
    y.backward()
    y.backward()
def in_place():
    y = x.exp()
    y.add_(1)
    y.sum().backward()
def warning():
    y = (x * 2).sum()
    y.grad
    y.backward(create_graph=True)
def thread():
    t = threading.Thread(target=in_backward)
    t.start(); t.join()
for case in (in_backward, in_forward, in_a_hook, wrong_seed, no_graph, twice, in_place, warning, thread):
    print(case.__name__, flush=True)
    try:
        case()
    except Exception:
        traceback.print_exc()
"""

PREAMBLE = """
import os, signal, sys
import torch
def hook(gradient):
    raise ValueError("from a hook")
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("from a backward")
class Exits(Fails):
    @staticmethod
    def backward(ctx, gradient):
        sys.exit(4)
class Interrupts(Fails):
    @staticmethod
    def backward(ctx, gradient):
        os.kill(os.getpid(), signal.SIGINT)
        return gradient
x = torch.ones(3, requires_grad=True)
"""


@pytest.mark.parametrize("name", ERRORS)
def test_errors_print_the_same(scripts: Scripts, name: str) -> None:
    (scripts.folder / "script.py").write_text(PREAMBLE + ERRORS[name] + "\n")
    scripts.same("script.py", configures=[RECORD] if "in backward" in name[1:] else BOTH)


def test_caught_errors_and_warnings_print_the_same(scripts: Scripts) -> None:
    (scripts.folder / "script.py").write_text(PREAMBLE + CAUGHT)
    outcome = scripts.same("script.py", configures=BOTH)
    assert outcome.out.split()[-1] == "thread"
    assert outcome.err.count("Traceback (most recent call last)") == 8
    assert outcome.err.count("UserWarning") == 2


def test_a_data_loader_with_workers(scripts: Scripts) -> None:
    scripts.write(
        """
        import torch

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                x = torch.ones(2, requires_grad=True)
                (x * index).sum().backward()
                return x.grad

        if __name__ == "__main__":
            model = torch.nn.Linear(2, 1)
            torch.nn.init.ones_(model.weight)
            for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2):
                model(batch).sum().backward()
                print(batch.tolist(), model.weight.grad.tolist())
        """
    )
    scripts.same("script.py", configures=BOTH)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_multiprocessing(scripts: Scripts, method: str) -> None:
    scripts.write(
        f"""
        import torch, torch.multiprocessing

        def work(number):
            x = torch.ones(2, requires_grad=True)
            (x * number).sum().backward()
            return x.grad.tolist()

        if __name__ == "__main__":
            with torch.multiprocessing.get_context({method!r}).Pool(1) as pool:
                print(pool.map(work, [1, 2]))
            print(work(3))
        """
    )
    outcome = scripts.same("script.py", configures=[RECORD])
    assert len(outcome.all(Stopped)) == 1


def test_threads_take_turns(scripts: Scripts) -> None:
    scripts.write(
        """
        import threading, torch
        def work(number):
            x = torch.full((4,), float(number), requires_grad=True)
            for _ in range(20):
                x.grad = None
                x.square().sum().backward()
            results[number] = x.grad.tolist()
        results = {}
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sorted(results.items()))
        """
    )
    outcome = scripts.same("script.py", configures=[RECORD])
    assert sorted(stopped.call.number for stopped in outcome.all(Stopped)) == list(range(1, 81))


def test_a_deep_chain_does_not_crash(scripts: Scripts) -> None:
    scripts.write(
        """
        import torch
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(120_000):
            y = y + 1
        y.backward()
        del y
        print(x.grad)
        """
    )
    for configure in BOTH:
        assert scripts.headless("script.py", configure=configure).seen == (0, "tensor([1.])\n", "")


@pytest.mark.parametrize(
    ("configure", "calls"),
    [
        (Configure(stop_at="3", record=-1), [3, 4]),
        (Configure(stop_at="first", record=1), [1]),
        (Configure(stop_at="script.py:13", record=-1), [4]),
        (Configure(stop_at="script.py:12", record=-1), [4]),
        (Configure(breaks=["op:SinBackward0"], record=-1), [4]),
        (Configure(breaks=["leaf:0.weight"], record=2), [1, 2]),
    ],
)
def test_which_calls_are_recorded(scripts: Scripts, configure: Configure, calls: list[int]) -> None:
    scripts.write(TRAINS)
    outcome = scripts.same("script.py", configures=[configure])
    assert [stopped.call.number for stopped in outcome.all(Stopped)] == calls
    assert [recorded.tape.kind for recorded in outcome.all(Recorded)] == ["committed"] * len(calls)


def test_the_seed_of_the_command_line_is_explored_beside_the_call(scripts: Scripts) -> None:
    scripts.write(TRAINS)
    outcome = scripts.same("script.py", configures=[Configure(stop_at="never", record=1, gradient="2")])
    assert [(r.tape.number, r.tape.kind, r.tape.edited) for r in outcome.all(Recorded)] == [
        (1, "committed", False),
        (2, "explored", True),
    ]


def test_nodes_of_a_double_backward_have_the_calls_line(scripts: Scripts) -> None:
    scripts.write(
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        (g,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
        g.square().sum().backward()
        """
    )
    outcome = scripts.same("script.py", configures=[RECORD])
    columns = outcome.all(Captured)[1].graph
    lines = {columns.origins[index].line for index in memoryview(columns.origin).cast("i") if index >= 0}
    assert lines == {4, 5}


def test_inputs_are_called_what_the_call_calls_them(scripts: Scripts) -> None:
    scripts.write(
        """
        import torch
        pair = [torch.ones(2, requires_grad=True) * 1, torch.ones(2, requires_grad=True)]
        torch.autograd.grad((pair[0] * pair[1]).sum(), (pair[0], torch.nn.Parameter(pair[1]), pair[1])[::2])
        """
    )
    outcome = scripts.same("script.py", configures=[RECORD])
    assert [leaf.name for leaf in outcome.only(Captured).graph.leaves][:2] == ["pair[0]", "pair[1]"]
