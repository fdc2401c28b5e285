"""What those who watch calls of torch under the function mode are told of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

Watcher = Callable[[Any, tuple[Any, ...], Mapping[str, Any] | None, Any, FrameType, int], None]
"""told of a call that has returned: the function, its arguments, its result, the frame that called, autograd's number before"""

PlaceOf = Callable[[FrameType, Any], int]
"""the number of the place that calls a function in a frame, for `Places.origin`"""
