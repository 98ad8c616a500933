"""Rewrites a Python file after modules have moved, and leaves every other character as it is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import libcst as cst
from libcst import helpers
from libcst.metadata import MetadataWrapper, PositionProvider

from ddpgen.updating.import_blocks import code, ordered, separated

_Line = cst.SimpleStatementLine


@dataclass
class Renewed:
    """A file after rewriting.

    Attributes:
        content: the file.
        notes: the line and the words of each change, or why nothing could be changed.
    """

    content: bytes
    notes: list[tuple[int, str]] = field(default_factory=list)


def imports(content: bytes, modules: Mapping[str, str]) -> Renewed | None:
    """Import modules by their new names.

    Args:
        content: a Python file.
        modules: new names of modules by old ones, such as `{"loading": "engine.loading"}`.

    Returns:
        The file, or None where it names none of the modules.
    """
    last = {name.rpartition(".")[2] for name in modules}
    if not re.search(rf"\b({'|'.join(map(re.escape, last))})\b".encode(), content):
        return None
    try:
        wrapper = MetadataWrapper(cst.parse_module(content))
    except (cst.ParserSyntaxError, UnicodeDecodeError, SyntaxError):
        return Renewed(content, [(1, "cannot be read as Python: its imports stay as they are")])
    rewriter = _Imports(modules)
    renewed = wrapper.visit(rewriter)
    return Renewed(renewed.bytes, rewriter.notes) if rewriter.notes else None


class _Imports(cst.CSTTransformer):
    """Rewrites import statements, and dotted names and strings that name the modules."""

    METADATA_DEPENDENCIES = (PositionProvider,)
    # Functions that take the name of a module, or of something in it, as their first argument.
    BY_NAME = frozenset({"import_module", "run_module", "setattr", "patch", "importorskip"})

    def __init__(self, modules: Mapping[str, str]) -> None:
        super().__init__()
        self.modules = modules
        self.notes: list[tuple[int, str]] = []
        self.dotted: set[str] = set()  # old names that are used in full, as `import a.b` demands

    def leave_SimpleStatementLine(
        self, original_node: _Line, updated_node: _Line
    ) -> _Line | cst.FlattenSentinel[_Line]:
        """Rewrite the imports of a line, which may become several lines."""
        parts = self._imports(original_node, updated_node.body)
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
        parts = self._imports(original_node, updated_node.body)
        return updated_node.with_changes(body=parts) if parts else updated_node

    def _imports(
        self, original: cst.CSTNode, statements: Sequence[cst.BaseSmallStatement]
    ) -> list[cst.BaseSmallStatement]:
        """Return the new statements of a line, or nothing where all of them stay."""
        parts: list[cst.BaseSmallStatement] = []
        words = []
        for small in statements:
            found = self._import(small)
            parts += found or [small]
            if found:
                bare = [
                    part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
                    for part in (small, *found)
                ]
                before, *after = map(code, bare)
                words.append(f"{before} -> {'; '.join(after)}")
        line = self.get_metadata(PositionProvider, original).start.line
        self.notes += [(line, text) for text in words]
        return parts if words else []

    def _import(self, small: cst.BaseSmallStatement) -> list[cst.BaseSmallStatement]:
        """Return the statements that replace an import, or nothing where it stays."""
        if isinstance(small, cst.Import):
            return self._plain(small)
        if isinstance(small, cst.ImportFrom) and not small.relative and small.module:
            return self._from(small, helpers.get_full_name_for_node_or_raise(small.module))
        return []

    def _plain(self, small: cst.Import) -> list[cst.BaseSmallStatement]:
        kept, added = [], []
        for alias in small.names:
            new = self.modules.get(alias.evaluated_name)
            if not new:
                kept.append(alias)
            elif "." in alias.evaluated_name and not alias.asname:
                self.dotted.add(alias.evaluated_name)
                kept.append(alias.with_changes(name=_dotted(new)))
            else:
                added.append(_from_import(new, alias.evaluated_alias or alias.evaluated_name))
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
                added.append(_from_import(new, alias.evaluated_alias or alias.evaluated_name))
            else:
                kept.append(alias)
        if not added:
            return []
        plain = [small.with_changes(names=separated(kept))] if kept else []
        return [*plain, *added]

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
        if (
            function not in self.BY_NAME
            or not first
            or not isinstance(first.value, cst.SimpleString)
        ):
            return updated_node
        text = first.value.raw_value
        old = next((n for n in self.modules if text == n or text.startswith(f"{n}.")), "")
        if not old:
            return updated_node
        new = self.modules[old] + text.removeprefix(old)
        line = self.get_metadata(PositionProvider, original_node).start.line
        self.notes.append((line, f'"{text}" -> "{new}"'))
        quoted = first.value.with_changes(value=first.value.value.replace(text, new))
        return updated_node.with_changes(
            args=[first.with_changes(value=quoted), *updated_node.args[1:]]
        )

    def leave_Module(self, _: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Let each block of imports have the order that a formatter gives it."""
        if not self.notes:
            return updated_node
        return updated_node.with_changes(body=ordered(updated_node.body, {*self.modules.values()}))


def _from_import(module: str, name: str) -> cst.ImportFrom:
    """Return the import of a module from its package under a name."""
    package, _, last = module.rpartition(".")
    asname = cst.AsName(cst.Name(name)) if name != last else None
    return cst.ImportFrom(_dotted(package), [cst.ImportAlias(cst.Name(last), asname)])


def _dotted(name: str) -> cst.Name | cst.Attribute:
    found = cst.parse_expression(name)
    return found if isinstance(found, cst.Attribute) else cst.ensure_type(found, cst.Name)
