"""A JupyterLab on loopback that ends with its test run, whatever ends that."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_START_S = 60
_STOP_S = 15
_PR_SET_PDEATHSIG = 1
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "apputils-extension/themes": {"theme": "JupyterLab Light", "adaptive-theme": False},
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
_FOLDERS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
    "MPLCONFIGDIR",
)


@dataclass(frozen=True, slots=True)
class Server:
    """Where it listens and the folder it serves."""

    url: str
    token: str
    folder: Path

    def get(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(f"{self.url}{path}?token={self.token}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            content: bytes = answer.read()
        return content


@contextmanager
def jupyterlab(home: Path) -> Iterator[Server]:
    """Serve `home`/notebooks; settings, run-time files and everything else Jupyter writes stay in `home`."""
    served = home / "notebooks"
    served.mkdir()
    for name, values in _SETTINGS.items():
        path = home / "JUPYTERLAB_SETTINGS_DIR" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    server = Server(f"http://127.0.0.1:{_free_port()}", secrets.token_hex(16), served)
    with open(home / "server.log", "wb") as log:
        process = subprocess.Popen(
            _command(server),
            cwd=home,
            env={**os.environ, **{name: str(home / name) for name in _FOLDERS}, "PYTHONPATH": _search_path()},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            _wait(server, process, home / "server.log")
            yield server
        finally:
            _stop(server, process)


def _command(server: Server) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={server.url.rpartition(':')[2]}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={server.token}",
        f"--ServerApp.root_dir={server.folder}",
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]


def _search_path() -> str:
    """Kernels import what is tested here, not what is installed."""
    own = [ROOT, ROOT / "magics", ROOT / "neuron_lab/emulator/api/site"]
    return os.pathsep.join([*map(str, own), os.environ.get("PYTHONPATH", "")])


def _end_with_parent() -> None:
    """Linux: the server is interrupted when the test run dies; it then ends its kernels."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            server.get("/api/status")
            return
        except OSError:  # not there yet, or slow to answer
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}") from None
            time.sleep(0.1)


def _stop(server: Server, process: subprocess.Popen[bytes]) -> None:
    try:
        server.get("/api/shutdown", "POST")
        process.wait(_STOP_S)
    except (OSError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
