"""Rewrites a Python file after modules moved or names changed, and leaves all else as it is."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import libcst as cst
from libcst import helpers
from libcst.metadata import MetadataWrapper, QualifiedNameProvider, QualifiedNameSource

_Line = cst.SimpleStatementLine
_Imported = cst.ImportFrom | cst.FlattenSentinel[cst.BaseSmallStatement]


class UnreadableError(Exception):
    """A file is not Python, as far as this program can read."""


@dataclass(frozen=True)
class Names:
    """New names inside one file of the template.

    Attributes:
        variables: variables, parameters, classes and functions, by old name.
        attributes: attributes, by the last two parts of the old name, such as `now.done`.
        direct: classes, by module and class such as `state.TrainState`, that are now imported
            themselves, with the line that imports each.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[str, str] = field(default_factory=dict)


def imports(content: bytes, modules: Mapping[str, str], rebind: bool = False) -> bytes:
    """Import modules by their new names.

    Args:
        content: a Python file.
        modules: new names of modules by old ones, such as `{"loading": "engine.loading"}`.
        rebind: whether the file uses a module's new last name; else `as` keeps the old one.

    Raises:
        UnreadableError: the file may import the modules, and is not Python.
    """
    if not _mentions(content, modules):
        return content
    return _parsed(content).visit(_Imports(modules, rebind)).bytes


def names(content: bytes, changed: Names) -> bytes:
    """Use new names in a file of the template, which a user may have edited.

    Raises:
        UnreadableError: the file may use the names, and is not Python.
    """
    if not _mentions(content, [*changed.variables, *changed.attributes, *changed.direct]):
        return content
    return _parsed(content).visit(_Names(changed)).bytes


def exported(content: bytes, new_names: Mapping[str, str]) -> bytes:
    """Use new names in a user's own file of what the file imports from the template's modules.

    Args:
        content: a Python file.
        new_names: new names by full old ones, such as `{"engine.loading.Window": "StepBatch"}`.

    Raises:
        UnreadableError: the file may use the names, and is not Python.
    """
    if not _mentions(content, new_names):
        return content
    return MetadataWrapper(_parsed(content)).visit(_Exported(new_names)).bytes


def _mentions(content: bytes, dotted: Iterable[str]) -> bool:
    """Return whether the last part of any name stands in a file, the first of `a.b` too."""
    parts = {part for name in dotted for part in (name.partition(".")[0], name.rpartition(".")[2])}
    return bool(re.search(rf"\b({'|'.join(map(re.escape, parts))})\b".encode(), content))


def _parsed(content: bytes) -> cst.Module:
    try:
        return cst.parse_module(content)
    except (cst.ParserSyntaxError, UnicodeDecodeError, SyntaxError) as error:
        raise UnreadableError from error


class _Names(cst.CSTTransformer):
    """Renames by spelling, since a file of the template uses a name for one thing."""

    def __init__(self, changed: Names) -> None:
        super().__init__()
        self.changed = changed

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        """Rename a variable, a parameter or a definition."""
        old = original_node.value
        return updated_node.with_changes(value=self.changed.variables.get(old, old))

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute | cst.Name:
        """Rename an attribute of a known object; other attributes stay."""
        full = helpers.get_full_name_for_node(original_node) or original_node.attr.value
        if full in self.changed.direct:
            return original_node.attr
        last = ".".join(full.split(".")[-2:])
        new = self.changed.attributes.get(last, original_node.attr.value)
        return updated_node.with_changes(attr=original_node.attr.with_changes(value=new))

    def visit_Import(self, node: cst.Import) -> bool:
        """Leave modules alone."""
        return False

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> _Imported:
        """Import a class itself, in place of its module; modules keep their names."""
        if isinstance(original_node.names, cst.ImportStar) or not original_node.module:
            return original_node
        package = helpers.get_full_name_for_node(original_node.module)
        kept, added = [], []
        for alias in original_node.names:
            begin = f"from {package}.{alias.evaluated_name} import "
            found = [line for line in self.changed.direct.values() if line.startswith(begin)]
            added += [cst.ensure_type(cst.parse_statement(line), _Line).body[0] for line in found]
            kept += [] if found else [alias]
        if not added:
            return original_node
        first = [original_node.with_changes(names=_separated(kept))] if kept else []
        return cst.FlattenSentinel([*first, *added])


