"""For every tier."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with SIGINT ignored, and children inherit that: nothing could be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
