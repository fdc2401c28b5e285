"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.errors import FileError
from gradscope.export.writing import check_target, write


def failing(error: BaseException) -> Iterator[bytes]:
    yield b"half"
    raise error


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_all_pieces(tmp_path: Path) -> None:
    write(str(tmp_path / "a.json"), [b"one", b"", b"two"])
    assert (tmp_path / "a.json").read_bytes() == b"onetwo"
    assert names(tmp_path) == ["a.json"]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write(str(tmp_path / "a.json"), [b"x"])
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_an_older_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.touch(mode=0o640)
    path.chmod(0o640)
    write(str(path), [b"x"])
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [ValueError("a fault of ours"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        write(str(tmp_path / "a.json"), failing(error))
    assert names(tmp_path) == []


def test_a_failure_does_no_damage_to_an_older_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"old")
    with pytest.raises(FileError, match="cannot write"):
        write(str(tmp_path / "a.json"), failing(OSError(errno.ENOSPC, "No space left on device")))
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        write(str(tmp_path / "a.json"), failing(OSError(errno.ENOSPC, "No space left on device")))
    assert caught.value.why == f"the disk of {tmp_path} is full"


def test_a_real_full_device() -> None:
    with pytest.raises(FileError) as caught:
        write("/dev/full", [b"x" * 100_000])
    assert caught.value.why == "the disk of /dev is full"


def test_a_missing_folder(tmp_path: Path) -> None:
    for refuse in (check_target, lambda path: write(path, [b"x"])):
        with pytest.raises(FileError) as caught:
            refuse(str(tmp_path / "no" / "a.json"))
        assert caught.value.why == f"there is no folder {tmp_path / 'no'}"
        assert caught.value.hint == f"create it (mkdir -p {tmp_path / 'no'}) or name another"


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(FileError, match="cannot write") as caught:
        check_target(str(tmp_path / "f" / "a.json"))
    assert caught.value.why == f"{tmp_path / 'f'} is not a folder"


def test_a_folder_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        check_target(str(tmp_path))
    assert caught.value.why == "it is a folder"


def test_no_permission_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(FileError) as caught:
        check_target(str(tmp_path / "a.json"))
    assert caught.value.why == f"no permission to write in {tmp_path}"


def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")
    write(str(tmp_path / "link.json"), [b"new"])
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    check_target(str(pipe))
    write(str(pipe), [b"through"])
    reader.join(5)
    assert read == [b"through"]
    assert names(tmp_path) == ["pipe.json"]


def test_stdout(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    check_target("-")
    write("-", [b"to", b" stdout\n"])
    assert capfdbinary.readouterr().out == b"to stdout\n"


def test_a_long_name(tmp_path: Path) -> None:
    write(str(tmp_path / ("n" * 250 + ".csv")), [b"x"])
    with pytest.raises(FileError) as caught:
        write(str(tmp_path / ("n" * 300 + ".csv")), [b"x"])
    assert caught.value.why == "the name is too long"
    assert names(tmp_path) == ["n" * 250 + ".csv"]
