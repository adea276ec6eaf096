"""Texts about jobs that differ between the two kinds of files that jobs are written in.

The author of a dataset plan writes JSON, with `params` instead of `with:`, and may not know workflow files. Each
function below is one text. `JobDecl.in_plan` says which wording the problem of a job takes.
"""

from __future__ import annotations

import msgspec

from whyrun.workflow.model import PRIMARY, ROLES

_REFERENCE = '"input:<dataset_key>"'


class Advice(msgspec.Struct, frozen=True):
    """A hint or message in two wordings. The inspector process sends it to the host with its problem."""

    workflow: str
    plan: str

    def __str__(self) -> str:
        """For messages of a running step, which does not know its file."""
        return self.workflow


def worded(text: str | Advice, *, in_plan: bool) -> str:
    if isinstance(text, Advice):
        return text.plan if in_plan else text.workflow
    return text


# --- parameters --------------------------------------------------------------------------------------------------


def add_parameter(name: str) -> Advice:
    in_plan = f'add `"{name}": {_REFERENCE}` to `input_bindings`' if name in ROLES else f'add `"{name}"` to `params`'
    return Advice(f"add `{name}:` to `with:`", in_plan)


def remove_parameter() -> Advice:
    return Advice("remove it from `with:`", "remove it from `params`")


def correct_parameter(name: str) -> Advice:
    return Advice(f"correct `{name}:`", f'correct `"{name}"`')


def add_field(name: str, to: str) -> Advice:
    """`to`: the path of a record inside a parameter."""
    return Advice(f"add `{name}:` to `{to}:`", f'add `"{name}"` to `{to}`')


def bind_file(name: str, kind: str, *, whole: bool) -> Advice:
    """`whole`: it is a parameter, and not a field inside one."""
    in_plan = f'bind it in `input_bindings`: `"{name}": {_REFERENCE}`: its content counts'
    return Advice(
        f"declare an input of type `{kind}` and write `{name}: ${{{{ inputs.Name }}}}`: its content counts",
        in_plan if whole else "`input_bindings` binds whole parameters only: bind the file to one that takes a file",
    )


def name_secret(name: str) -> Advice:
    return Advice(
        f"put its name under `secrets:` and write `{name}: ${{{{ secrets.NAME }}}}`",
        'a dataset plan gives no secrets: let the action take a connection, written `"@family.alias"`',
    )


def unread_entry(name: str, instead: str) -> Advice:
    """`instead`: what to write in a workflow file if it was meant as a key of the job."""
    read = f"read `${name}` in the script"
    return Advice(f"{instead}; or {read}", f"remove it from `params`, or {read}")


# --- single actions ----------------------------------------------------------------------------------------------


def call_or_script() -> Advice:
    return Advice(
        'write `call: "module:function"` or `script: file.py`',
        'write `"call": "module:function"` or `"script": "file.py"`',
    )


def plain_script() -> Advice:
    return Advice("`run:` must be a plain script, without `${{ }}`", "`run` must be a script, and cannot be bound")


def value_of_script() -> Advice:
    return Advice(
        'give the value its own entry under `with:` and write "$name" in the script',
        'bind the value to a name of its own in `input_bindings` and write "$name" in the script',
    )


def declare_body() -> Advice:
    return Advice(
        "declare it: `outputs: {Body: {type: file}}`",
        'declare it in `products`: `{"product_id": "Body", "kind": "dataset"}`',
    )


def bind_a_dataset() -> Advice:
    return Advice(
        "no dataset is bound: write `primary_dataset: ${{ … }}`",
        f'no dataset is bound: write `"primary_dataset": {_REFERENCE}`',
    )


def bind_primary(dataset: str | None) -> Advice:
    """`dataset`: its ID or key."""
    name = dataset.removeprefix("Input:") if dataset is not None else None
    given = f'"input:{name}"' if name is not None else _REFERENCE
    return Advice(
        f"bind it as the primary one: `primary_dataset: ${{{{ inputs.{name or 'NAME'} }}}}`",
        f'bind it as the primary one: `"primary_dataset": {given}`',
    )


def give_primary_role(dataset: str) -> Advice:
    """`dataset`: its ID or key."""
    name = dataset.removeprefix("Input:")
    return Advice(
        f"give it the role of the primary one, under `composition:`: `roles: {{{name}: {PRIMARY}}}`",
        f'give `{name}` the role of the primary one, in the manifest: `"role": "{PRIMARY}"`',
    )


def bind_results() -> Advice:
    problem = "aggregate takes two or more results: bind a list"
    return Advice(
        f"{problem}, or `products: {{label: …}}`",
        f'{problem}: `"primary_dataset": ["prod:a:fit", "prod:b:fit"]`, with `labels` where step ids will not do',
    )


# --- paths -------------------------------------------------------------------------------------------------------


def own_path(instead: str) -> Advice:
    """`instead`: what else a workflow file may do; empty for nothing."""
    return Advice(f"give each output a path of its own{instead}", "give each product a `path` of its own")
