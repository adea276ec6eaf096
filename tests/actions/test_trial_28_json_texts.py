"""A script that takes JSON text for a file name is refused before the jobs upstream have run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.actions.builtin.shell import json_as_files
from whyrun.errors import InvalidError

FLOW = """
    workflow: w
    loops: {n: {range: 0-2}}
    jobs:
      Score:
        for: [n]
        uses: shell
        with: {n: "${{ n }}", run: 'echo "{\\"n\\": $n}" > "$out_Result"'}
        outputs: {Result: {type: json}}
      Merge:
        uses: shell
        with: {parts: "${{ jobs.Score.outputs.Result[:] }}", run: 'cat "${parts[@]}" > "$out_All"'}
        outputs: {All: {type: text}}
"""


def refused(lab: Lab) -> tuple[str, str, str | None]:
    with pytest.raises(InvalidError) as caught:
        lab.plan()
    (problem,) = caught.value.diagnostics
    assert caught.value.diagnostics == lab.opened().problems
    return problem.code, problem.message, problem.hint


def test_a_json_fan_in_that_is_read_as_files_is_refused_before_anything_runs(project: Callable[..., Lab]) -> None:
    """Issue 17, number 28. It failed after the jobs upstream had run."""
    lab = project(FLOW)
    code, message, hint = refused(lab)
    assert code == "INVALID_PARAMETER"
    assert message == '`parts` is no file: each member is JSON text, but `cat "${parts[@]}" > "$out_All"` reads files'
    assert hint is not None
    assert hint.startswith("declare the output that `parts` is bound to as `file` or `text` to get a path; or give")


@pytest.mark.parametrize(("old", "new"), [("Result: {type: json}", "Result: {type: file}"), ("cat ", 'printf "%s" ')])
def test_what_the_hint_says_helps(project: Callable[..., Lab], old: str, new: str) -> None:
    lab = project(FLOW)
    lab.edit("workflow.yaml", old, new)
    assert len(lab.succeed().executed) == 4


def test_a_single_document_is_checked_too(project: Callable[..., Lab]) -> None:
    lab = project(FLOW)
    lab.edit("workflow.yaml", "Result[:] }}", "Result[0] }}")
    lab.edit("workflow.yaml", '"${parts[@]}" >', '< "$parts" >')
    message = refused(lab)[1]
    assert message == '`parts` is no file: it is JSON text, but `< "$parts"` reads files'


@pytest.mark.parametrize(
    "script",
    ['jq .a <<< "$p"', 'jq .a <<<"$p"', 'printf "%s\\n" "${p[@]}" | jq -s .', "jq -n --argjson d \"$p\" '$d'",
     'jq --arg d "$p" . "$file"', 'for f in "${p[@]}"; do jq .a <<< "$f"; done', 'head -n "$p" file', 'cat <<< "$p"',
     'echo "$p" | cat', 'python merge.py "${p[@]}"', '# cat "$p"', 'echo cat "$p"', 'cat "$pq" "$p/x" "${q[p]}"',
     "jq -n '$ARGS.positional' --args \"${p[@]}\"", "echo 'cat \"$p\"'", 'test -e "$p" && echo yes'],
)  # fmt: skip
def test_uses_of_the_text_are_left_alone(script: str) -> None:
    assert list(json_as_files(script, ["p"])) == []


@pytest.mark.parametrize(
    ("script", "command"),
    [("jq -s 'map(.a) | add' \"${p[@]}\"", "jq -s '' \"${p[@]}\""), ('wc -l < "$p"', '< "$p"'),
     ('for f in "${p[@]}"; do\n  cat "$f"\ndone', 'cat "$f"'), ('x=$(cat "$p")', 'cat "$p"'),
     ('jq .a \\\n  "$p"', 'jq .a "$p"'), ("true && cp ${p} copy", "cp ${p} copy"),
     ('if sort "${p[0]}"; then :; fi', 'sort "${p[0]}"')],
)  # fmt: skip
def test_uses_as_a_file_are_found(script: str, command: str) -> None:
    assert list(json_as_files(script, ["other", "p"])) == [("p", command)]
