"""Whether a process stands still because it reads its terminal: then only typing makes it go on.

Linux says in /proc which system call each thread is in. Elsewhere it is not known.
"""

from __future__ import annotations

import os

_READ = {"x86_64": "0", "aarch64": "63"}
_SELECT = {"x86_64": ("23", "270"), "aarch64": ("72",)}
"""`select` and `pselect6`: where readline waits, as pdb has it do"""


def waits_for_input(process: int, terminal: int) -> bool:
    """Whether a thread of the process reads the terminal with this device number."""
    try:
        return any(_reads(process, thread, terminal) for thread in os.listdir(f"/proc/{process}/task"))
    except OSError:  # there is no /proc, or the process is gone
        return False


def _reads(process: int, thread: str, terminal: int) -> bool:
    with open(f"/proc/{process}/task/{thread}/syscall") as file:
        call, *arguments = file.read().split()
    machine = os.uname().machine
    if call == _READ.get(machine):
        descriptor = int(arguments[0], 16)
    elif call in _SELECT.get(machine, ()) and int(arguments[0], 16) == 1:
        descriptor = 0  # the only one that is below 1
    else:
        return False
    return os.stat(f"/proc/{process}/fd/{descriptor}").st_rdev == terminal
