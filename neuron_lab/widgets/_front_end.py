"""Whether somebody looks: a widget that nobody draws would only be in the way in a saved notebook."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

# Set by Jupyter's server in a kernel that it starts for an open notebook; nbclient, papermill and `jupyter execute` start theirs without.
_SESSION = "JPY_SESSION_NAME"
# VS Code puts the notebook's path there; it starts kernels itself.
_VSCODE = "__vsc_ipynb_file__"
_COLAB = "google.colab"


def front_end_is_there(shell: Any, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `shell` is a kernel's, started by something that draws widgets: JupyterLab, Notebook, JupyterHub, VS Code or Colab."""
    if getattr(shell, "kernel", None) is None:
        return False
    return _SESSION in environ or _VSCODE in shell.user_ns or _COLAB in sys.modules
