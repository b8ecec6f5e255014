"""A timer with absolute deadlines on CLOCK_MONOTONIC (Linux timerfd): event-loop timers round to whole milliseconds."""

from __future__ import annotations

import ctypes
import os
import time

_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_long), ("nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class DeadlineTimer:
    """One timerfd. `fd` becomes readable at the deadline; arming again makes it unreadable until the new one."""

    def __init__(self) -> None:
        """Raises OSError where the system has no timerfd."""
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._settime = libc.timerfd_settime
        self._settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._spec = _Itimerspec()
        self._value = self._spec.value
        self._address = ctypes.addressof(self._spec)

    def arm(self, deadline: float) -> None:
        """Fire at `deadline` seconds of CLOCK_MONOTONIC; at once when that is past."""
        seconds = int(deadline)
        self._value.sec = seconds
        # a deadline of exactly zero would disarm the timer
        self._value.nsec = max(1, int((deadline - seconds) * 1e9))
        self._settime(self.fd, _TFD_TIMER_ABSTIME, self._address, None)

    def close(self) -> None:
        """Release the descriptor; safe to repeat."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
