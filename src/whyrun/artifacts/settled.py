"""When what can be seen of a file, without reading it, tells that its content is the same.

Every write to a file moves its ctime, but clocks tick: two writes within one tick leave the same time stamps. So they
tell something only if the look at them came more than a tick after the last write.
"""

from __future__ import annotations

_TICK = 20_000_000  # kernel timestamps lag by one jiffy: 1 to 10 ms
_COARSE_TICK = 2_000_000_000  # file systems that keep whole seconds (FAT: two)
_SECOND = 1_000_000_000


def is_settled(mtime_ns: int, ctime_ns: int, now: int) -> bool:
    """`now`: the clock, in nanoseconds, before the file was looked at."""
    coarse = mtime_ns % _SECOND == 0 or ctime_ns % _SECOND == 0
    return max(mtime_ns, ctime_ns) + (_COARSE_TICK if coarse else _TICK) < now
