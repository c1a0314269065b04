"""What a progress line says of the time that samples still to be drawn may take."""

from __future__ import annotations

WORTH_SAYING = 10.0  # seconds
MINUTE, HOUR = 60.0, 3600.0


def time_left(seconds: float, done: int, n_samples: int) -> str:
    """What a line says of the time that is left if all samples are drawn; nothing below ten seconds.

    Examples
    --------
    >>> time_left(30.0, 2, 8), time_left(30.0, 10, 12), time_left(0.0, 0, 19)
    (', up to about 90 s more', '', '')
    >>> time_left(30.0, 2, 19), time_left(30.0, 2, 1000)
    (', up to about 4 min more', ', up to about 4.2 h more')
    """
    left = seconds / done * (n_samples - done) if done else 0.0
    if left < WORTH_SAYING:
        return ""
    if left < 2 * MINUTE:
        words = f"{left:.0f} s"
    else:
        words = f"{left / MINUTE:.0f} min" if left < 2 * HOUR else f"{left / HOUR:.1f} h"
    return f", up to about {words} more"
