"""A fork server that cannot load vLLM says so in one sentence, and goes away."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from metrobench.errors import UnreachableError
from metrobench.worker import osproc
from metrobench.worker.launcher import ForkServer


@pytest.fixture
def with_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a module of this name and text first on the fork server's path."""

    def put(name: str, text: str) -> None:
        folder = tmp_path / "code"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{Path.cwd()}")

    return put


def refusal(tmp_path: Path) -> UnreachableError:
    server = ForkServer(tmp_path / "log")
    with pytest.raises(UnreachableError) as raised:
        server.start()
    assert server._process is None
    assert server._root is None
    return raised.value


def test_vllm_missing(tmp_path: Path, with_code):
    with_code("sitecustomize.py", "import sys\nsys.modules['vllm'] = None\n")
    error = refusal(tmp_path)
    assert error.message == "vLLM is not installed, so there is no embedded worker"
    assert 'pip install "metrobench[cpu]"' in error.hint


def test_vllm_broken(tmp_path: Path, with_code):
    with_code("vllm/__init__.py", "raise RuntimeError('operator torchvision::nms does not exist')\n")
    error = refusal(tmp_path)
    assert error.message == "vLLM does not load: RuntimeError: operator torchvision::nms does not exist"


def test_vllm_that_takes_the_process_down(tmp_path: Path, with_code):
    with_code("vllm/__init__.py", "import os\nos._exit(9)\n")
    error = refusal(tmp_path)
    assert "ended before it was done" in error.message
    assert str(tmp_path / "log") in error.hint


def test_the_unwanted_packages_look_absent_to_vllm(tmp_path: Path, with_code):
    with_code("torchvision/__init__.py", "raise RuntimeError('broken operators')\n")
    with_code("torchvision/_C.so", "")
    with_code("vllm/__init__.py", "import torchvision\n")
    assert "torchvision" in refusal(tmp_path).message
    assert "broken operators" not in refusal(tmp_path).message


def test_a_torchvision_without_compiled_operators_is_kept(tmp_path: Path, with_code):
    with_code("torchvision/__init__.py", "")
    with_code("vllm/__init__.py", "import torchvision\nraise RuntimeError(torchvision.__file__)\n")
    assert str(tmp_path / "code" / "torchvision") in refusal(tmp_path).message


def test_closing_while_vllm_loads_does_not_wait_for_it(tmp_path: Path, with_code):
    with_code("vllm/__init__.py", "import time\ntime.sleep(300)\n")
    server = ForkServer(tmp_path / "log")
    failed: list[BaseException] = []

    def start() -> None:
        try:
            server.start()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    while server._process is None:
        time.sleep(0.01)
    process = server._process
    process.terminate()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(failed[0], UnreachableError)
    assert process.pid not in osproc.process_table()


def test_a_parent_that_dies_while_vllm_loads_takes_it_along(tmp_path: Path, with_code, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with_code("vllm/__init__.py", "import time\ntime.sleep(300)\n")
    code = "import sys, pathlib\nfrom metrobench.worker.launcher import ForkServer\n"
    code += "ForkServer(pathlib.Path(sys.argv[1])).start()"
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "log")])
    deadline = time.monotonic() + 60
    try:
        children: set[int] = set()
        while not children:
            assert time.monotonic() < deadline
            table = osproc.process_table()
            children = {pid for pid, (father, session, _) in table.items() if father == parent.pid and session == pid}
            time.sleep(0.02)
    finally:
        parent.kill()
        parent.wait()
    while children & osproc.process_table().keys():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_unwritable_log_is_an_error_before_anything_starts(tmp_path: Path):
    server = ForkServer(tmp_path / "missing" / "log")
    with pytest.raises(OSError, match="No such file"):
        server.start()
    assert server._root is None


def test_close_twice_is_fine(tmp_path: Path):
    server = ForkServer(tmp_path / "log")
    server.close()
    server.close()
    assert server._process is None
