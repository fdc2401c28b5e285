"""Scripts with processes of their own: they print what they print without gradscope, and their own calls are seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import RECORD, Scripts
from harness import Row
from living import living
from rows import rows_of

from gradscope.protocol.messages import Committed
from gradscope.session.view import State


@pytest.mark.parametrize("row", rows_of("rows_workers"), ids=lambda row: row.name)
def test_row(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    scripts = Scripts(tmp_path)
    path = scripts.write(row.source)
    recorded = scripts.same("script.py", configures=[RECORD])
    assert [one.exact for one in recorded.all(Committed)] == ["true"] * row.calls
    stops = 0
    with living(Path(path)) as live:
        while (
            view := live.until(lambda view: view.exit is not None or (view.state is State.STOPPED and view.busy is None))
        ).exit is None:
            stops += 1
            assert view.tape is not None
            assert view.tape.columns.exact == "true"
            live.session.on_next_call()
        live.ended()
        assert [line for line in recorded.out.splitlines() if line not in live.text.splitlines()] == []
    assert stops == row.calls
