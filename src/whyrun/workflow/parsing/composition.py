"""`composition:` of a workflow file: the mode, and the roles of its `dataset` inputs. The graph checks the shape."""

from __future__ import annotations

from collections.abc import Mapping

from whyrun.errors import did_you_mean
from whyrun.workflow.fields import Fields
from whyrun.workflow.model import MODES, ROLES, Composition, Dataset, InputDecl, Type
from whyrun.workflow.nodes import Node
from whyrun.workflow.parsing.keys import Key, names_of

COMPOSITION_KEYS = (
    Key(name="mode", meaning="The shape of the graph.", schema={"enum": list(MODES)}, required=True),
    Key(
        name="roles",
        meaning="What `dataset` inputs are for. Roles are labels; they wire nothing.",
        schema={"type": "object", "additionalProperties": {"enum": list(ROLES)}},
    ),
)
_EXAMPLE = "write `composition: {mode: merge_then_sequential}`"


class CompositionReader(Fields):
    def composition(
        self, node: Node, inputs: Mapping[str, InputDecl], types: Mapping[str, Type | None]
    ) -> Composition | None:
        """None if there is a problem with it."""
        entries = self.as_map(node, "`composition`", _EXAMPLE)
        if entries is None:
            return None
        failures = self.problems.failures
        fields = self.known_keys(entries, names_of(COMPOSITION_KEYS), "`composition`")
        mode = None
        if "mode" not in fields:
            self.problems.add(node.place, "COMPOSITION_MODE_MISSING", "`composition` has no `mode`", _known(MODES))
        else:
            mode = self.string(fields["mode"], "`mode` of `composition`", _known(MODES))
            if mode is not None and mode not in MODES:
                message = f"there is no composition mode `{mode}`"
                self.problems.add(fields["mode"].place, "COMPOSITION_MODE_UNKNOWN", message, did_you_mean(mode, MODES))
        roles = self._roles(fields.get("roles"), types)
        if mode is None or self.problems.failures > failures:
            return None
        datasets = tuple(
            Dataset(name, roles.get(name), None, None, None, None, decl.place, decl.place)
            for name, decl in inputs.items()
            if decl.type.base == "dataset"
        )
        return Composition(mode, datasets, place=fields["mode"].place)

    def _roles(self, node: Node | None, types: Mapping[str, Type | None]) -> dict[str, str]:
        hint = "write `roles: {Main: primary_dataset}`"
        entries = self.as_map(node, "`roles` of `composition`", hint) if node is not None else None
        roles: dict[str, str] = {}
        for key, value in entries.entries if entries else ():
            role = self.string(value, f"the role of `{key.value}`", _known(ROLES))
            if role is not None and role not in ROLES:
                self.wrong(value, f"there is no role `{role}`", did_you_mean(role, ROLES) or _known(ROLES))
            declared = types.get(key.value)
            if key.value not in types:
                datasets = [name for name, type_ in types.items() if type_ is not None and type_.base == "dataset"]
                message = f"there is no dataset `{key.value}`"
                self.problems.add(key.place, "DATASET_UNKNOWN", message, did_you_mean(key.value, datasets) or hint)
            elif declared is not None and declared.base != "dataset":
                message = f"the input `{key.value}` has type `{declared}`, and only datasets have roles"
                self.problems.add(key.place, "DATASET_UNKNOWN", message, "declare `type: dataset`")
            elif role is not None:
                roles[key.value] = role
        return roles


def _known(names: tuple[str, ...]) -> str:
    return "one of " + ", ".join(f"`{name}`" for name in names)
