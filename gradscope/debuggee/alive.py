"""Find all living objects of a class, when nothing shorter leads to them: tens of milliseconds in a big process."""

from __future__ import annotations

import gc
from typing import Any


def instances(base: type) -> list[Any]:
    """The instances of the class and of its subclasses that the garbage collector knows of."""
    classes: set[type] = set()
    waiting = [base]
    while waiting:
        one = waiting.pop()
        if one not in classes:
            classes.add(one)
            waiting.extend(type.__subclasses__(one))
    return [thing for thing in gc.get_objects() if type(thing) in classes]
