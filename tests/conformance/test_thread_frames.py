"""Looking at the frames of other threads never hangs, also while the collector runs."""

import subprocess
import sys

ASK = """
import gc, sys, threading, time, weakref
from redelivery.boundary.thread_order import is_blocked

class Node: ...

def leave_a_cycle():
    node = Node()
    node.itself = node
    kept.append(weakref.ref(node, lambda ref: sum(range(50))))
    if len(kept) > 50:
        kept.clear()

def ask():
    while time.monotonic() < end:
        leave_a_cycle()
        is_blocked(main)

gc.set_threshold(1)
sys.setswitchinterval(1e-6)
kept, main, end = [], threading.current_thread(), time.monotonic() + 1
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
"""Within a second, this hangs if the collector may run inside `sys._current_frames`."""


def test_threads_that_look_at_each_other_end() -> None:
    subprocess.run([sys.executable, "-c", ASK], check=True, timeout=30)
