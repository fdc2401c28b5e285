from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
import torch

from gradscope.debuggee.seeds import Root, SeedError, numbered, parse_seed

J = torch.zeros(2)
GRID = torch.zeros(2, 3)
SCALAR = torch.zeros(())


@pytest.mark.parametrize(
    ("text", "root", "expected"),
    [
        ("1,10", J, [1.0, 10.0]),
        ("[1, 10]", J, [1.0, 10.0]),
        ("1e-3,-.5", J, [0.001, -0.5]),
        ("nan,-inf", J, [float("nan"), float("-inf")]),
        ("3", GRID, [[3.0] * 3] * 2),
        ("1,2,3,4,5,6", GRID, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        ("7", SCALAR, 7.0),
        ("ones", J, [1.0, 1.0]),
        ("ones()", J, [1.0, 1.0]),
        ("zeros", J, [0.0, 0.0]),
        ("sum", J, [1.0, 1.0]),
        ("mean", J, [0.5, 0.5]),
        ("onehot(1)", J, [0.0, 1.0]),
        ("onehot(-1)", J, [0.0, 1.0]),
        ("onehot(4)", GRID, [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        ("onehot(1, 2)", GRID, [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        ("onehot(0)", SCALAR, 1.0),
        ("torch.linspace(0, 1, 2)", J, [0.0, 1.0]),
        ("torch.tensor([1, 10])", J, [1.0, 10.0]),
        ("[[1, 2, 3], [4, 5, 6]]", GRID, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        ("2 ** 3", SCALAR, 8.0),
    ],
)
def test_what_is_typed(text: str, root: torch.Tensor, expected: object) -> None:
    seed = parse_seed(text, root)
    assert (seed.shape, seed.dtype) == (root.shape, root.dtype)
    assert str(seed.tolist()) == str(torch.tensor(expected).tolist())


def test_scaling_the_present_seed() -> None:
    present = torch.tensor([1.0, 10.0])
    assert parse_seed("*2", J, present).tolist() == [2.0, 20.0]
    assert parse_seed("*-1", J, present).tolist() == [-1.0, -10.0]
    assert parse_seed("/ 4", J, present).tolist() == [0.25, 2.5]
    assert parse_seed("*3", J).tolist() == [3.0, 3.0]
    assert present.tolist() == [1.0, 10.0]


def test_names_of_the_script() -> None:
    weights = torch.tensor([5.0, 6.0])
    frame = sys._getframe()
    seed = parse_seed("weights * 2", J, None, frame)
    assert seed.tolist() == [10.0, 12.0]
    assert parse_seed("weights", J, None, frame).data_ptr() != weights.data_ptr()


def test_random_seeds_leave_the_generators_alone() -> None:
    state, python = torch.get_rng_state(), random.getstate()
    parse_seed("randn", J)
    parse_seed("torch.randn(2)", J)
    parse_seed("random.random()", J, frame=sys._getframe())
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python


def test_randn_is_another_sample_each_time_and_its_number_gives_it_again() -> None:
    first, second = numbered("randn"), numbered(" randn() ")
    assert first.startswith("randn(")
    assert first != second
    assert parse_seed(first, J).tolist() != parse_seed(second, J).tolist()
    assert parse_seed(first, J).tolist() == parse_seed(first, J).tolist()
    assert parse_seed("randn", GRID).tolist() != parse_seed("randn", GRID).tolist()
    assert [numbered(text) for text in (first, "torch.randn(2)", "1,10")] == [first, "torch.randn(2)", "1,10"]
    many = parse_seed("randn", torch.zeros(10_000))
    assert abs(many.mean().item()) < 0.05
    assert abs(many.std().item() - 1) < 0.05


@pytest.mark.parametrize("text", ["exit()", "quit(3)", "sys.exit('bye')", "Stop()", "*exit()"])
def test_an_expression_cannot_end_the_script(text: str) -> None:
    class Raising(BaseException):
        pass

    def Stop() -> None:
        raise Raising("no more")

    with pytest.raises(SeedError) as caught:
        parse_seed(text, J, None, sys._getframe())
    assert caught.value.what == f"{text.removeprefix('*')!r} cannot be computed"
    assert (
        caught.value.why
        == {
            "exit()": "SystemExit",
            "*exit()": "SystemExit",
            "quit(3)": "SystemExit: 3",
            "sys.exit('bye')": "SystemExit: bye",
            "Stop()": "Raising: no more",
        }[text]
    )
    assert not sys.stdin.closed


def test_the_person_can_give_up_an_expression() -> None:
    def long() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parse_seed("long()", J, None, sys._getframe())


def test_files(tmp_path: Path) -> None:
    torch.save(torch.tensor([1.0, 10.0]), tmp_path / "seed.pt")
    (tmp_path / "seed.json").write_text(json.dumps([2, 20]))
    assert parse_seed(f"@{tmp_path}/seed.pt", J).tolist() == [1.0, 10.0]
    assert parse_seed(f"@{tmp_path}/seed.json", J).tolist() == [2.0, 20.0]
    with pytest.raises(SeedError, match="cannot read a seed"):
        parse_seed(f"@{tmp_path}/none.pt", J)


def test_complex_and_other_dtypes() -> None:
    root = Root((2,), torch.complex64, torch.device("cpu"))
    assert parse_seed("1,2j", root).tolist() == [1 + 0j, 2j]
    assert parse_seed("0.1", Root((), torch.float64, torch.device("cpu"))).item() == 0.1
    assert parse_seed("1,10", Root((2,), torch.bfloat16, torch.device("cpu"))).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("text", "root", "says"),
    [
        ("1,2,3", J, "3 cells for 2 elements"),
        ("torch.ones(3)", J, "seed  3"),
        ("torch.ones(3, 2)", GRID, "reshape it to 2×3"),
        ("onehot(2)", J, "outside"),
        ("onehot(x)", J, "cannot be computed"),
        ("nothing_of_that_name", J, "NameError"),
        ("1 +", J, "no expression"),
        ("", J, "no seed"),
        ("'text'", J, "not numbers"),
        ("1j,2", J, "real"),
        ("torch.ones(2) * 1j", J, "real"),
        ("1/0", J, "ZeroDivisionError"),
    ],
)
def test_what_makes_no_seed(text: str, root: torch.Tensor, says: str) -> None:
    with pytest.raises(SeedError) as caught:
        parse_seed(text, root)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_root_and_seed_stand_side_by_side() -> None:
    with pytest.raises(SeedError) as caught:
        parse_seed("torch.ones(2, 2)", Root((2, 3), torch.float32, torch.device("cpu"), "logits"))
    assert caught.value.what.splitlines()[1:] == ["  logits  2×3  float32  cpu", "  seed    2×2  float32  cpu"]
    assert "6 cells" in caught.value.hint
