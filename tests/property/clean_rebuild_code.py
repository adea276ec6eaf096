"""The Python of a generated project: modules that import each other in every way there is, and functions that show all
they are given and all they import. So each byte that ought to count is in what a step makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from oracle_generate import Dice, chance, pick

TYPES = {"Text": "text", "Doc": "json", "Count": "integer", "Word": "string", "Folder": "directory", "File": "file"}

# What steps make of what they see. Never changed: it stands for the libraries of a project.
SHOW = """
import hashlib
import json
from pathlib import Path


def show(value):
    if isinstance(value, Path):
        if value.is_dir():
            return {str(path.relative_to(value)): entry(path) for path in sorted(value.rglob("*"))}
        return {"file": value.read_text(), "suffix": value.suffix}
    if isinstance(value, (list, tuple)):
        return [show(one) for one in value]
    if isinstance(value, dict):
        return {key: show(one) for key, one in sorted(value.items())}
    return value


def entry(path):
    return None if path.is_dir() else [bool(path.stat().st_mode & 0o100), path.read_text()]


def produce(context, want, values, given):
    seen = json.dumps([values, show(given)], sort_keys=True)
    digest = hashlib.sha256(seen.encode()).hexdigest()
    if digest.startswith("0"):
        raise ValueError(f"what gives {digest} fails")
    made = {}
    for name in want:
        if name == "Folder":
            fill(context.output(name), digest, seen)
        elif name == "File":
            context.output(name).write_text(seen)
        else:
            values = {"Text": seen, "Doc": {"seen": seen}, "Count": int(digest[1], 16) % 3, "Word": digest[:8]}
            made[name] = values[name]
    return made


def fill(folder, digest, seen):
    folder.mkdir(exist_ok=True)
    (folder / "seen.txt").write_text(seen)
    if digest[1] in "01234567":
        (folder / "empty").mkdir()
    (folder / "sub" / digest[2]).mkdir(parents=True)
    tool = folder / "sub" / digest[2] / "tool"
    tool.write_text("a tool")
    tool.chmod(0o755 if digest[3] in "01234567" else 0o644)
"""

# form → (what stands at the top, what stands in the function, the values of the other module)
FORMS = {
    "import": ("import {module}", "", "{module}.value()"),
    "from": ("from {package} import {name} as other{n}", "", "other{n}.value()"),
    "function": ("from {module} import value as value{n}", "", "value{n}()"),
    "late": ("", "import {module} as late{n}", "late{n}.value()"),
    "perhaps": (
        "try:\n    import {module} as perhaps{n}\nexcept ImportError:\n    perhaps{n} = None", "",
        "(['none'] if perhaps{n} is None else perhaps{n}.value())",
    ),
    "loaded": ("import importlib", "", "importlib.import_module('{module}').value()"),
    "joined": ("from importlib import import_module", "", "import_module('{package}.' + '{name}').value()"),
    "built": ("", "", "__import__('{module}', fromlist=['value']).value()"),
}  # fmt: skip
WITHIN = {
    "relative": ("from . import {name} as near{n}", "", "near{n}.value()"),
    "from here": ("from .{name} import value as here{n}", "", "here{n}()"),
    "loaded here": ("import importlib", "", "importlib.import_module('.{name}', __package__).value()"),
}
OWN_FOLDER = {
    "vendored": (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent / 'vendor'))\n"
        "import tool as tool{n}",
        "",
        "tool{n}.value()",
    ),
    "by path": (
        "from importlib.util import module_from_spec, spec_from_file_location\nfrom pathlib import Path\n"
        "spec{n} = spec_from_file_location('k', Path(__file__).parent / 'vendor' / 'tool.py')\n"
        "k{n} = module_from_spec(spec{n})\nspec{n}.loader.exec_module(k{n})",
        "",
        "k{n}.value()",
    ),
}
STANDARD = {"standard": ("import statistics", "", "getattr(statistics, 'value', lambda: ['theirs'])()")}
ALL_FORMS = {**FORMS, **WITHIN, **OWN_FOLDER, **STANDARD}


@dataclass(frozen=True)
class Module:
    value: int = 10
    imports: tuple[tuple[str, str], ...] = ()  # (form, module)
    comment: int = 0
    package: bool = False  # `lib/b/__init__.py` in place of `lib/b.py`
    shadow: bool = False  # …and `lib/b.py` still beside it, which then counts for nothing
    there: bool = True

    def text(self) -> str:
        tops, lates, values = [], [], []
        for number, (form, module) in enumerate(self.imports):
            words = {"module": module, "package": module.partition(".")[0], "name": module.rpartition(".")[2]}
            top, late, value = (part.format(**words, n=number) for part in ALL_FORMS[form])
            tops.append(top)
            lates.append(late)
            values.append(f"*{value}")
        body = "\n".join(f"    {late}" for late in lates if late)
        return (
            f'"""Says {self.comment}."""\nimport os\n' + "\n".join(top for top in tops if top) + "\n\n"
            f"VALUE = {self.value}\nMOOD = os.environ.get('MOOD')\n"
            f"\n\ndef value():  # {self.comment}\n{body}\n    return [VALUE, MOOD, {', '.join(values)}]\n"
        )


CALLED = """
from show import produce

