"""A random workflow for `clean_rebuild_story`: folders, shared files, an imported workflow, every kind of action.

It is written as JSON, which is YAML. Nothing here knows what Whyrun makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from clean_rebuild_code import TYPES
from oracle_generate import Dice, chance, pick

SUFFIXES = {"Text": ".txt", "Doc": ".json", "Count": "", "Word": "", "Folder": "", "File": ".dat"}
LOOPS = ("", "", "name", "file")
KINDS = ("call", "call", "prompted", "undeclared", "script", "shell", "lab/function", "lab/class")

INPUTS: dict[str, dict[str, Any]] = {
    "Tree": {"type": "directory", "default": "data/tree"},
    "Files": {"type": "file[]", "default": "data/files/*.txt"},
    "One": {"type": "text", "default": "data/one.txt"},
    "Names": {"type": "string[]", "default": ["x", "y"]},
    "Level": {"type": "integer", "default": 1},
    "Doc": {"type": "json", "default": {"size": [1, 2], "name": "n"}},
}
INSIDE: dict[str, dict[str, Any]] = {"Level": {"type": "integer"}, "One": {"type": "text", "default": "data/part.txt"}}
SHELL = """show() {
  if [ -d "$1" ]; then (cd "$1"; find -L . | LC_ALL=C sort; find -L . -type f -perm -u+x | LC_ALL=C sort;
    find -L . -type f | LC_ALL=C sort | while read -r f; do echo "$f"; cat "$f"; done)
  elif [ -f "$1" ]; then basename "$1"; cat "$1"; else printf '%s\\n' "$1"; fi
}
{ echo "$LEVEL"; printf '%s\\n' "$level"; EACH } > seen
"""


@dataclass(frozen=True)
class Step:
    kind: str
    loop: str
    outputs: dict[str, dict[str, Any]]
    things: dict[str, str] = field(default_factory=dict)  # name → reference
    level: int | None = 1  # None: the action's own
    condition: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def job(self) -> dict[str, Any]:
        given: dict[str, Any] = {name: f"${{{{ {reference} }}}}" for name, reference in self.things.items()}
        if self.level is not None:
            given["level"] = self.level
        given["want"] = list(self.outputs)
        job: dict[str, Any] = {"outputs": self.outputs, **self.more}
        if self.loop:
            job["for"] = [self.loop]
            if self.kind not in ("lab/function", "lab/class"):
                given["loop"] = f"${{{{ {self.loop} }}}}"
        if self.condition:
            job["if"] = f"${{{{ {self.condition} }}}}"
        match self.kind:
            case "call":
                job |= {"uses": "python", "with": {"call": "called:make", **given}}
            case "prompted":
                job |= {"uses": "python", "with": {"call": "prompted:make", **given}, "code": ["prompts/**/*.txt"]}
            case "undeclared":
                job |= {"uses": "python", "with": {"call": "undeclared:make", **given}}
            case "script":
                job |= {"uses": "python", "with": {"script": "script.py", **given}}
            case "shell":
                del given["want"]
                shown = "".join(f'for t in "${{{name}[@]}}"; do show "$t"; done; ' for name in self.things)
                script = SHELL.replace("EACH", shown)
                for name, output in self.outputs.items():
                    out = f'"$out_{name}"'
                    script += {
                        "directory": f"mkdir -p {out}/sub; cp seen {out}/sub/; mkdir {out}/empty\n",
                        "integer": f"wc -c < seen > {out}\n",
                        "json": f"sha256sum seen | sed 's/ .*/\"/; s/^/\"/' > {out}\n",
                        "string": f"sha256sum seen | cut -c 1-8 > {out}\n",
                    }.get(output["type"], f"cp seen {out}\n")
                job |= {"uses": "shell", "env": {"LEVEL": str(self.level)}, "with": {"run": script, **given}}
            case _:
                job |= {"uses": self.kind, "with": given}
        return job


@dataclass(frozen=True)
class Flow:
    steps: dict[str, Step]
    inside: dict[str, Step]
    names: tuple[str, ...] = ("x", "y")
    level: int = 1
    doc: int = 1
    inside_level: int = 1

    def files(self) -> dict[str, Any]:
        inputs = {
            **INPUTS,
            "Names": {"type": "string[]", "default": list(self.names)},
            "Level": {"type": "integer", "default": self.level},
            "Doc": {"type": "json", "default": {"size": [self.doc, 2], "name": "n"}},
        }
        given = {"Level": "${{ inputs.Level }}" if self.inside_level == 0 else self.inside_level}
        return {
            "lab.yaml": {
                "workflow": "lab",
                "inputs": inputs,
                "loops": {"name": {"values": "inputs.Names"}, "file": {"each": "inputs.Files"}},
                "imports": {"Part": {"workflow": "./part.yaml", "with": given}},
                "jobs": {name: step.job() for name, step in self.steps.items()},
            },
            "part.yaml": {
                "workflow": "part",
                "inputs": INSIDE,
                "jobs": {name: step.job() for name, step in self.inside.items()},
            },
        }


def new_outputs(dice: Dice, name: str, kind: str, loop: str) -> dict[str, dict[str, Any]]:
    names = ["Text", "File"] if kind == "script" else list(TYPES)
    found: dict[str, dict[str, Any]] = {}
    for key in names:
        if chance(dice, 3):
            found[key] = new_output(dice, name, key, loop)
    if not found:
        found[names[0]] = new_output(dice, name, names[0], loop)
    return found


def new_output(dice: Dice, job: str, key: str, loop: str) -> dict[str, Any]:
    output: dict[str, Any] = {"type": TYPES[key]}
    if key == "Doc" and chance(dice, 2):
        return {**output, "path": "out/shared.json", "append": True}
    if chance(dice, 2):
        where = f"-${{{{ {loop} }}}}" if loop else ""
        output["path"] = f"out/{job}-{key}{where}{pick(dice, [SUFFIXES[key], SUFFIXES[key], '.x'])}"
    return output


def references(dice: Dice, steps: dict[str, Step], loop: str, prefix: str = "jobs.") -> list[str]:
    """What a job after these may be given, in its own loop or none."""
    found = []
    for name, step in steps.items():
        for key in step.outputs:
            at = f"{prefix}{name}.outputs.{key}"
            if not step.loop:
                found.append(at)
            elif step.loop == loop:
                found += [f"{at}[{loop}]", f"{at}[:]"]
            else:
                found.append(f"{at}[:]")
    return found


def is_one_file_or_folder(reference: str) -> bool:
    return not reference.endswith(("[:]", ".Files")) and all(
        name not in reference for name in (".Count", ".Word", ".Doc", ".Level")
    )


def new_step(dice: Dice, name: str, before: dict[str, Step], inside: dict[str, Step] | None) -> Step:
    """`inside`: of the imported workflow; None for a step that is in it."""
    kind = pick(dice, KINDS)
    loop = pick(dice, LOOPS) if inside is not None else ""
    known = ["inputs.One", "inputs.Level"]
    if inside is not None:
        known += ["inputs.Tree", "inputs.Tree", "inputs.Files", "inputs.Doc"]
        known += references(dice, inside, "", "jobs.Part.")
        if loop == "file":
            known += ["inputs.Files[file]"] * 2
    known += references(dice, before, loop) * 2
    if kind in ("lab/function", "lab/class"):
        things = {"thing": pick(dice, [one for one in known if is_one_file_or_folder(one)])}
    else:
        things = {f"thing{number}": pick(dice, known) for number in range(dice.number(1, 3))}
    condition = ""
    counts = [one for one in references(dice, before, loop) if ".Count" in one and not one.endswith("[:]")]
    if counts and chance(dice, 2):
        condition = f"{pick(dice, counts)} > {dice.number(0, 2)}"
    more: dict[str, Any] = {"deterministic": True} if chance(dice, 3) else {}
    if kind != "shell" and chance(dice, 3):
        more["env"] = {"MOOD": str(dice.number(1, 3))}  # modules read it when they are imported
    return Step(kind, loop, new_outputs(dice, name, kind, loop), things, dice.number(1, 3), condition, more)


def new_flow(dice: Dice) -> Flow:
    inside: dict[str, Step] = {}
    for name in ("P", "Q"):
        inside[name] = new_step(dice, name, inside, None)
    steps: dict[str, Step] = {}
    for name in ("A", "B", "C", "D", "E")[: dice.number(2, 5)]:
        steps[name] = new_step(dice, name, steps, inside)
    return Flow(steps, inside)


def change_flow(dice: Dice, flow: Flow) -> tuple[Flow, str]:
    what = pick(dice, ["names", "level", "doc", "inside", "step", "step", "a level", "condition", "thing", "outputs"])
    name = pick(dice, list(flow.steps))
    step = flow.steps[name]
    before = {key: flow.steps[key] for key in flow.steps if key < name}
    match what:
        case "names":
            names = [one for one in "xyzw" if chance(dice, 2)]
            return replace(flow, names=tuple(names if chance(dice, 2) else names[::-1])), f"flow: names {names}"
        case "level":
            return replace(flow, level=dice.number(0, 3)), "flow: level"
        case "doc":
            return replace(flow, doc=dice.number(0, 3)), "flow: doc"
        case "inside":
            return replace(flow, inside_level=dice.number(0, 3)), "flow: level of the part"
        case "step":
            step = new_step(dice, name, before, flow.inside)
        case "a level":
            step = replace(step, level=dice.number(1, 3))
        case "condition":
            step = replace(step, condition=new_step(dice, name, before, flow.inside).condition if not step.loop else "")
        case "thing":
            other = new_step(dice, name, before, flow.inside)
            if (other.kind in ("lab/function", "lab/class")) == (step.kind in ("lab/function", "lab/class")):
                step = replace(step, things=other.things, loop=other.loop, condition="")
        case _:
            step = replace(step, outputs=new_outputs(dice, name, step.kind, step.loop))
    return replace(flow, steps={**flow.steps, name: step}), f"flow: {what} of {name}"
