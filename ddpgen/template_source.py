"""Where the template is: in the installed package, or in the checkout that is being worked on."""

from pathlib import Path

from ddpgen import __version__

SOURCE_URL = "git+ddpgen://template"
RELEASE_TAG = f"v{__version__}"


def template_root() -> Path:
    """Return the folder that holds copier.yml, `project/` and `parts/`."""
    package = Path(__file__).resolve().parent
    packaged = package / "_template"
    return packaged if packaged.is_dir() else package.parent / "template"
