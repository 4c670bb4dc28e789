"""Workers of the fuzz end with the process that started them, however that ends."""

import os
import signal
import subprocess
import sys
import time

from processes import started

PARENT = """
import multiprocessing, time
from fuzz.workers import _end_with_parent

def work(started):
    _end_with_parent()
    started.set()
    time.sleep(60)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    worker = context.Process(target=work, args=(started,), daemon=True)
    worker.start()
    started.wait()
    print(worker.pid, flush=True)
    time.sleep(60)
"""


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, script]
    with started(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        worker = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker)
