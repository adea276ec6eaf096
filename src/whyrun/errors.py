"""Diagnostics, the error tree, and the one table of codes.

Everything that can go wrong before or around a run has a code here. The docs page of errors is made from this
table, so a code that is not in it cannot be raised: `Diagnostic` refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from whyrun.lazy_regex import lazy_regex


class Exit(IntEnum):
    """The exit statuses of the command."""

    OK = 0
    FAILED = 1
    INVALID = 2
    STATE = 3
    INTERRUPTED = 130


class Code(NamedTuple):
    """`found_by`: in a dataset plan or manifest, whether its JSON Schema (`whyrun schema --for`) finds every such
    mistake, or only the engine does."""

    meaning: str
    exit: Exit
    found_by: Literal["schema", "engine"] = "engine"


def _invalid(meaning: str) -> Code:
    return Code(meaning, Exit.INVALID)


def _by_schema(meaning: str) -> Code:
    return Code(meaning, Exit.INVALID, "schema")


def _state(meaning: str) -> Code:
    return Code(meaning, Exit.STATE)


CODES: dict[str, Code] = {
    # workflow files
    "YAML_SYNTAX": _invalid("The file is not valid YAML, or nests or repeats too much."),
    "DUPLICATE_KEY": _invalid("A mapping has the same key twice."),
    "UNKNOWN_KEY": _by_schema("A key that the workflow language does not have."),
    "MISSING_KEY": _by_schema("A required key is absent."),
    "WRONG_TYPE": _by_schema("A value has the wrong type for this place."),
    "NAME_INVALID": _by_schema("A name or canonical ID is not written in its one valid form, or not in UTF-8."),
    "NAME_TAKEN": _invalid("Two things share one name."),
    "UNKNOWN_REFERENCE": _invalid("A reference or ID names something that does not exist."),
    "UNKNOWN_LOOP": _invalid("A loop that is not declared, or not in the job's `for:`."),
    "LOOP_MISMATCH": _invalid("The number of selectors does not fit the loops of the job."),
    "LOOP_TOO_LONG": _invalid("A result would give a loop more values than its `max` allows."),
    "CYCLE": _invalid("Job instances (or imports) depend on each other in a cycle."),
    "DUPLICATE_OUTPUT_PATH": _invalid(
        "Two outputs have the same path, or an output would replace an input, code, or a file that a pattern matches."
    ),
    "PATH_OUTSIDE": _invalid("A path leads out of the project folder, directly or through a link."),
    "EXPRESSION_SYNTAX": _invalid("The text inside `${{ }}` is not a valid expression."),
    "EXPRESSION_FORBIDDEN": _invalid("The expression uses something that expressions may not do."),
    "INPUT_MISSING": _invalid("A required input has no value, or its file does not exist."),
    "INPUT_UNKNOWN": _invalid("A value was given for an input that the workflow does not declare."),
    "INPUT_TYPE": _invalid("An input's value does not fit its declared type."),
    "INDEX_PARENT_MISSING": _invalid("A reference selects an element of an input that has no value."),
    "INDEX_PARENT_NOT_ARRAY": _invalid("A reference selects an element of something that is not an array."),
    "INDEX_OUT_OF_RANGE": _invalid("The index is beyond the array, or no such loop instance exists."),
    "INDEX_FORMAT_INVALID": _invalid("The index is not a whole number (or not one that this place accepts)."),
    "INVALID_USES": _by_schema("`uses:` names an action that does not exist."),
    "INVALID_PARAMETER": _invalid("The `with:` block does not fit the action."),
    "SECRET_MISSING": _invalid("A secret or variable that a planned job needs is not in the environment."),
    "BUDGET_EXCEEDED": _invalid("The plan would cost more than the budget of the run; nothing ran."),
    "CONNECTION_UNKNOWN": _invalid("`connections.yaml` has no connection of that name."),
    "CONNECTION_NO_DEFAULT": _invalid("`@family` without an alias, and no connection of the family is its default."),
    "CONNECTION_INVALID": _invalid("A connection is not in a valid form, or the action does not take its family."),
    "FILE_MISSING": _invalid("A file named on the command line or in the workflow does not exist or cannot be read."),
    "TABLE_UNREADABLE": _invalid("A file that `describe` names is not a table in the format of its suffix."),
    "BACKEND_UNAVAILABLE": _invalid("The backend does not work on this machine: it needs a package or a key."),
    "SECRET_IN_REPORT": _invalid("A report or an export would contain the value of a secret; nothing was written."),
    "SECRET_IN_BUNDLE": _invalid("Code for another machine contains the value of a secret; nothing was sent."),
    "BUNDLE_TOO_LARGE": _invalid("The project folder is too large to be sent to another machine."),
    "ENVIRONMENT_INVALID": _invalid("`environment:` names a file that does not say exact versions of its packages."),
    "ENVIRONMENT_FAILED": _invalid("The environment of a planned job cannot be made; nothing ran."),
    "CONTAINER_FAILED": _invalid("A job needs a container, and there is no engine or no image; nothing ran."),
    "SANDBOX_UNAVAILABLE": _invalid("A step must run in a sandbox, but this machine cannot create one."),
    "USAGE": _invalid("The arguments or options of a command do not fit together."),
    "NOT_KEEPABLE": _invalid("`keep` cannot let this result stand, or there is nothing to keep."),
    "NOT_ADOPTABLE": _invalid("`adopt` or `restore` cannot put this version in place."),
    # dataset plans, inputs manifests and `composition:`
    "JSON_SYNTAX": _invalid("The file is not valid JSON, or nests too much."),
    "COMPOSITION_MODE_MISSING": _by_schema("A step of a dataset plan, or `composition:`, does not say its mode."),
    "COMPOSITION_MODE_UNKNOWN": _by_schema("A composition mode that does not exist."),
    "COMPOSITION_MODE_MISMATCH": _invalid("The steps of one dataset plan name different modes."),
    "COMPOSITION_MODE_SHAPE": _invalid("The steps are not connected as their mode requires."),
    "DATASET_UNKNOWN": _by_schema("A dataset that the inputs manifest does not have."),
    "DATASET_REF_INVALID": _by_schema("A reference to a dataset or product that is not in its one valid form."),
    "PRODUCT_STEP_UNKNOWN": _invalid("A reference names a product of a step that does not exist or has no products."),
    "PRODUCT_UNKNOWN": _invalid("A product that its step does not declare."),
    "PRODUCT_DUPLICATE": _invalid("A step declares the same product, or file of a product, twice."),
    "PRODUCT_NOT_JSON": _invalid("A predicate reads a part of a product that is not JSON."),
    "PRODUCT_SELF": _invalid("A step uses a product of its own."),
    "DEPENDENCY_MISSING": _invalid("A product is used without `depends_on` its step."),
    "DEPENDENCY_CYCLE": _invalid("The steps of a dataset plan depend on each other in a cycle."),
    "DEPENDENCY_UNKNOWN": _invalid("`depends_on` names a step that does not exist."),
    "STEP_ID_DUPLICATE": _invalid("Two steps of a dataset plan have the same id."),
    "STEP_ID_UNSAFE": _by_schema("A step's id is not a safe name for files and canonical IDs."),
    "STEP_TYPE_UNKNOWN": _by_schema("A step is neither an `action` nor a `condition`."),
    "BINDINGS_MISSING": _by_schema("A step does not say which datasets or products it takes."),
    "MERGE_INPUTS_MISSING": _by_schema("A merge or append has no primary dataset, or no second dataset."),
    "MERGE_OPERATION_MISSING": _by_schema("A merge step does not say its operation."),
    "MERGE_OPERATION_UNKNOWN": _by_schema(
        "The operation is neither `merge` nor `append`, or the action does not support it."
    ),
    "MERGE_KEYS_MISSING": _by_schema("A merge does not say the columns to merge on."),
    "MERGE_KEY_UNKNOWN": _invalid("A file to be merged has no column with the name of a key."),
    "OUTPUT_UNUSABLE": _invalid("A job declares outputs that its action cannot write."),
    "PREDICATE_UNKNOWN": _by_schema("A predicate that does not exist, or a condition without one."),
    "PREDICATE_KINDS": _invalid("A predicate compares values that can never be compared."),
    "BRANCH_OVERLAP": _invalid("A step belongs to two branches."),
    "BRANCH_UNKNOWN_STEP": _invalid("A branch names a step that does not exist."),
    "MANIFEST_MISSING": _invalid("A dataset plan has no inputs manifest, or the manifest cannot be read."),
    "MANIFEST_VERSION": _by_schema("The inputs manifest has another version than this Whyrun reads."),
    "MANIFEST_KEY_INVALID": _by_schema("The key of a dataset is not a valid name."),
    "MANIFEST_KEY_DUPLICATE": _invalid("Two datasets of an inputs manifest have the same key."),
    "MANIFEST_ROLE_UNKNOWN": _by_schema("A role that datasets cannot have."),
    "MANIFEST_PATH_OUTSIDE": _invalid("A dataset's path leaves the folder of the manifest, or a link leads out of it."),
    "MANIFEST_FILE_MISSING": _invalid("A file that the inputs manifest names does not exist or cannot be read."),
    "MANIFEST_FINGERPRINT_INVALID": _by_schema("A fingerprint in the manifest is not `sha256:` and 64 hex digits."),
    "MANIFEST_FINGERPRINT_MISMATCH": _invalid("A file does not have the fingerprint that the inputs manifest records."),
    # state
    "LOCKED": _state("Another run of this workflow is in progress; or `gc` and a run of any workflow overlap."),
    "LOG_DAMAGED": _state("The event log was changed or damaged, or lacks a run. Whyrun does not guess."),
    "LOG_INCOMPLETE": _state("The event log lacks a record that planning needs."),
    "PLAN_STALE": _state("A saved plan is not what would be planned now, or code was edited while a run was prepared."),
    "STORE_DAMAGED": _state("Stored bytes do not have the content that the log says."),
    "DISK_FAILED": _state(
        "A file cannot be read or written: the disk is full, broken or read-only, or permission is denied."
    ),
    "SECTION_FILE_INVALID": _state("A shared file cannot take a section: it is not a JSON object, or is locked."),
    "RUN_UNKNOWN": _state("There is no such run."),
    "RUN_PRUNED": _state("The run was pruned, or the command needs the log of a pruned run."),
}

_CONTROL = lazy_regex("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # but tabs and newlines
_LONGEST_TEXT = 4000  # characters of a message or hint
_LONGEST_LINE = 240  # characters shown of a line of the user's file


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong: what, where, and what to do next."""

    code: str
    message: str
    file: str | None = None
    line: int | None = None  # from 1
    column: int | None = None  # from 1
    width: int = 1  # how many characters to underline
    source_line: str | None = None
    hint: str | None = None
    severity: str = "error"
    step_id: str | None = None  # in a dataset plan: the step that it is about
    pointer: str | None = None  # in a JSON file: the JSON pointer of the place

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise AssertionError(f"unknown diagnostic code {self.code!r}: add it to whyrun.errors.CODES")

    def render(self) -> str:
        place = ""
        if self.file is not None:
            place = self.file
            if self.line is not None:
                place += f":{self.line}"
                if self.column is not None:
                    place += f":{self.column}"
            place = f" {place}"
        lines = [f"{self.severity}[{self.code}]{place}: {_bearable(self.message)}"]
        if self.source_line is not None and self.line is not None:
            number = f"{self.line:>5}"
            shown, at = self._shown_line(self.source_line)
            lines.append(f"{number} | {_bearable(shown)}")
            if self.column is not None:
                # Tabs stay tabs, so that the marker is under its character in any terminal.
                lead = "".join("\t" if c == "\t" else " " * text_width(c) for c in shown[:at])
                marked = text_width(shown[at : at + min(self.width, _LONGEST_LINE - at)])
                lines.append(f"{' ' * len(number)} | {lead}{'^' * max(1, marked)}")
        if self.hint:
            lines.append(f"   hint: {_bearable(self.hint)}")
        return "\n".join(lines)

    def _shown_line(self, line: str) -> tuple[str, int]:
        """The line and the column of the marker; of a very long line, only the part around the marker."""
        at = (self.column or 1) - 1
        if len(line) <= _LONGEST_LINE:
            return line, at
        start = max(0, at - _LONGEST_LINE // 3)
        piece = line[start : start + _LONGEST_LINE - 2]
        before, after = "…" if start else "", "…" if start + len(piece) < len(line) else ""
        return f"{before}{piece}{after}", at - start + len(before)

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "message": _bearable(self.message),
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "hint": None if self.hint is None else _bearable(self.hint),
            **({} if self.pointer is None else {"step_id": self.step_id, "pointer": self.pointer}),
        }


