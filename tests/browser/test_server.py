"""The tier leaves no process behind, whatever ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from tests.browser._server import ROOT

RUNNER = """
import sys, time
from pathlib import Path
from tests.browser._server import jupyterlab
with jupyterlab(Path(sys.argv[1])) as server:
    server.get("/api/kernels", "POST")
    print("up", flush=True)
    time.sleep(600)
"""


def test_server_and_kernel_end_when_their_runner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None and runner.stdout.readline() == "up\n"
        children = psutil.Process(runner.pid).children(recursive=True)
        assert len(children) >= 2, "a server and a kernel"
        runner.kill()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
