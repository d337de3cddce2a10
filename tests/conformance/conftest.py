"""Every test here runs on the emulated device."""

from __future__ import annotations

from tests.emulated import hbm_limit, neff_cache, nothing_stays_behind

__all__ = ["hbm_limit", "neff_cache", "nothing_stays_behind"]
