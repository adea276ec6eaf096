"""The readers of simple values, in the words of JSON: a plan and a manifest have objects and not maps."""

from __future__ import annotations

from whyrun.workflow.fields import Fields
from whyrun.workflow.nodes import ListNode, MapNode, Node, kind_of


class JsonFields(Fields):
    def as_map(self, node: Node, what: str, hint: str | None = None) -> MapNode | None:
        if isinstance(node, MapNode):
            return node
        self.wrong(node, f"{what} must be an object, and this is {json_kind_of(node)}", hint)
        return None

    def as_list(self, node: Node, what: str, hint: str | None = None) -> ListNode | None:
        if isinstance(node, ListNode):
            return node
        self.wrong(node, f"{what} must be a list, and this is {json_kind_of(node)}", hint)
        return None


def json_kind_of(node: Node) -> str:
    return "an object" if isinstance(node, MapNode) else kind_of(node)