class _Exported(cst.CSTTransformer):
    """Renames `module.name`, and imports of the name, where the name comes from that module."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def __init__(self, new_names: Mapping[str, str]) -> None:
        super().__init__()
        self.new_names = new_names

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        """Rename `module.name`."""
        sources = self.get_metadata(QualifiedNameProvider, original_node, set())
        found = {s.name for s in sources if s.source == QualifiedNameSource.IMPORT}
        new = next((self.new_names[name] for name in found & self.new_names.keys()), "")
        return updated_node.with_changes(attr=cst.Name(new)) if new else updated_node

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom:
        """Import the new name, under the old one that the file uses."""
        if isinstance(updated_node.names, cst.ImportStar) or not original_node.module:
            return updated_node
        module = helpers.get_full_name_for_node(original_node.module)
        aliases = []
        for alias in updated_node.names:
            new = self.new_names.get(f"{module}.{alias.evaluated_name}")
            old = cst.AsName(cst.Name(alias.evaluated_alias or alias.evaluated_name))
            aliases.append(alias.with_changes(name=cst.Name(new), asname=old) if new else alias)
        return updated_node.with_changes(names=aliases)


class _Imports(cst.CSTTransformer):
    """Rewrites import statements, and dotted names and strings that name the modules."""

    # Functions that take the name of a module, or of something in it, as their first argument.
    BY_NAME = frozenset({"import_module", "run_module", "setattr", "patch", "importorskip"})

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
        plain = [small.with_changes(names=_separated(kept))] if kept else []
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
        plain = [small.with_changes(names=_separated(kept))] if kept else []
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
        if function not in self.BY_NAME or not first:
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
        """Let each block of imports have the order that a formatter gives it."""
        body: list[_Line | cst.BaseCompoundStatement] = []
        block: list[_Line] = []
        for node in updated_node.body:
            line = _as_import(node)
            if block and not (line and not line.leading_lines):
                body += self._sorted(block)
                block = []
            if line:
                block.append(line)
            else:
                body.append(node)
        return updated_node.with_changes(body=[*body, *self._sorted(block)])

    def _sorted(self, block: Sequence[_Line]) -> list[_Line]:
        """Put `from` behind `import`, and the modules that moved to one package into one line."""
        moved = [line for line in block if self._moved(line)]
        if not moved or any(len(line.body) > 1 for line in block):
            return [*block]
        lines = [line.with_changes(leading_lines=()) for line in block]
        plain = [line for line in lines if isinstance(line.body[0], cst.Import)]
        named: dict[str, _Line] = {}
        for line in lines:
            small = line.body[0]
            if isinstance(small, cst.ImportFrom):
                key = _code(small).partition(" import ")[0]
                other = named.get(key)
                if other and self._moved(line) and not _commented(line) and not _commented(other):
                    named[key] = _joined(other, small)
                else:
                    named[_code(small) if other else key] = line
        rest = [named[key] for key in sorted(named, key=str.lower)]
        first, *others = [*plain, *rest]
        return [first.with_changes(leading_lines=block[0].leading_lines), *others]

    def _moved(self, line: _Line) -> bool:
        """Return whether a line is `from PACKAGE import MODULE` for modules that moved there."""
        small = line.body[0]
        if not isinstance(small, cst.ImportFrom) or isinstance(small.names, cst.ImportStar):
            return False
        package = helpers.get_full_name_for_node(small.module) if small.module else None
        found = {f"{package}.{alias.evaluated_name}" for alias in small.names}
        return found <= {*self.modules.values()} and not small.lpar


def _as_import(node: cst.CSTNode) -> _Line | None:
    """Return a line if it begins with an import."""
    is_import = isinstance(node, _Line) and isinstance(node.body[0], cst.Import | cst.ImportFrom)
    return cst.ensure_type(node, _Line) if is_import else None


def _commented(line: _Line) -> bool:
    return line.trailing_whitespace.comment is not None


def _joined(line: _Line, more: cst.ImportFrom) -> _Line:
    """Return an import of everything that two import from one package."""
    small = cst.ensure_type(line.body[0], cst.ImportFrom)
    aliases = [
        *cast("Sequence[cst.ImportAlias]", small.names),
        *cast("Sequence[cst.ImportAlias]", more.names),
    ]
    bare = [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases]
    unique = {_code(alias): alias for alias in bare}
    ordered = _separated(unique[key] for key in sorted(unique))
    return line.with_changes(body=[small.with_changes(names=ordered)])


def _separated(aliases: Iterable[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Return the aliases with a comma between them and none at the end."""
    plain = [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [*(alias.with_changes(comma=comma) for alias in plain[:-1]), *plain[-1:]]


def _dotted(name: str) -> cst.Name | cst.Attribute:
    found = cst.parse_expression(name)
    return found if isinstance(found, cst.Attribute) else cst.ensure_type(found, cst.Name)


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)