import lib
import {module}


def make(context, want, **given):
    return produce(context, want, [lib.value(), {module}.value()], given)
"""
SCRIPT = """
from show import produce

import {module}

produced = produce(context, inputs["want"], {module}.value(), {{k: v for k, v in inputs.items() if k != "want"}})
for name, value in produced.items():
    context.output(name).write_text(value)
"""
PROMPTED = """
from pathlib import Path

from show import produce

PROMPTS = Path(__file__).parent / "prompts"


def make(context, want, **given):
    texts = [[path.name, path.read_text()] for path in sorted(PROMPTS.rglob("*.txt"))]
    return produce(context, want, texts, given)
"""
UNDECLARED = """
from pathlib import Path

from show import produce

HERE = Path(__file__).parent


def make(context, want, **given):
    texts = [[path.name, path.read_text()] for path in sorted((HERE / "prompts").rglob("*.txt"))]
    try:
        texts.append((HERE / "settings.txt").read_text())
    except FileNotFoundError:
        texts.append("no settings")
    return produce(context, want, texts, given)
"""
ACTIONS = """
from whyrun import Action, FileOrDirectory, Parameters, action

from lib import a
from show import produce


@action("lab/function", outputs={outputs})
def function(thing, want, context, level=1):
    return produce(context, want, [{value}, a.value()], {{"thing": thing, "level": level}})


class Typed(Action):
    name, version = "lab/class", "{value}"
    outputs = {outputs}

    class Params(Parameters):
        thing: FileOrDirectory
        want: list[str]
        level: int = {default}

    def run(self, inputs, mode="dry-run", context=None, logger=None):
        given = {{"thing": inputs["thing"], "level": self.params.level}}
        return produce(context, inputs["want"], [self.version, *a.value()], given)
