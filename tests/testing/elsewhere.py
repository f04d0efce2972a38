"""Runs a program as on Windows: without the modules, functions and constants that it lacks.

`python elsewhere.py PROGRAM [ARGUMENT ...]`. The standard library is imported before, because this
is not Windows: its own modules need what is taken away. So are the modules that the environment
variable BEFORE names: libraries that find out where they run when they are installed.
"""

import asyncio
import concurrent.futures
import logging.handlers
import os
import runpy
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from asyncio.base_subprocess import BaseSubprocessTransport
from importlib import import_module

STANDARD = (asyncio, concurrent.futures, logging.handlers, ssl, subprocess, tempfile)
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
MISSING = {
    os: (
        *("O_CLOEXEC", "O_DIRECTORY", "O_DSYNC", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC"),
        *("PRIO_PROCESS", "RTLD_NOW", "SCHED_IDLE", "WNOHANG"),
        *("fchmod", "fchown", "fdatasync", "fork", "forkpty", "fstatvfs", "getegid", "geteuid"),
        *("getgid", "getloadavg", "getpgid", "getpriority", "getsid", "getuid", "killpg", "lockf"),
        *("mkfifo", "nice", "posix_fadvise", "posix_fallocate", "posix_spawn", "pread", "preadv"),
        *("pwrite", "pwritev", "readv", "register_at_fork", "sched_getaffinity"),
        *("sched_setscheduler", "sched_yield", "sendfile", "setpriority", "setsid", "statvfs"),
        *("sync", "sysconf", "uname", "wait", "writev"),
    ),
    signal: ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_kill"),
    socket: ("SO_REUSEPORT",),
}
"""From the sections `Availability` of Python's documentation."""


def become_windows() -> None:
    """Take it all away."""
    kill = signal.SIGKILL  # the standard library of this system kills with it
    for process in (subprocess.Popen, BaseSubprocessTransport):
        process.kill = lambda self: self.send_signal(kill)  # type: ignore[method-assign]
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # as for a module that is missing
    for module, names in MISSING.items():
        for name in names:
            delattr(module, name)
    # The standard library of this system uses what was taken away from Python 3.13 on.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    subprocess._USE_POSIX_SPAWN = False  # type: ignore[attr-defined]
    os.process_cpu_count = os.cpu_count  # type: ignore[attr-defined]
    loop = asyncio.SelectorEventLoop
    for name in ("add_signal_handler", "remove_signal_handler"):
        setattr(loop, name, getattr(asyncio.AbstractEventLoop, name))


if __name__ == "__main__":
    for name in os.environ.get("BEFORE", "").split():
        import_module(name)
    become_windows()
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")
