"""What a training step costs with `--break nan` armed, beside anomaly mode: `python tests/bench/bench_break.py [name …]`.

Ratios of processor time, the least of interleaved runs on one thread. Everything that the program installs is installed.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable

import bench_origins
import torch

from gradscope.debuggee.capture import capture
from gradscope.debuggee.link import Link
from gradscope.debuggee.serve import Server
from gradscope.protocol.channel import Channel
from gradscope.protocol.messages import Configure, Request

Forward = Callable[[], torch.Tensor]


def conv() -> Forward:
    net: list[torch.nn.Module] = []
    width = 3
    for _ in range(10):
        net += [torch.nn.Conv2d(width, 16, 3, padding=1), torch.nn.ReLU()]
        width = 16
    model, images = torch.nn.Sequential(*net), torch.randn(8, 3, 32, 32)
    return lambda: model(images).square().mean()


def training(forward: Forward) -> Callable[[], None]:
    """One step of training."""
    leaves = [leaf.variable for leaf in capture([forward()]).leaves if leaf.variable is not None]
    optimizer = torch.optim.SGD(leaves, lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        forward().backward()
        optimizer.step()

    return step


def armed(work: Callable[[], float], condition: str) -> float:
    """What the work takes while the condition is armed."""
    ours, other = socket.socketpair()
    server = Server(Link(Channel(ours, Request)), Configure(stop_at="never", breaks=[condition]))  # type: ignore[arg-type]
    server.torch_imported(torch)
    try:
        return work()
    finally:
        server.detach()
        other.close()


def seconds(step: Callable[[], None], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        step()
        best = min(best, time.thread_time() - start)
    return best


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    works = {"rnn2k": (bench_origins.rnn2k, 3, 4.0), "gpt": (bench_origins.gpt, 20, 2.5), "conv": (conv, 10, 2.5)}
    for name in sys.argv[1:] or works:
        make, repeats, limit = works[name]
        step = training(make())
        step()
        plain = nan = anomaly = float("inf")
        for _ in range(5):  # in turns, so that a busy machine slows all of them alike
            plain = min(plain, seconds(step, repeats))
            nan = min(nan, armed(lambda step=step, repeats=repeats: seconds(step, repeats), "nan"))
            with torch.autograd.detect_anomaly(check_nan=True):
                anomaly = min(anomaly, seconds(step, 2))
        ratios = f"armed ×{nan / plain:.2f} (must be ≤ {limit})   anomaly ×{anomaly / plain:.2f}"
        print(f"{name:6} plain {plain * 1e3:7.2f} ms   {ratios}")


if __name__ == "__main__":
    main()