"""

# Who may import whom: no circles. `other` is a package without an `__init__.py`.
ALLOWED = {
    "lib": (),
    "lib.a": ("lib.b", "lib.c", "other.d"),
    "lib.b": ("lib.c", "other.d"),
    "lib.c": ("other.d",),
    "other.d": (),
    "tool": (),
    "another tool": (),
    "statistics": (),  # there is one in the standard library
}


FILES = {
    "lib": "lib/__init__",
    "tool": "lib/vendor/tool",
    "another tool": "other/vendor/tool",  # of the same name
}


@dataclass(frozen=True)
class Code:
    modules: dict[str, Module] = field(default_factory=dict)
    top: str = "lib.a"  # what `called.py` imports
    prompts: dict[str, int] = field(default_factory=lambda: {"a.txt": 1, "deep/b.txt": 1})
    action_value: int = 1
    action_default: int = 1
    settings: int | None = None  # in a file that may be missing, and that nothing declares
    shadow: str = ""  # an entry that a package takes the place of

    def files(self) -> dict[str, str]:
        found = {
            "show.py": SHOW,
            "called.py": CALLED.format(module=self.top),
            "script.py": SCRIPT.format(module=self.top),
            "prompted.py": PROMPTED,
            "undeclared.py": UNDECLARED,
            "actions/acts.py": ACTIONS.format(value=self.action_value, default=self.action_default, outputs=TYPES),
        }
        if self.shadow:
            found[f"{self.shadow}/__init__.py"] = found[f"{self.shadow}.py"].replace("want, [", "want, [7, ")
        if self.settings is not None:
            found["settings.txt"] = f"settings {self.settings}"
        for path, number in self.prompts.items():
            found[f"prompts/{path}"] = f"prompt {number}"
        for name, module in self.modules.items():
            if not module.there:
                continue
            base = FILES.get(name, name.replace(".", "/"))
            if module.package:
                found[f"{base}/__init__.py"] = module.text()
            if not module.package or module.shadow:
                shown = module if not module.package else replace(module, value=module.value + 50)
                found[f"{base}.py"] = shown.text()
        return found


def new_imports(dice: Dice, name: str, package: bool = False) -> tuple[tuple[str, str], ...]:
    found = []
    for module in ALLOWED[name]:
        if chance(dice, 2):
            within = name.startswith("lib.") and module.startswith("lib.") and not package
            found.append((pick(dice, [*FORMS, *(WITHIN if within else ())]), module))
    if name in ("lib.c", "other.d") and not package and chance(dice, 2):
        found.append((pick(dice, list(OWN_FOLDER)), "tool"))
    if name == "lib.a" and chance(dice, 2):
        found.append(("standard", "statistics"))
    return tuple(found)


def new_code(dice: Dice) -> Code:
    modules = {name: Module(imports=new_imports(dice, name)) for name in ALLOWED}
    modules["statistics"] = Module(there=False)
    modules["another tool"] = Module(20)
    return Code(modules)


CHANGES = [
    "value", "value", "comment", "imports", "package", "shadow", "there", "top", "prompt", "settings", "action",
    "entry",
]  # fmt: skip


def change_code(dice: Dice, code: Code) -> tuple[Code, str]:
    name = pick(dice, list(code.modules))
    module = code.modules[name]
    what = pick(dice, CHANGES)
    match what:
        case "value":
            module = replace(module, value=10 + dice.number(0, 5))  # as long as before
        case "comment":
            module = replace(module, comment=dice.number(0, 9))
        case "imports":
            module = replace(module, imports=new_imports(dice, name, module.package))
        case "package":
            if name != "lib" and not any(form in WITHIN or form in OWN_FOLDER for form, _ in module.imports):
                module = replace(module, package=not module.package)
        case "shadow":
            module = replace(module, shadow=not module.shadow)
        case "there":
            module = replace(module, there=not module.there)
        case "top":
            return replace(code, top=pick(dice, ["lib.a", "lib.b", "lib.c", "other.d"])), "code: top"
        case "prompt":
            prompts = dict(code.prompts)
            path = pick(dice, ["a.txt", "deep/b.txt", "c.txt", ".hidden.md"])
            if path in prompts and chance(dice, 3):
                del prompts[path]
            else:
                prompts[path] = dice.number(0, 9)
            return replace(code, prompts=prompts), f"code: prompt {path}"
        case "settings":
            return replace(code, settings=pick(dice, [None, 1, 2, 3])), "code: settings"
        case "entry":
            return replace(code, shadow=pick(dice, ["", "called", "actions/acts"])), "code: what stands beside an entry"
        case _:
            return replace(code, action_value=dice.number(0, 3), action_default=dice.number(0, 3)), "code: action"
    return replace(code, modules={**code.modules, name: module}), f"code: {what} of {name}"
