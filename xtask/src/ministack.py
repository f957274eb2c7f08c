"""Run ministack until standard input ends, then take the whole process group down.

The parent holds the other end of standard input. However the parent goes (done, failed, killed), that end closes,
so nothing is left behind: neither this process nor the functions that it has started. The parent must have put this
process into a group of its own.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading

scratch = tempfile.mkdtemp(prefix="ministack-")
os.environ["TMPDIR"] = scratch
tempfile.tempdir = scratch


def until_the_parent_is_gone():
    while os.read(0, 4096):
        pass
    shutil.rmtree(scratch, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


threading.Thread(target=until_the_parent_is_gone, daemon=True).start()

from ministack.app import main  # noqa: E402

sys.exit(main())
