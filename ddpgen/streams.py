"""The three streams of a process, which the caller may have closed, or led to a full disk.

Little is imported here, so that help answers at once.
"""

import errno
import io
import os
import sys

_NOT_WRITTEN = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def prepare() -> None:
    """Let each stream be there, and let output take any text.

    A stream that is closed leads nowhere from here on. Else the next file to be opened would get
    the stream's number, and what a program of ours says would stand in that file.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
            if nowhere != number:
                os.close(nowhere)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_lost(error: OSError) -> bool:
    """Return whether something could not be written. Then say so, and let output go nowhere.

    Of a pipe whose reader has left nothing is said.
    """
    if error.errno not in _NOT_WRITTEN or error.filename is not None:
        return False
    if error.errno != errno.EPIPE:
        print(f"ddpgen: cannot write: {error.strerror}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes at its end, too
    return True
