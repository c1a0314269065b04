"""What a progress line says of the time that samples still to be drawn may take."""

from __future__ import annotations

WORTH_SAYING = 10.0  # seconds


def time_left(seconds: float, done: int, n_samples: int) -> str:
    """What a line says of the time that is left if all samples are drawn; nothing below ten seconds.

    Examples
    --------
    >>> time_left(30.0, 2, 19), time_left(30.0, 10, 12), time_left(0.0, 0, 19)
    (', up to about 255 s more', '', '')
    """
    left = seconds / done * (n_samples - done) if done else 0.0
    return f", up to about {left:.0f} s more" if left >= WORTH_SAYING else ""
