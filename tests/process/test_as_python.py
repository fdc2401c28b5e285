"""A script under gradscope sees what it sees under python, and ends as it does there."""

from __future__ import annotations

import os
import signal
import sys
import zipfile

import pytest
from children import Scripts

from gradscope.protocol.messages import Died, Ending

SEES_ITSELF = """
    import sys, os, inspect, threading
    print(sys.argv, sys.orig_argv, sys.path, __name__, __file__, __spec__, __doc__, __package__, __annotations__)
    print(type(__loader__), __builtins__, list(globals()), sys.modules["__main__"].__dict__ is globals())
    print(sys.flags, sys.warnoptions, sys.excepthook, sys.gettrace(), sys.getprofile(), os.getcwd())
    print([frame.function for frame in inspect.stack()], "torch" in sys.modules, sys.getrecursionlimit())
    print(sorted(name for name in os.environ), os.environ.get("PYTHONPATH"))
    print([thread.name for thread in threading.enumerate()], sys.stdin.read(), sys.stdin.isatty())
"""


def test_what_a_script_sees_of_itself(scripts: Scripts) -> None:
    scripts.write(SEES_ITSELF)
    scripts.same("script.py", "one", "--two", "-m", stdin="given")


def test_a_module_by_name(scripts: Scripts) -> None:
    scripts.write(SEES_ITSELF, "package/part.py")
    scripts.write("print('package')", "package/__init__.py")
    scripts.same("-m", "package.part", "one")


def test_a_package_by_name(scripts: Scripts) -> None:
    scripts.write(SEES_ITSELF, "package/__main__.py")
    scripts.write("", "package/__init__.py")
    scripts.same("-m", "package", "one")


def test_a_folder_and_a_zip_file(scripts: Scripts) -> None:
    main = scripts.write(SEES_ITSELF, "folder/__main__.py")
    scripts.same("folder")
    with zipfile.ZipFile(scripts.folder / "app.zip", "w") as archive:
        archive.write(main, "__main__.py")
    scripts.same("app.zip")


@pytest.mark.parametrize("arguments", [["nowhere.py"], ["-m", "nowhere"], ["broken.py"], ["empty"]])
def test_nothing_to_run(scripts: Scripts, arguments: list[str]) -> None:
    scripts.write("def (", "broken.py")
    (scripts.folder / "empty").mkdir()
    assert scripts.same(*arguments).code in (1, 2)


def test_a_sitecustomize_of_the_environment_still_runs(scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts.write("import sys; sys.argv[0] == 'script.py' and print('customized', __file__)", "site/sitecustomize.py")
    scripts.write("import sys; print(sys.modules['sitecustomize'].__file__)")
    monkeypatch.setattr("children.ROOT", f"{scripts.folder / 'site'}{os.pathsep}{_root()}")
    assert "customized" in scripts.same("script.py").out


def _root() -> str:
    from children import ROOT

    return str(ROOT)


ENDINGS = {
    "nothing": "pass",
    "exit 0": "import sys; sys.exit()",
    "exit 3": "import sys; sys.exit(3)",
    "exit text": "import sys; sys.exit('a reason')",
    "exit 256": "import sys; sys.exit(256)",
    "raise SystemExit": "raise SystemExit(-1)",
    "os._exit": "import os; print('lost'); os._exit(3)",
    "error": "def deep():\n    raise ValueError('why')\ndeep()",
    "chained": "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('x') from e",
    "group": "raise BaseException('bare')",
    "interrupted": "import signal, os; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(9)",
    "terminated": "import signal, os; os.kill(os.getpid(), signal.SIGTERM); import time; time.sleep(9)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "atexit order": "import atexit\natexit.register(print, 'first'); atexit.register(print, 'second')\nprint('end')",
    "excepthook": "import sys\nsys.excepthook = lambda t, e, tb: print('hook', e, tb.tb_frame.f_code.co_name, tb.tb_next)\n1/0",
    "thread error": "import threading\nt = threading.Thread(target=lambda: 1/0, name='worker'); t.start(); t.join()",
    "thread outlives": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print(1))).start(); print(0)",
    "warning": "import warnings\nwarnings.warn('odd'); warnings.warn('far', stacklevel=9)",
    "print_exc": "import traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n    traceback.print_exc(); traceback.print_stack()",
    "import error": "import nowhere_to_be_found",
    "exec fails": "import os\ntry:\n    os.execv('/nowhere', ['x'])\nexcept OSError as e:\n    print(e)",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_how_a_script_ends(scripts: Scripts, name: str) -> None:
    (scripts.folder / "script.py").write_text(ENDINGS[name] + "\n")
    outcome = scripts.same("script.py")
    ends_by_itself = name not in ("os._exit", "terminated", "segfault")
    assert len(outcome.all(Ending)) == ends_by_itself


