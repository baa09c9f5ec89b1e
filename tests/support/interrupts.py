"""Ctrl-C in the middle of long work."""
import os
import signal
import threading
from contextlib import contextmanager

import pytest


@contextmanager
def interrupted_after(seconds):
    """The block has to end with KeyboardInterrupt, that long after it began: also where the tests run in the background
    of a shell, which makes them ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
