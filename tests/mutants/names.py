"""What the files of a program name, and which names one might take for one another."""

import ast
from collections.abc import Iterable
from typing import NamedTuple

# Names and attributes of one type, that a hurried editor takes for one another.
ALIKE = [
    {"rank", "local_rank", "world_size"},
    {"rank", "num_replicas"},
    {"total_size", "num_samples"},
    {"steps_per_epoch", "total_steps"},
    {"loss", "norm"},
    {"step", "updates"},
    {"sum_over_ranks", "max_over_ranks"},
    {"minimum", "maximum"},
    {"min", "max"},
    {"any", "all"},
    {"zeros", "ones"},
    {"MAX", "SUM", "MIN"},
    {"bfloat16", "float16"},
    {"float32", "float64"},
    {"SIGTERM", "SIGINT", "SIGUSR1"},
    {"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"cpu", "cuda"},
    {"nccl", "gloo"},
]


class Program(NamedTuple):
    """What all files of a program say: types of parameters and fields, and who has what."""

    parameters: dict[str, list[str]]  # by function; of two with one name none
    fields: list[dict[str, str]]  # of each class
    attributes: set[tuple[str, str]]  # what is read of what


def read(texts: Iterable[str]) -> Program:
    """Look a program through."""
    program = Program({}, [], set())
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        match node:
            case ast.FunctionDef(name, args):
                plain = [a for a in args.args if a.arg not in ("self", "cls")]
                kinds = [ast.unparse(a.annotation) if a.annotation else "" for a in plain]
                program.parameters[name] = [] if name in program.parameters else kinds
            case ast.ClassDef(body=body):
                lines = [part for part in body if isinstance(part, ast.AnnAssign)]
                fields = {ast.unparse(line.target): ast.unparse(line.annotation) for line in lines}
                program.fields.append(fields)
                program.parameters[node.name] = list(fields.values())
            case ast.Attribute(ast.Name(owner) | ast.Attribute(attr=owner), attr):
                program.attributes.add((owner, attr))
    return program


class Scope(NamedTuple):
    """Where a statement is: names that are known there, and those of its function by their type."""

    program: Program
    modules: frozenset[str]
    function: str
    known: frozenset[str]
    types: dict[str, str]

    def inside(self, node: ast.stmt) -> "Scope":
        """What the statements in a class or function see."""
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            return self
        name = f"{self.function}.{node.name}".lstrip(".")
        if isinstance(node, ast.ClassDef):
            return self._replace(function=name)
        arguments = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        types = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation}
        known = self.known | stored(node) | {a.arg for a in arguments}
        return self._replace(function=name, known=known, types=types)

    def like(self, name: str) -> set[str]:
        """Known names that one might write for this one."""
        kind = self.types.get(name)
        same = {other for other, type_ in self.types.items() if type_ == kind} if kind else set()
        return (same | alike(name) & self.known) - {name}

    def other_attributes(self, owner: ast.expr, name: str) -> set[str]:
        """Attributes that one might write for this one, and that are there."""
        if isinstance(owner, ast.Name | ast.Attribute):
            word = owner.id if isinstance(owner, ast.Name) else owner.attr
            foreign = self.is_module(owner) and word not in self.program.parameters
            read = {o for o in alike(name) if (word, o) in self.program.attributes}
            if foreign and word in ("torch", "ReduceOp", "signal"):
                read |= alike(name)
        else:
            read = set()
        if self.is_module(owner) or name in self.program.parameters:  # or it is a method
            return read
        for fields in self.program.fields:
            if name in fields:
                read |= {o for o, kind in fields.items() if kind == fields[name]}
        return read - {name}

    def is_module(self, node: ast.expr) -> bool:
        """Whether it is a module, or something of one."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.modules

    def may_swap(self, call: ast.Call, index: int) -> bool:
        """Whether two arguments in a row could be taken for one another."""
        pair = call.args[index : index + 2]
        if any(isinstance(a, ast.Starred | ast.Lambda) for a in pair):
            return False
        if kinds := self.program.parameters.get(called(call)):
            return index + 1 < len(kinds) and kinds[index] == kinds[index + 1]
        return len({isinstance(a, ast.Constant) for a in pair}) == 1


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def stored(node: ast.AST) -> frozenset[str]:
    """The names that are given a value somewhere in it."""
    names = [
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    defined = [getattr(n, "name", "") for n in getattr(node, "body", [])]
    return frozenset([*names, *defined])


def alike(name: str) -> set[str]:
    """The other names of its groups."""
    return set().union(*(group for group in ALIKE if name in group)) - {name}


def called(call: ast.Call) -> str:
    """The name of a function, without its module."""
    function = call.func
    return getattr(function, "attr", None) or getattr(function, "id", "")


def modules(tree: ast.Module) -> frozenset[str]:
    """The modules that a file imports, as it calls them."""
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = [alias.asname or alias.name.partition(".")[0] for n in imports for alias in n.names]
    return frozenset(name for name in names if name.islower() or name == "F")
