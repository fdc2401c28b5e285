"""Does a script wait for something to be typed? No torch is needed to tell."""

from __future__ import annotations

import time

import pytest
from children import Live, Scripts, Start

READERS = {
    "input": "input('ready> ')",
    "a line": "import sys; print('ready> '); sys.stdin.readline()",
    "readline": "import readline; input('ready> ')",
    "a thread": "import threading; print('ready> '); thread = threading.Thread(target=input); thread.start(); thread.join()",
}


def waits(live: Live) -> bool:
    """Also a moment later, for the prompt comes before the reading."""
    deadline = time.monotonic() + 10.0
    while not live.launched.waits_for_input():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("reader", READERS)
def test_a_script_that_reads_its_terminal_waits(scripts: Scripts, start: Start, reader: str) -> None:
    scripts.write(f"{READERS[reader]}\nprint('through')\nimport time\ntime.sleep(60)\n")
    live = start("script.py")
    live.wait_for_text("ready>")
    assert waits(live)
    live.type("Ada\r")
    live.wait_for_text("through")
    assert not live.launched.waits_for_input()


def test_a_script_that_does_something_else_does_not_wait(scripts: Scripts, start: Start, tmp_path) -> None:
    """It sleeps; or reads, but not its terminal; or is gone."""
    scripts.write("print('ready', flush=True)\nimport os\nos.read(os.pipe()[0], 1)\n")
    live = start("script.py")
    live.wait_for_text("ready")
    time.sleep(0.3)
    assert not live.launched.waits_for_input()
    live.launched.kill()
    live.end()
    assert not live.launched.waits_for_input()
