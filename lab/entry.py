"""How the demos end."""

import ctypes
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def enter(main):
    """Ends the process with main()'s exit code, after Ctrl-C with 130 and without a stack."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        sys.exit(130)


def ends_with_us():
    """A child's `preexec_fn`: even if this process is killed, SIGTERM ends the child.

    The kernel sends it when the thread that starts the child ends, so others than the main thread
    get None.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    return lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
