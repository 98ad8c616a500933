"""Builds the page of `ddpgen web` as static files: Python runs in the browser that opens them.

python .ci/page.py FOLDER    puts the page there, to be served by any web server

Python for browsers is Pyodide, from npm. All that a browser loads lies in the folder.
"""

import base64
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import ddpgen
from ddpgen import documents
from ddpgen.fetching import template_source
from ddpgen.web import catalogue, interface, releases, server

Content = tuple[int, bytes]  # mode and bytes of a file

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "npm"
PYODIDE = "pyodide@314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
# What a browser needs of the package; its code for Node and its types stay away.
PARTS = (
    "README.md",
    "pyodide-lock.json",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide.mjs",
    "python_stdlib.zip",
)
LAST = "python.zip"  # is written last: a folder with it is a page
POLICY = server.POLICY.replace("; frame-ancestors 'none'", "").replace(
    "script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'"
)
# The files of the modules that the page's Python imports, beyond those of any Python here.
IMPORTED = """
import sys
before = set(sys.modules)
from ddpgen.web import interface
interface.start().project({})
for name in sorted(sys.modules.keys() - before):
    print(getattr(sys.modules[name], "__file__", None) or "")
"""


def main() -> int:
    """Build the page in the folder that the command line names."""
    if len(sys.argv) != 2:
        print("usage: python .ci/page.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    if folder.exists() and not (folder / LAST).is_file():
        print(f"{folder} is there and holds no page", file=sys.stderr)
        return 2
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(server.PAGE, folder)
    shutil.copytree(server.PAGE.parent / "browser", folder, dirs_exist_ok=True)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    charset = '<meta charset="utf-8">\n'
    for page in folder.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(charset, f"{charset}{policy}\n"), "utf-8")
    (folder / "first.json").write_text(json.dumps(first()), "utf-8")
    (folder / catalogue.FILE).write_text(catalogue.page(), "utf-8")
    unpack_pyodide(folder / "pyodide")
    with tempfile.TemporaryDirectory() as work:
        releases.prepare(Path(work) / "unpacked", Path(work) / "kept")
        found = dict(below(Path(work) / "kept", "ddpgen/_releases"))
    (folder / "releases.zip").write_bytes(zipped(found))
    (folder / LAST).write_bytes(zipped(needed()))
    return 0


def first() -> dict[str, object]:
    """Return the replies to all calls of a page without answers, until its user answers.

    The keys are the names of the calls and their arguments, as the page writes them.
    """
    page = interface.start()
    none: dict[str, object] = {"given": {}, "base": None}
    calls = [("read", {"text": ""}), ("project", none)]
    calls += [("file", {**none, "path": file["path"]}) for file in page.project({})["files"]]
    return {
        f"{name} {json.dumps(arguments, separators=(',', ':'))}": json.loads(
            str(page.call(name, json.dumps(arguments)))
        )
        for name, arguments in calls
    }


def needed() -> dict[str, Content]:
    """Return what the page's Python needs: modules of ddpgen, libraries, the template."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    own = Path(ddpgen.__file__).parents[1]
    files: dict[str, Content] = {}
    for module in map(Path, filter(None, done.stdout.splitlines())):
        if module.is_relative_to(own / "ddpgen"):
            for file in (module, *module.parent.glob("*.toml")):
                files[str(file.relative_to(own))] = content(file)
        elif module.parent.parent.name == "site-packages" and module.name == "__init__.py":
            # Libraries without their parts in C, for each of which there is one in Python.
            files |= {
                n: c for n, c in below(module.parent, module.parent.name) if n.endswith(".py")
            }
    files["ddpgen/_docs/pitfalls.md"] = content(documents.folder() / "pitfalls.md")
    return files | dict(below(template_source.template_root(), "ddpgen/_template"))


def below(root: Path, name: str) -> Iterator[tuple[str, Content]]:
    """Yield the files below a folder, with paths that begin with a name."""
    for file in sorted(root.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and ".git" not in file.parts:
            yield f"{name}/{file.relative_to(root)}", content(file)


def content(file: Path) -> Content:
    """Return the mode and the bytes of a file."""
    return file.stat().st_mode, file.read_bytes()


def zipped(files: dict[str, Content]) -> bytes:
    """Return a zip of files."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (mode, text) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return memory.getvalue()


def unpack_pyodide(folder: Path) -> None:
    """Put Pyodide into a folder, from npm or from an earlier time."""
    package = KEPT / f"{PYODIDE.replace('@', '-')}.tgz"
    if not package.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            command = ["npm", "pack", "--silent", "--pack-destination", work, PYODIDE]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            shutil.move(next(Path(work).iterdir()), package)
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if found != SHA512:
        package.unlink()
        raise SystemExit(f"{PYODIDE} is not the package that was tried: sha512-{found}")
    folder.mkdir()
    with tarfile.open(package) as archive:
        for name in PARTS:
            if content := archive.extractfile(f"package/{name}"):
                (folder / name).write_bytes(content.read())


if __name__ == "__main__":
    sys.exit(main())
