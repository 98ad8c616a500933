"""The releases that the tests of updates made."""

from update.conftest import lab, lab_of_worker

__all__ = ["lab", "lab_of_worker"]
