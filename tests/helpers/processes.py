"""Commands as processes of their own, of which none outlives its test."""

from __future__ import annotations

import contextlib
import signal
import subprocess


def heard_by_child():
    """Gives a child the usual handler of Ctrl-C, which tests run in the background ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def started(command, **options):
    """A process that hears Ctrl-C and is killed when the test is done with it, whatever happens."""
    process = subprocess.Popen(command, preexec_fn=heard_by_child, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
