"""Keeps a program to itself. Python loads this before the program when the folder is on PYTHONPATH.

A program that would listen on every interface listens on the loopback one, what it would write below /tmp goes to TMPDIR, and it ends when
its standard input does: however its parent goes, nothing is left behind. It knows nothing of the program.
"""

import builtins
import os
import signal
import socket
import threading

LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::ffff:127.0.0.1"}

bind = socket.socket.bind
open_file = builtins.open


def bind_on_loopback(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        address = (LOOPBACK.get(address[0], address[0]), *address[1:])
    return bind(self, address)


def open_in_scratch(file, *args, **kwargs):
    if isinstance(file, str) and file.startswith("/tmp/"):
        file = os.path.join(os.environ["TMPDIR"], os.path.basename(file))
    return open_file(file, *args, **kwargs)


def until_the_parent_is_gone():
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


socket.socket.bind = bind_on_loopback
builtins.open = open_in_scratch
threading.Thread(target=until_the_parent_is_gone, daemon=True).start()
