import pytest

from gradscope.model.repeats import Repeat, find_repeats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("abc", []),
        ("aab", [Repeat(0, 1, 2)]),
        ("xabababy", [Repeat(1, 2, 3)]),
        ("abcabcabcab", [Repeat(0, 3, 3)]),
        ("aabaabaab", [Repeat(0, 3, 3)]),
        ("aaaabcbcbc", [Repeat(0, 1, 4), Repeat(4, 2, 3)]),
    ],
)
def test_repeats(text, expected):
    assert list(find_repeats([ord(letter) for letter in text])) == expected
