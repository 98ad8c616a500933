"""Which modules run together: a module, what it imports, and what imports it."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from ddpgen.checking.reading.expressions import Function, last_part, source
from ddpgen.checking.reading.programs import Module, Program, once

# What a training calls, and an evaluation or a measurement of the network does not.
_STEPS = ("backward", "step")


@once
def uses_ddp(module: Module) -> bool:
    """Whether the module itself uses torch.distributed or DDP; RPC or checkpoints are neither."""
    names = {*module.imported, *(name for _, name in module.calls)}
    others = ("rpc", "autograd", "optim", "checkpoint")
    other = tuple(f"torch.distributed.{part}" for part in others)
    return any(
        (name.startswith("torch.distributed") and not name.startswith(other))
        or name.endswith(("DistributedDataParallel", ".DistributedSampler"))
        for name in names
    )


def runs_ddp(root: Module, closure: frozenset[Module]) -> bool:
    """Whether a program uses DDP, rather than a module that also has functions for it."""
    if uses_ddp(root):
        return True
    functions = [(m, f) for m in closure for named in m.functions.values() for f in named]
    using = {
        _name(m, f)
        for m, f in functions
        if any(isinstance(n, ast.Call) and _forms_world(m.name(n.func)) for n in m.below(f))
    }
    classes = [n for m in closure for n in m.nodes if isinstance(n, ast.ClassDef)]
    while (
        new := {
            *(_name(m, f) for m, f in functions if _reads(m, f) & using),
            *(c.name for c in classes if {last_part(source(base)) for base in c.bases} & using),
        }
        - using
    ):
        using |= new
    at_import = any(_forms_world(n) and m.function(c) is None for m in closure for c, n in m.calls)
    return at_import or bool(_reads(root, root.tree) & using)


def _name(module: Module, function: Function) -> str:
    """The name by which a function is called: a constructor, by that of its class."""
    owner = module.parents[function]
    made = function.name in ("__init__", "__new__", "__post_init__")
    return owner.name if made and isinstance(owner, ast.ClassDef) else function.name


def _forms_world(name: str) -> bool:
    return name.endswith(("init_process_group", "DistributedDataParallel", "init_device_mesh"))


@once
def _reads(module: Module, node: ast.AST) -> set[str]:
    """The names in a part of a module."""
    below = module.below(node)
    return {n.id for n in below if isinstance(n, ast.Name)} | {
        n.attr for n in below if isinstance(n, ast.Attribute)
    }


def group(modules: list[Module]) -> None:
    """Give each module its program: all distributed programs that it is a part of."""
    known = {module.path.resolve(): module for module in modules}
    names = {part for path in known for part in path.with_suffix("").parts}
    needs = {module: set(_local_imports(module, known, names)) for module in modules}
    wanted = set().union(*needs.values()) if needs else set()
    closures = {module: _closure(module, needs) for module in modules}
    roots = [m for m in modules if m not in wanted or _starts(m, closures[m])] or modules
    covered = frozenset().union(*(closures[root] for root in roots))
    roots += [m for m in modules if m not in covered]  # circles
    with_ddp = dict.fromkeys(closures[r] for r in roots if runs_ddp(r, closures[r]))
    programs: dict[frozenset[Module], Program] = {}
    for module in modules:
        around = [closure for closure in with_ddp if module in closure]
        members = frozenset().union(*(_trainings(around) or [closures[module]]))
        if members not in programs:
            programs[members] = Program(sorted(members, key=lambda m: m.path), bool(around))
        module.program = programs[members]
        module.needs = closures[module]
        module.library = module not in roots


def _starts(module: Module, closure: frozenset[Module]) -> bool:
    """Whether a module is a program with DDP, even if another one uses parts of it."""
    guards = (n for n in module.tree.body if isinstance(n, ast.If) and "__name__" in source(n.test))
    return any(guards) and runs_ddp(module, closure)


def _trainings(closures: list[frozenset[Module]]) -> list[frozenset[Module]]:
    """The programs that train, if any do, without those that add something around one of them.

    What only a measurement of the training or a check before it does is not done in training.
    """
    training = [c for c in closures if all(any(_calls(m, n) for m in c) for n in _STEPS)]
    chosen = training or closures
    return [closure for closure in chosen if not any(other < closure for other in chosen)]


def _calls(module: Module, name: str) -> bool:
    return next(module.called(name), None) is not None


def _closure(module: Module, needs: dict[Module, set[Module]]) -> frozenset[Module]:
    found, todo = {module}, [module]
    while todo:
        new = needs[todo.pop()] - found
        found |= new
        todo += new
    return frozenset(found)


def _local_imports(module: Module, known: dict[Path, Module], names: set[str]) -> Iterator[Module]:
    folder = module.path.resolve().parent
    for name in module.imported:
        relative = len(name) - len(name.lstrip("."))
        parts = [part for part in name.split(".") if part]
        if parts and parts[0] not in names:
            continue  # of another package
        starts: Iterable[Path] = (folder, *folder.parents)
        if relative:
            starts = [(folder, *folder.parents)[relative - 1]]
        for start in starts:
            hit = _file(start, parts, known)
            if hit:
                if hit is not module:
                    yield hit
                break


def _file(start: Path, parts: list[str], known: dict[Path, Module]) -> Module | None:
    """The module of a dotted name, or of all but its last part, which is then a name in it."""
    for end in (len(parts), len(parts) - 1):
        if end > 0:
            path = start.joinpath(*parts[:end])
            for candidate in (path.with_suffix(".py"), path / "__init__.py"):
                if candidate in known:
                    return known[candidate]
    return None
