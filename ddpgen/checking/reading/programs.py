"""Programs: modules that run together, and what a name in one of them means in another."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from ddpgen.checking.reading.expressions import (
    Function,
    first_name,
    keyword,
    last_part,
    method_name,
    source,
)
from ddpgen.checking.reading.owners import made_elsewhere, may_be_own
from ddpgen.checking.reading.source import Source

# They place models and shard data themselves, so that what is missing in the source is not missing.
_FRAMEWORK = re.compile(
    "accelerate|colossalai|composer|deepspeed|horovod|ignite|keras|lightning(_fabric)?|"
    "pytorch_lightning|ray|mmengine|oneflow|paddle"
)
# Methods of torch's own objects: another class's method of that name is probably not meant.
_OF_TORCH = re.compile("backward|cpu|cuda|eval|(load_)?state_dict|step|to|train")


class Module(Source):
    """One Python file among those that run together with it.

    Attributes:
        file: the file that holds its text: its path, or the notebook that it is a part of.
        program: all modules that run together with this one; set once they are known.
        needs: this module and all that it imports, directly or not; set then, too.
        library: others import it: what it does if it is run itself is no matter.
        answers: what was found out about the module before, see `once`.
    """

    program: "Program"
    needs: "frozenset[Module]"
    library: bool

    def __init__(self, path: Path, text: str, names: Mapping[str, str] | None = None) -> None:
        super().__init__(path, text, names)
        self.file = path
        self.answers: dict[object, Any] = {}

    def tries_out(self, node: ast.AST) -> bool:
        """Whether a node only runs where a library is started as a program."""
        return self.library and any(
            isinstance(above, ast.If) and "__name__" in source(above.test)
            for above in self.above(node)
        )

    def callees(self, call: ast.Call) -> "list[tuple[Module, Function]]":
        """The functions of the program that a call may mean; none if it is of another package."""
        return self.program.callees(self, call)

    def calls_behind(self, call: ast.Call) -> "Iterator[tuple[Module, ast.Call]]":
        """The calls in the functions of the program that a call may mean."""
        for module, function in self.callees(call):
            yield from ((module, inner) for inner in module.calls_below(function))


P = ParamSpec("P")
R = TypeVar("R")


def once(function: Callable[Concatenate[Module, P], R]) -> Callable[Concatenate[Module, P], R]:
    """Remember the answers of a function about a module, for as long as there is the module."""

    @wraps(function)
    def remembering(module: Module, /, *rest: P.args, **named: P.kwargs) -> R:
        key = (function, *rest)
        if key not in module.answers:
            module.answers[key] = function(module, *rest, **named)
        answer: R = module.answers[key]
        return answer

    return remembering


class Program:
    """Modules that are run together; what one of them does, another need not do.

    Attributes:
        modules: all of them.
        distributed: whether they use torch.distributed or DDP.
    """

    def __init__(self, modules: list[Module], distributed: bool) -> None:
        self.modules = modules
        self.distributed = distributed

    @cached_property
    def framework(self) -> str:
        """The framework that distributes the training, or ""."""
        roots = {name.partition(".")[0] for m in self.modules for name in m.imported_at_once}
        return min(filter(_FRAMEWORK.fullmatch, roots), default="")

    @cached_property
    def functions(self) -> dict[str, list[tuple[Module, Function]]]:
        """Functions and methods of all modules, by name."""
        found: dict[str, list[tuple[Module, Function]]] = defaultdict(list)
        for module in self.modules:
            for name, functions in module.functions.items():
                found[name] += [(module, function) for function in functions]
        return dict(found)

    @cached_property
    def fields(self) -> dict[str, list[tuple[str, str]]]:
        """The attributes that classes state a type for: their class, and the name of the type."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for module in self.modules:
            for node in module.nodes:
                owner = module.parents.get(node)
                if isinstance(node, ast.AnnAssign) and isinstance(owner, ast.ClassDef):
                    name = module.name(node.annotation)
                    found[source(node.target)].append((owner.name, name))
        return dict(found)

    def callees(self, module: Module, call: ast.Call) -> list[tuple[Module, Function]]:
        """The functions of the program that a call may mean; none if it is of another package."""
        name = last_part(module.name(call.func)) or method_name(call)
        found = self.functions.get(name, [])
        meant = [(m, f) for m, f in found if self.means(module, call.func, m, f)]
        for text in self.looked_up(module, call) if self._by_name else ():
            named = self.functions.get(str(text.value), [])
            meant += [(m, f) for m, f in named if isinstance(m.parents[f], ast.ClassDef)]
        return meant

    def looked_up(self, module: Module, call: ast.Call) -> list[ast.Constant]:
        """The texts that a call gives to a function which calls methods by their names."""
        name = last_part(module.name(call.func)) or method_name(call)
        found = [(m, f) for m, f in self.functions.get(name, []) if f in self._by_name]
        if not any(self.means(module, call.func, m, f) for m, f in found):
            return []
        return [node for node in call.args if isinstance(node, ast.Constant)]

    @cached_property
    def _by_name(self) -> set[Function]:
        """The functions that call methods by names which they get: `getattr(x, name)(y)`."""
        calls = [(m, call) for m, call in self.names.get("getattr", []) if len(call.args) == 2]
        calls = [(m, call) for m, call in calls if isinstance(call.args[1], ast.Name)]
        around = [(m.function(c), m.parents[c], c) for m, c in calls]
        return {f for f, a, c in around if f and isinstance(a, ast.Call) and a.func is c}

    @cached_property
    def texts(self) -> dict[str, list[tuple[Module, ast.Constant]]]:
        """Texts that calls get by position; nothing where no function looks up methods."""
        found: dict[str, list[tuple[Module, ast.Constant]]] = defaultdict(list)
        for module in self.modules if self._by_name else ():
            for node in (n for call, _ in module.calls for n in call.args):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found[node.value].append((module, node))
        return dict(found)

    def means(self, module: Module, node: ast.AST, home: Module, function: Function) -> bool:
        """Whether a name or attribute in `module` may be a function (or class) of `home`."""
        method = isinstance(home.parents[function], ast.ClassDef) and function.name != "__init__"
        if isinstance(node, ast.Name):
            return not method and (module is home or node.id in module.imports)
        if not isinstance(node, ast.Attribute) or self.foreign(module, node):
            return False
        place = last_part(module.name(node.value))
        # A variable may be called like a module: `state` of a file state.py.
        known = place in self._places and first_name(node) in module.imports
        if method and place == "self":
            return not known and may_be_own(module, node, home.parents[function], function.name)
        if method:
            others = made_elsewhere(module, node, home.parents[function], self._methods)
            return not (known or others or _OF_TORCH.fullmatch(function.name))
        return known and place in (home.path.stem, home.path.parent.name)

    @cached_property
    def _methods(self) -> dict[str, set[str]]:
        """The methods that each class of the program has itself."""
        classes = [n for m in self.modules for n in m.nodes if isinstance(n, ast.ClassDef)]
        return {c.name: {n.name for n in c.body if isinstance(n, Function)} for c in classes}

    def foreign(self, module: Module, node: ast.AST) -> bool:
        """Whether a dotted name is one of another package."""
        first, _, rest = module.name(node).partition(".")
        return bool(rest) and first in self._foreign[module]

    @cached_property
    def _places(self) -> set[str]:
        """The names of modules and packages."""
        return {part for m in self.modules for part in (m.path.stem, m.path.parent.name)}

    @cached_property
    def _foreign(self) -> dict[Module, set[str]]:
        """The packages that each module imports from elsewhere."""
        own = {part for m in self.modules for part in m.path.with_suffix("").parts} | {""}
        return {m: {name.partition(".")[0] for name in m.imported} - own for m in self.modules}

    @cached_property
    def names(self) -> dict[str, list[tuple[Module, ast.Call]]]:
        """Last part of a called name -> its calls."""
        found: dict[str, list[tuple[Module, ast.Call]]] = defaultdict(list)
        for module in self.modules:
            for name, calls in module.calls_by_name.items():
                found[name] += [(module, call) for call, _ in calls]
        return dict(found)

    @cached_property
    def starts_ranks(self) -> bool:
        """Whether the program starts its ranks itself: `spawn(main)`, `Process(target=main)`."""
        processes = [call for _, call in self.names.get("Process", []) if keyword(call, "target")]
        return bool(processes) or self.calls("spawn", "start_processes")

    def calls(self, *names: str) -> bool:
        """Whether anything with one of these names (their last parts) is called."""
        return any(name in self.names for name in names)

    def called(self, *names: str) -> list[tuple[Module, ast.Call]]:
        """Calls of these names in all modules, as `Module.called` finds them in one."""
        return [(module, call) for module in self.modules for call in module.called(*names)]

    def references(self, name: str) -> list[tuple[Module, ast.Name | ast.Attribute]]:
        """Where a name stands, or an attribute of that name."""
        return [
            (module, node) for module in self.modules for node in module.references.get(name, [])
        ]

    def says(self, pattern: str | re.Pattern[str]) -> bool:
        """Whether any module's source contains a pattern; every rule asks for every module."""
        return any(module.says(pattern) for module in self.modules)


@once
def leads_to(
    module: Module, call: ast.Call, test: Callable[[Module, ast.Call], bool | None], depth: int
) -> bool:
    """Whether a call, or one that it leads to in functions of the program, passes a test.

    Args:
        module: where the call is.
        call: the call.
        test: True or False is the answer; None asks to look into the function that is called.
        depth: how many functions deep to look.
    """
    answer = test(module, call)
    if answer is not None or depth == 0:
        return bool(answer)
    return any(leads_to(m, inner, test, depth - 1) for m, inner in module.calls_behind(call))