def _bearable(text: str) -> str:
    """Shorten and escape a text: quoted content may be as long as a file, and may hold terminal control codes."""
    shown = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… ({len(text)} characters)"
    return shown if shown.isprintable() else _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)


class WhyrunError(Exception):
    """One or more diagnostics. The exit status is the most severe of theirs (state before invalid)."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        if not self.diagnostics:
            raise AssertionError("a WhyrunError needs at least one diagnostic")
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.diagnostics,))

    @property
    def exit(self) -> Exit:
        return max(CODES[d.code].exit for d in self.diagnostics)


class InvalidError(WhyrunError):
    """The workflow, its inputs or the command line are invalid; nothing ran (exit 2)."""


class StateError(WhyrunError):
    """The state on disk does not allow it: locked, damaged, incomplete, stale (exit 3)."""


def error(code: str, message: str, *, hint: str | None = None, file: str | None = None, **place: Any) -> WhyrunError:
    """An error with one diagnostic, of the class that its code belongs to: `raise error("LOCKED", …)`."""
    diagnostic = Diagnostic(code, message, file=file, hint=hint, **place)
    branch = StateError if CODES[code].exit is Exit.STATE else InvalidError
    return branch([diagnostic])


def exit_of(problem: BaseException) -> Exit:
    """The exit status of a command that ends with this exception."""
    if isinstance(problem, WhyrunError):
        return problem.exit
    return Exit.INTERRUPTED if isinstance(problem, KeyboardInterrupt) else Exit.STATE


def in_short(problem: BaseException) -> str:
    """The exception in one line for the log of a run, without paths of this machine."""
    if isinstance(problem, WhyrunError):
        first = problem.diagnostics[0]
        return f"{first.code}: {first.message}"
    if isinstance(problem, OSError):
        where = f" (`{problem.filename.rpartition('/')[2]}`)" if isinstance(problem.filename, str) else ""
        return f"DISK_FAILED: {problem.strerror or problem}{where}"
    return type(problem).__name__


def check_type(name: str, value: Any, kinds: type | tuple[type, ...], words: str) -> None:
    """Raises an error for an argument of a wrong type, before it reaches the log. `words` say what it takes.

    In Python, True is also an int: here it is not.
    """
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise error("USAGE", f"`{name}` is {value!r:.80}", hint=f"`{name}` takes {words}")


_LONGEST_NAME = 300  # characters; a longer text is no misspelt name


def to_install(extra: str) -> str:
    """How to get this extra of Whyrun: installed from an index, or from a clone."""
    return f"`pip install 'whyrun[{extra}]'`, in a clone of Whyrun `pip install '.[{extra}]'`"


def did_you_mean(wrong: str, known: Sequence[str]) -> str | None:
    """A hint with the nearest known name; else the known names, if they are few."""
    if len(wrong) > _LONGEST_NAME:
        return None
    near = [name for name in known if name.casefold() == wrong.casefold()]
    if not near:
        from difflib import get_close_matches  # imported late: only errors need it

        near = get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    if known and len(known) <= 12:
        return "known: " + ", ".join(f"`{k}`" for k in known)
    return None


def printable(text: str) -> str:
    """Text that others wrote (messages, paths, values) without the characters that control a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


# --- columns of text -----------------------------------------------------------------------------------------------

WIDEST = 72  # characters: one ID of 200 does not push the next column of all other rows off the screen


def text_width(text: str) -> int:
    """How many columns a terminal takes for it: East Asian letters take two, marks on a letter none."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(c) in ("Mn", "Me", "Cf") else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def column_width(cells: Iterable[str]) -> int:
    """The width of a column. What is wider than `WIDEST` sticks out of it."""
    return max((width for width in map(text_width, cells) if width <= WIDEST), default=0)


def padded(cell: str, width: int) -> str:
    return cell + " " * (width - text_width(cell))
