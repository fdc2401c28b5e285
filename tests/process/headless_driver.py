"""Runs a script headless with a session that only configures: `headless_driver.py REPORTS CONFIGURE ARGUMENTS…`.

A process of its own, so that what the script prints can be captured and compared with what plain python prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from gradscope.protocol.channel import Closed
from gradscope.protocol.messages import Configure, Hello, Report
from gradscope.session.launcher import launch


def main() -> int:
    kept, configure, *arguments = sys.argv[1:]
    reports: list[Report] = []
    launched = launch(arguments, headless=True)
    with launched.signals_shared():
        try:
            while True:
                report = launched.channel.receive()
                reports.append(report)
                if isinstance(report, Hello):
                    launched.channel.send(msgspec.json.decode(configure, type=Configure))
        except Closed:
            code = launched.wait(60)
    Path(kept).write_bytes(msgspec.msgpack.encode(reports))
    return code


if __name__ == "__main__":
    sys.exit(main())
