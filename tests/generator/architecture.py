"""Who imports whom in ddpgen, drawn in docs/architecture.md: python -m generator.architecture.

Every import counts, also those within functions and those for type checking only.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ddpgen"
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- drawn by tests/generator/architecture.py -->\n", "<!-- end of the drawing -->\n"

# The layers, from top to bottom: a module imports from its own part and from layers below. Parts
# are folders, or modules that lie beside the folders. Parts of one layer do not know each other.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["commands"],
    ["launching", "checking", "web"],
    ["updating", "checking/rules"],
    ["rendering", "checking/registry", "checking/reading"],
    ["asking"],
    ["fetching"],
    ["renaming"],
    ["documents", "errors", "origin", "streams", "__init__"],
]
# The checker knows nothing of templates; of projects the checker knows what was renamed in them.
APART = ("checking", ["renaming", "documents", "errors", "origin", "__init__"])


@cache
def modules() -> dict[str, Path]:
    """The files of all modules by name: path without suffix, a folder for its `__init__`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        found[name.removesuffix("/__init__")] = path
    return found


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports of ddpgen's own modules."""
    return {name: set(_imported(name, path)) - {name} for name, path in modules().items()}


def _imported(name: str, path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            places = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [_module(place) or _module(str(node.module)) for place in places]
        elif isinstance(node, ast.Import):
            found += [_module(alias.name) for alias in node.names]
        elif isinstance(node, ast.Name) and node.id == "__path__":  # imports all modules beside it
            found += [other for other in modules() if other.rpartition("/")[0] == name]
    return [module for module in found if module]


def _module(dotted: str) -> str:
    """The module of a dotted name, or "" if it is no module of ddpgen."""
    package, _, rest = dotted.partition(".")
    name = rest.replace(".", "/") or "__init__"
    return name if package == PACKAGE.name and name in modules() else ""


def part(module: str) -> str:
    """The part that a module belongs to: the longest name among the layers that it begins with."""
    names = [name for layer in LAYERS for name in layer]
    return max((n for n in names if f"{module}/".startswith(f"{n}/")), key=len)


def layer(module: str) -> int:
    """The number of a module's layer, from the top."""
    return next(number for number, layer in enumerate(LAYERS) if part(module) in layer)


def circle() -> list[str]:
    """Modules that import each other in a circle; empty if there is none."""
    done: set[str] = set()

    def follow(way: list[str]) -> list[str]:
        for other in sorted(imports()[way[-1]] - done):
            if other in way:
                return [*way[way.index(other) :], other]
            if found := follow([*way, other]):
                return found
        done.add(way[-1])
        return []

    return next(filter(None, (follow([name]) for name in imports() if name not in done)), [])


def _purpose(module: str) -> str:
    """The first sentence of a module's documentation."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    text = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    return text.rstrip(".").replace("|", "\\|")


def drawing() -> str:
    """The layers with their arrows, and a table of all modules."""
    used: dict[str, set[str]] = {}
    for module, others in imports().items():
        used.setdefault(part(module), set()).update(part(other) for other in others)
    apart = [name for layer in LAYERS for name in layer if name.startswith(APART[0])]
    others = [name for layer in LAYERS[1:-1] for name in layer if name not in apart]
    lines = ["", "```text"]
    for name in (*others, "", *apart):
        below = [n for layer in LAYERS[:-1] for n in layer if n in used.get(name, set()) - {name}]
        arrows = f"-> {', '.join(map(_label, below))}" if below else ""
        lines.append(f"{_label(name):24}{arrows}".rstrip())
    lines += ["", "documents.py, errors.py, origin.py    import none of them", "```", ""]
    for folder in filter(_is_folder, (*others, *apart)):
        lines += [
            f"**`{folder}/`** {_purpose(folder)}.",
            "",
            "| module | what it is |",
            "|---|---|",
        ]
        inside = [name for name in modules() if part(name) == folder and name != folder]
        lines += [f"| `{m.removeprefix(f'{folder}/')}.py` | {_purpose(m)} |" for m in inside]
        lines.append("")
    return "\n".join(lines)


def _is_folder(name: str) -> bool:
    return name in modules() and modules()[name].name == "__init__.py"


def _label(name: str) -> str:
    return f"{name}/" if _is_folder(name) else f"{name}.py" if name else ""


def drawn(page: str) -> str:
    """A page with the drawing as it is today."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{drawing()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
