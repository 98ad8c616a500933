"""Uses new names: by spelling in files of the template, by what is imported in a user's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst
from libcst import helpers
from libcst.metadata import QualifiedNameProvider, QualifiedNameSource

from ddpgen.renaming.import_blocks import separated

_Imported = cst.ImportFrom | cst.FlattenSentinel[cst.BaseSmallStatement]


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


class Spelled(cst.CSTTransformer):
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
            added += [_small(line) for line in found]
            kept += [] if found else [alias]
        if not added:
            return original_node
        first = [original_node.with_changes(names=separated(kept))] if kept else []
        return cst.FlattenSentinel([*first, *added])


class Exported(cst.CSTTransformer):
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
        *within, last = new.split(".")
        value = updated_node.value
        for part in within:
            value = cst.Attribute(value, cst.Name(part))
        return updated_node.with_changes(value=value, attr=cst.Name(last)) if new else updated_node

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> _Imported:
        """Import the new name, under the old one that the file uses."""
        if isinstance(updated_node.names, cst.ImportStar) or not original_node.module:
            return updated_node
        module = helpers.get_full_name_for_node(original_node.module)
        aliases: list[cst.ImportAlias] = []
        settings: list[str] = []
        for alias in updated_node.names:
            new = self.new_names.get(f"{module}.{alias.evaluated_name}", "")
            first, _, within = new.partition(".")
            old = alias.evaluated_alias or alias.evaluated_name
            if within:  # a name inside of what can be imported
                settings.append(f"{old} = {new}")
                aliases.append(cst.ImportAlias(cst.Name(first)))
            elif new:
                asname = cst.AsName(cst.Name(old))
                aliases.append(alias.with_changes(name=cst.Name(new), asname=asname))
            else:
                aliases.append(alias)
        if not settings:
            return updated_node.with_changes(names=aliases)
        named = {alias.evaluated_name: alias for alias in aliases}
        imports = updated_node.with_changes(names=separated(named.values()))
        return cst.FlattenSentinel([imports, *map(_small, settings)])


def _small(line: str) -> cst.BaseSmallStatement:
    return cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine).body[0]
