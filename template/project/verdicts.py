"""The rules of preflight.py: what was found on all ranks, and whether a run can live with it.

FAILED is what breaks a run or spoils it in silence; a note is something to look at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import config
from devices import Device
from links import Links, named, spans
from probes import LOOPBACK, NO_DATA, Disk, Host

OK, NOTE, FAILED = "ok", "note", "FAILED"
