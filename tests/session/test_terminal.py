"""The script's terminal: what its output looks like, what is kept for the person's own."""

from __future__ import annotations

import io

from gradscope.session.terminal import BACKLOG, Log, Style, Terminal


def shown(data: bytes, rows: int = 4, columns: int = 20) -> Terminal:
    terminal = Terminal(rows, columns)
    terminal.feed(data)
    while terminal.catch_up():
        pass
    return terminal


def test_a_carriage_return_writes_the_line_again():
    assert shown(b"  10%|#   |\r  50%|##  |\r 100%|####|\r\ndone\r\n").text == " 100%|####|\ndone"


def test_colours_come_as_pieces_without_trailing_blanks():
    terminal = shown(b"ok \x1b[1;31mloss\x1b[0m nan   \r\n")
    assert terminal.line(0) == (("ok ", Style()), ("loss", Style(fg="red", bold=True)), (" nan", Style()))


def test_cursor_up_writes_an_older_line_again():
    assert shown(b"bar 1: 10%\r\nbar 2: 20%\r\n\x1b[2A\rbar 1: 30%\x1b[2B\r").text == "bar 1: 30%\nbar 2: 20%"


def test_what_scrolls_off_stays_in_the_scrollback():
    terminal = shown(b"".join(b"line %d\r\n" % number for number in range(100)))
    assert len(terminal) == 100
    assert [terminal.line(number)[0][0] for number in (0, 50, 99)] == ["line 0", "line 50", "line 99"]


def test_a_long_line_wraps():
    assert shown(b"x" * 25 + b"\r\n").text == "x" * 20 + "\n" + "x" * 5


def test_an_echoed_answer_stands_after_its_prompt():
    terminal = shown(b"name? ")
    assert terminal.cursor == (0, 6)
    terminal.feed(b"Ada\r\n")
    terminal.catch_up()
    assert terminal.text == "name? Ada"


def test_bytes_cut_inside_a_character_are_put_together():
    terminal = shown("ä".encode()[:1])
    terminal.feed("ä".encode()[1:])
    terminal.catch_up()
    assert terminal.text == "ä"


def test_a_smaller_screen_loses_no_line():
    terminal = shown(b"a\r\nb\r\nc\r\nd", rows=10)
    terminal.resize(2, 20)
    assert terminal.text == "a\nb\nc\nd"
    assert terminal.cursor == (3, 1)
    terminal.resize(10, 20)
    terminal.feed(b"\r\ne")
    terminal.catch_up()
    assert terminal.text == "a\nb\nc\nd\ne"


def test_blank_rows_at_the_bottom_go_before_lines_do():
    terminal = shown(b"a\r\nb\r\n", rows=10)
    terminal.resize(3, 20)
    terminal.feed(b"c\r\nd")
    terminal.catch_up()
    assert terminal.text == "a\nb\nc\nd"


def test_rare_sequences_do_not_stop_the_rest():
    assert shown(b"before\r\n\x1b[?1;2m\x1b[?25l\x1b]0;title\x07after\r\n", columns=40).text.splitlines()[0] == "before"
    terminal = shown(b"before\r\n\x1b[?1;2m")
    terminal.feed(b"after\r\n")
    terminal.catch_up()
    assert terminal.text == "before\nafter"


def test_the_script_is_told_where_its_cursor_is():
    terminal = Terminal()
    answers: list[bytes] = []
    terminal.reply = answers.append
    terminal.feed(b"ab\x1b[6n")
    terminal.catch_up()
    assert answers == [b"\x1b[1;3R"]


def test_too_fast_output_keeps_its_end_and_says_what_is_skipped():
    line = b"0123456789abcdef\r\n"
    terminal = shown(line * (3 * BACKLOG // len(line)) + b"the end\r\n", columns=60)
    assert "bytes were too fast to show" in terminal.text
    assert terminal.text.endswith("the end")


def test_what_an_exploring_pass_printed_is_marked_and_not_logged():
    terminal = shown(b"epoch 1")
    terminal.mark("in hook\n")
    terminal.feed(b"epoch 2\r\n")
    terminal.catch_up()
    assert terminal.text == "epoch 1\nin hook\nepoch 2"
    assert terminal.line(1) == (("in hook", Style(marked=True)),)
    assert terminal.line(2) == (("epoch 2", Style()),)
    out = io.BytesIO()
    terminal.log.write(out)
    assert out.getvalue() == b"epoch 1epoch 2\r\n"


def test_the_log_keeps_the_newest_whole_lines():
    log = Log(limit=20)
    for number in range(10):
        log.append(b"line %d\n" % number)
    out = io.BytesIO()
    log.write(out)
    assert out.getvalue().decode() == "… 63 bytes of earlier output are left out\r\nline 9\n"


def test_one_huge_write_is_cut_too():
    log = Log(limit=10)
    log.append(b"0123\n5678\nabc\nd\n")
    out = io.BytesIO()
    log.write(out)
    assert out.getvalue().decode() == "… 10 bytes of earlier output are left out\r\nabc\nd\n"
