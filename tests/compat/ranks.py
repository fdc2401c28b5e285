"""One rank: runs the rows of `rows_ranks` as `harness.check` does. `ranks.py RANK FILE` (where the ranks meet)."""

from __future__ import annotations

import sys
import traceback

import torch
import torch.distributed as dist
from harness import check
from rows import rows_of

rank, meeting = sys.argv[1:3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=2)
for row in rows_of("rows_ranks"):
    if sys.argv[3:] and row.name not in sys.argv[3:]:
        continue
    try:
        check(row)
        print("passed", row.name, flush=True)
    except AssertionError:
        print("failed", row.name, traceback.format_exc(), flush=True)
        break  # the other rank would wait
    dist.barrier()
