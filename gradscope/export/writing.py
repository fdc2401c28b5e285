"""Writes a file whole or not at all: what fails on the way leaves no file and does no damage to an older one."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gradscope.errors import FileError
from gradscope.settings import STDOUT


def write(path: str, chunks: Iterable[bytes]) -> None:
    """Write `chunks` to `path`, or to stdout for `-`.

    The text goes to a temporary file in the same folder, which takes the name when it is complete and on the disk. A link
    stays a link: what it points to is replaced. Pipes and devices are written to as they are.

    Raises:
        FileError: the file cannot be written.
    """
    with _faults_of(path):
        if path == STDOUT:
            _to_stdout(chunks)
        elif _is_special(path):
            with open(path, "wb") as stream:
                stream.writelines(chunks)
        else:
            _replace(os.path.realpath(path), chunks)


def check_target(path: str) -> None:
    """Find out before anything runs whether `path` could be written.

    Raises:
        FileError: it could not: no such folder, no permission, a folder.
    """
    if path == STDOUT or _is_special(path):
        return
    folder = os.path.dirname(os.path.realpath(path))
    with _faults_of(path):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.path.isdir(folder):
            missing = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
            raise OSError(missing, os.strerror(missing))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _to_stdout(chunks: Iterable[bytes]) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(chunks)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        mute_stdout()
        raise


def mute_stdout() -> None:
    """Nobody reads stdout any more: let go of what is still buffered, or Python complains about it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _replace(path: str, chunks: Iterable[bytes]) -> None:
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".part", dir=folder)
    try:
        with open(descriptor, "wb") as stream:
            stream.writelines(chunks)
            stream.flush()
            os.fchmod(stream.fileno(), _mode_for(path))
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:  # also Ctrl-C: nothing half-written may stay
        os.unlink(temporary)
        raise


def _mode_for(path: str) -> int:
    """The permissions of the file to be replaced, or those of any new file (`mkstemp` makes it private)."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _is_special(path: str) -> bool:
    """A pipe, a device: something that cannot be replaced by a file of that name."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _faults_of(path: str) -> Iterator[None]:
    """Say what is wrong with `path` in words."""
    try:
        yield
    except OSError as error:
        name = "stdout" if path == STDOUT else path
        why, hint = _explain(error, os.path.dirname(path) or ".")
        raise FileError(f"cannot write {name}", why, hint) from error


def _explain(error: OSError, folder: str) -> tuple[str, str]:
    match error.errno:
        case errno.ENOENT:
            return f"there is no folder {folder}", f"create it (mkdir -p {folder}) or name another"
        case errno.ENOTDIR:
            return f"{folder} is not a folder", "name a folder that exists"
        case errno.EACCES | errno.EPERM:
            return f"no permission to write in {folder}", "choose a folder of yours"
        case errno.EROFS:
            return f"{folder} is on a read-only file system", "choose another folder"
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk of {folder} is full", "make room or choose another folder"
        case errno.EISDIR:
            return "it is a folder", "name a file in it"
        case errno.ENAMETOOLONG:
            return "the name is too long", "choose a shorter one"
        case errno.EPIPE:
            return "the program that was to read it has closed its end", ""
        case _:
            return error.strerror or str(error), ""
