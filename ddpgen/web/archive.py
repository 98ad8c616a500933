"""A project as a zip, which holds byte for byte what `ddpgen new` writes."""

import io
import zipfile
from collections.abc import Mapping

from ddpgen.rendering.texts import File

# A zip has to name a time: the first that it can. Equal projects are equal zips.
TIME = (1980, 1, 1, 0, 0, 0)
_REGULAR, _READ, _RUN = 0o100000, 0o644, 0o755


def pack(name: str, project: Mapping[str, File]) -> bytes:
    """Return a zip with one folder, which holds the files of a project."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, file in project.items():
            entry = zipfile.ZipInfo(f"{name}/{path}", TIME)
            entry.create_system = 3  # Unix: the next number is a file's mode
            entry.external_attr = (_REGULAR | (_RUN if file.executable else _READ)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.text.encode())
    return memory.getvalue()