def test_the_session_hears_of_an_uncaught_error(scripts: Scripts) -> None:
    path = scripts.write("def deep():\n    raise ValueError('why')\ndeep()\n")
    outcome = scripts.same("script.py")
    died = outcome.only(Died)
    assert (died.type, died.message, died.file, died.line) == ("ValueError", "why", path, 2)
    assert died.traceback == outcome.err


def test_exit_is_no_error(scripts: Scripts) -> None:
    scripts.write("import sys; sys.exit(3)")
    assert scripts.same("script.py").all(Died) == []


def test_signals_end_as_a_shell_says(scripts: Scripts) -> None:
    scripts.write("import os, sys; os.kill(os.getpid(), int(sys.argv[1]))")
    assert scripts.headless("script.py", str(signal.SIGKILL.value)).code == 128 + signal.SIGKILL


def test_what_needs_a_main_module_works(scripts: Scripts) -> None:
    scripts.write(
        """
        import dataclasses, inspect, multiprocessing, os, pickle, subprocess, sys, typing

        @dataclasses.dataclass
        class Pair:
            left: "int"
            right: "typing.Optional[Pair]" = None

        def square(x):
            return x * x

        if __name__ == "__main__":
            print(pickle.loads(pickle.dumps(Pair(1, Pair(2)))), typing.get_type_hints(Pair))
            print(inspect.getsource(Pair), inspect.getsource(sys.modules["__main__"])[:40], inspect.getmodule(square))
            for method in ("spawn", "fork", "forkserver"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    print(method, pool.map(square, range(4)))
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            print(subprocess.run([sys.executable, "-c", "import sys; print(sys.path)"], capture_output=True, text=True).stdout)
        """
    )
    outcome = scripts.same("script.py")
    assert "spawn [0, 1, 4, 9]" in outcome.out
    assert len(outcome.all(Ending)) == 1, "the forked child must not speak"


def test_processes_and_threads_of_the_script_get_the_shells_stack(scripts: Scripts) -> None:
    scripts.write(
        """
        import ctypes, multiprocessing, os, resource, subprocess, threading

        def limit(*_):
            return resource.getrlimit(resource.RLIMIT_STACK)[0]

        def thread_default():
            attributes, size = ctypes.create_string_buffer(128), ctypes.c_size_t()
            ctypes.CDLL(None).pthread_getattr_default_np(attributes)
            ctypes.CDLL(None).pthread_attr_getstacksize(attributes, ctypes.byref(size))
            return size.value

        if __name__ == "__main__":
            print(subprocess.run(["sh", "-c", "ulimit -s"], capture_output=True, text=True).stdout, flush=True)
            os.system("ulimit -s")
            os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "ulimit -s"], os.environ), 0)
            for method in ("spawn", "fork", "forkserver"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(limit, [0]))
            print(thread_default(), flush=True)
        """
    )
    scripts.same("script.py")


def test_a_program_in_the_scripts_place_gets_the_shells_stack(scripts: Scripts) -> None:
    scripts.write("import os; os.execv('/bin/sh', ['sh', '-c', 'ulimit -s'])")
    scripts.same("script.py")


def test_the_main_thread_has_a_deep_stack(scripts: Scripts) -> None:
    scripts.write("import resource; print(resource.getrlimit(resource.RLIMIT_STACK))")
    hard = int(scripts.headless("script.py").out.strip("()\n").split(", ")[1])
    assert scripts.headless("script.py").out == f"({1 << 30 if hard < 0 else min(hard, 1 << 30)}, {hard})\n"


def test_an_interpreter_without_msgspec(scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts.write("raise ImportError(\"No module named 'msgspec'\", name='msgspec')", "hidden/msgspec.py")
    scripts.write("print('never')")
    kept = str(scripts.folder / "reports")
    code = f"""
import os, sys
os.environ["PYTHONPATH"] = {str(scripts.folder / "hidden")!r}
sys.argv = ["driver", {kept!r}, "{{}}", "script.py"]
import runpy
runpy.run_path({str(_driver())!r}, run_name="__main__")
"""
    outcome = scripts.plain("-c", f"import sys; sys.path.insert(0, {_root()!r}); {code!r}; exec({code!r})")
    assert outcome.code == 70
    assert outcome.out == ""
    assert f"gradscope cannot run inside {sys.executable}" in outcome.err
    assert "-m pip install msgspec" in outcome.err
    assert "Traceback" not in outcome.err


def _driver() -> str:
    from children import DRIVER

    return str(DRIVER)
