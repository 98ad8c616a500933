"""Rewrites imports of modules that moved, wherever a file has them."""

from collections.abc import Mapping, Sequence
from typing import cast

import libcst as cst
from libcst import helpers

from ddpgen.renaming.import_blocks import ordered, separated
from ddpgen.renaming.leftovers import BY_NAME

_Line = cst.SimpleStatementLine


class MovedImports(cst.CSTTransformer):
    """Rewrites import statements, and dotted names and strings that name the modules."""

    def __init__(self, modules: Mapping[str, str], rebind: bool) -> None:
        super().__init__()
        self.modules = modules
        self.rebind = rebind
        self.dotted: set[str] = set()  # old names that are used in full, as `import a.b` demands

    def leave_SimpleStatementLine(
        self, original_node: _Line, updated_node: _Line
    ) -> _Line | cst.FlattenSentinel[_Line]:
        """Rewrite the imports of a line, which may become several lines."""
        parts = self._imports(updated_node.body)
        if not parts:
            return updated_node
        if len(updated_node.body) > 1:  # several statements on one line stay there
            return updated_node.with_changes(body=parts)
        lines = [_Line([part]) for part in parts]
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(lines)

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        """Rewrite the imports behind a colon."""
        parts = self._imports(updated_node.body)
        return updated_node.with_changes(body=parts) if parts else updated_node

    def _imports(
        self, statements: Sequence[cst.BaseSmallStatement]
    ) -> list[cst.BaseSmallStatement]:
        """Return what stands for the statements of a line, or nothing where they stay."""
        found = [self._import(small) for small in statements]
        parts = [new or [old] for new, old in zip(found, statements, strict=True)]
        return [part for group in parts for part in group] if any(found) else []

    def _import(self, small: cst.BaseSmallStatement) -> list[cst.BaseSmallStatement]:
        """Return what stands for an import, or nothing where it stays."""
        if isinstance(small, cst.Import):
            return self._plain(small)
        if isinstance(small, cst.ImportFrom) and not small.relative and small.module:
            return self._from(small, helpers.get_full_name_for_node_or_raise(small.module))
        return []

    def _plain(self, small: cst.Import) -> list[cst.BaseSmallStatement]:
        kept, added = [], []
        for alias in small.names:
            old = alias.evaluated_name
            new = self.modules.get(old)
            if not new:
                kept.append(alias)
            elif "." in old and not alias.asname:
                self.dotted.add(old)
                kept.append(alias.with_changes(name=_dotted(new)))
            else:
                added.append(self._named(new, alias))
        if not added and all(new is old for new, old in zip(kept, small.names, strict=False)):
            return []
        plain = [small.with_changes(names=separated(kept))] if kept else []
        return [*plain, *added]

    def _from(self, small: cst.ImportFrom, name: str) -> list[cst.BaseSmallStatement]:
        if name in self.modules:
            return [small.with_changes(module=_dotted(self.modules[name]))]
        if isinstance(small.names, cst.ImportStar):
            return []
        kept, added = [], []
        for alias in small.names:
            new = self.modules.get(f"{name}.{alias.evaluated_name}")
            if new:
                added.append(self._named(new, alias))
            else:
                kept.append(alias)
        if not added:
            return []
        plain = [small.with_changes(names=separated(kept))] if kept else []
        return [*plain, *added]

    def _named(self, module: str, alias: cst.ImportAlias) -> cst.ImportFrom:
        """Return the import of a module from its package, under the name that the file uses."""
        package, _, last = module.rpartition(".")
        own = last if self.rebind and last != "__main__" else alias.evaluated_name
        name = alias.evaluated_alias or own.rpartition(".")[2]
        asname = cst.AsName(cst.Name(name)) if name != last else None
        return cst.ImportFrom(_dotted(package), [cst.ImportAlias(cst.Name(last), asname)])

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        """Rewrite the full name of a module where the file imports the module by that."""
        name = helpers.get_full_name_for_node(original_node)
        if name in self.dotted:
            return cast("cst.Attribute", _dotted(self.modules[str(name)]))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Rewrite names in strings, as for `importlib.import_module`."""
        function = (helpers.get_full_name_for_node(original_node.func) or "").rpartition(".")[2]
        first = updated_node.args[0] if updated_node.args else None
        if function not in BY_NAME or not first:
            return updated_node
        if not isinstance(first.value, cst.SimpleString):
            return updated_node
        text = first.value.raw_value
        old = next((n for n in self.modules if text == n or text.startswith(f"{n}.")), "")
        if not old:
            return updated_node
        new = self.modules[old] + text.removeprefix(old)
        quoted = first.value.with_changes(value=first.value.value.replace(text, new))
        rest = updated_node.args[1:]
        return updated_node.with_changes(args=[first.with_changes(value=quoted), *rest])

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Let each block of imports have the order that a formatter gives the block."""
        return updated_node.with_changes(body=ordered(updated_node.body, self.modules.values()))


def _dotted(name: str) -> cst.Name | cst.Attribute:
    found = cst.parse_expression(name)
    return found if isinstance(found, cst.Attribute) else cst.ensure_type(found, cst.Name)
