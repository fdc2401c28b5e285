"""Names, lines and owners as a whole run reports them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from gradscope.model.report import Report
from gradscope.session import headless
from gradscope.settings import ALL_CALLS, Options


@pytest.fixture
def stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`stops(text)`: what headless records of a script's calls."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(text: str) -> list[Any]:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
        kept: list[Report[Any]] = []
        options = Options(str(script), headless=True, exports=("a.json",), calls=ALL_CALLS)
        assert headless.run(options, lambda report, path: kept.append(report)) == 0
        return list(kept[-1].stops)

    return run


def told(stop: Any) -> list[tuple[str, str, str]]:
    return [(one.kind, one.severity, one.leaf) for one in stop.findings]


def test_a_discriminators_own_step_warns_of_nothing(stops: Any) -> None:
    first, second = stops("""
        import torch
        from torch import nn
        G = nn.Linear(2, 2, bias=False)
        D = nn.Sequential(nn.Linear(2, 1), nn.Sigmoid())
        opt_G, opt_D = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        fake = G(torch.randn(4, 2))
        (D(fake.detach()).mean() - D(torch.randn(4, 2)).mean()).backward()
        opt_D.step()
        D(fake).mean().backward()
    """)
    assert told(first) == [("cut", "info", "G.weight"), ("missing-gradient", "info", "G.weight")]
    assert {severity for _, severity, _ in told(second)} <= {"info"}
    assert sorted((leaf.name, leaf.owner) for leaf in first.graph.leaves) == [
        ("D.0.bias", "opt_D.Adam[0]"),
        ("D.0.weight", "opt_D.Adam[0]"),
        ("G.weight", "opt_G.Adam[0]"),
    ]


def test_torchs_own_seeds_of_zeros_warn_of_nothing(stops: Any) -> None:
    found = stops("""
        import torch
        from torch.autograd.functional import hvp, jvp
        x, v = torch.ones(3), torch.ones(3)
        hvp(lambda x: (x ** 3).sum(), x, v)
        jvp(lambda x: x ** 2, x, v)
    """)
    assert len(found) == 5
    assert {severity for stop in found for _, severity, _ in told(stop)} == {"info"}


def test_a_leafs_failing_hook_leaves_no_gradient_behind(stops: Any) -> None:
    (stop,) = stops("""
        import torch
        x = torch.ones(3, requires_grad=True)
        def bad(gradient):
            raise ValueError("hook")
        x.register_hook(bad)
        try:
            (x * 2).sum().backward()
        except ValueError:
            assert x.grad is None
    """)
    assert stop.tapes[0].failure.type == "ValueError"
    assert [kind for kind, _, _ in told(stop) if kind == "partial-gradients"] == []


def test_inputs_go_by_what_the_call_says(stops: Any) -> None:
    late, both = stops("""
        import torch
        emb = torch.ones(3, 2, requires_grad=True)
        score = (emb * 2).sum()
        torch.autograd.grad(score, [emb[2], emb], allow_unused=True, retain_graph=True)
        pair = [emb * 1, emb * 2]
        wanted = tuple(each * 1 for each in pair)
        torch.autograd.grad(sum(one.sum() for one in wanted), wanted)
    """)
    assert [leaf.name for leaf in late.graph.leaves] == ["emb", "emb[2]"]
    assert [leaf.name for leaf in both.graph.leaves if leaf.target] == ["wanted[0]", "wanted[1]"]


def test_leaves_have_the_line_that_made_them(stops: Any) -> None:
    (stop,) = stops("""
        import torch
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        y = x * x
        y.sum().backward()
    """)
    graph = stop.graph
    (leaf,) = graph.leaves
    origin = graph.columns.origins[leaf.origin]
    assert (Path(origin.file).name, origin.line, origin.code) == (
        "script.py",
        2,
        "x = torch.tensor([2.0, 3.0], requires_grad=True)",
    )
    assert graph.origin(leaf.node) is origin


def test_only_the_inputs_that_the_call_asks_for_are_missed(stops: Any) -> None:
    (stop,) = stops("""
        import torch
        from torch import nn
        encoder, decoder, other = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
        loss = decoder(encoder(torch.ones(1, 2)).detach()).sum()
        torch.autograd.grad(loss, [encoder.weight], allow_unused=True)
    """)
    assert told(stop) == [("cut", "warning", "encoder.weight"), ("missing-gradient", "warning", "encoder.weight")]
    assert [[related.line for related in found.related] for found in stop.findings] == [[4], [4, 5]]
