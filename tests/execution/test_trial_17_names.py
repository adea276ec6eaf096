"""A step does not see what its input files are called, nor what stands beside them: a rename counts for nothing.

Issue 17, number 17. Large files, which are links by default, are in `test_trial_27_views.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from project_lab import Lab as Project

NAMES = """
    workflow: w
    inputs: {Script: {type: file, default: SCRIPT}}
    jobs:
      Name:
        uses: python
        with: {call: "look:name", file: "${{ inputs.Script }}"}
        outputs: {T: {type: text, path: name.txt}}
      Import:
        uses: shell
        with: {script: "${{ inputs.Script }}", run: 'python3 "$script" > "$out_T"'}
        outputs: {T: {type: text, path: import.txt}}
    """


def test_neither_a_files_own_name_nor_its_siblings_are_seen(project: Callable[..., Project]) -> None:
    """Issue 17, number 17. With `resolve()` a step saw the name, and a rename was then wrongly skipped."""
    script = "try:\n    import sibling\nexcept ImportError:\n    print('alone')\n"
    look = "def name(file):\n    return {'T': file.resolve().name}\n"
    files = {"lib/one.py": script, "lib/sibling.py": "", "look.py": look}
    lab = project(NAMES.replace("SCRIPT", "lib/one.py"), files)
    lab.succeed()
    assert (lab.read("name.txt"), lab.read("import.txt")) == ("file.py", "alone\n")
    (lab.root / "lib/one.py").rename(lab.root / "lib/two.py")
    lab.edit("workflow.yaml", "lib/one.py", "lib/two.py")
    assert lab.plan().headlines() == {}, "a rename counts for nothing, and no step can have seen the name"
