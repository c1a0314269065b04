"""How much memory this process holds, and the most it held since the last reset (Linux; NaN elsewhere)."""

from __future__ import annotations

from pathlib import Path

OWN = Path("/proc/self")
MEGABYTE = 1e6


def resident() -> float:
    """Memory held now, in MB."""
    return _status("VmRSS")


def peak() -> float:
    """Most memory held since `reset_peak`, in MB."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Let `peak` count from what is held now."""
    if (OWN / "clear_refs").exists():
        (OWN / "clear_refs").write_text("5")


def _status(key: str) -> float:
    if not (OWN / "status").exists():
        return float("nan")
    for line in (OWN / "status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    return float("nan")
