"""A program whose children write to a new cache at once, each in two threads."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from slalom_xai.queries import AnswerCache


def write(writer: int, folder: str, answers: int) -> None:
    """Opens the cache and stores answers one by one."""
    kept = AnswerCache(folder).opened_for("model")
    with ThreadPoolExecutor(2) as pool:
        for number in range(answers):
            pool.submit(kept.keep, f"{writer} {number}", [writer, number])
    assert kept.problems() == ()


def main(folder: str, writers: int, answers: int) -> None:
    """Lets all children go at the same moment, and waits for them."""
    gate, opener = os.pipe()
    children = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)  # returns when the parent closes the other end
            try:
                write(writer, folder, answers)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(opener)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(codes))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
