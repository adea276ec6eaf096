"""What steps read without declaring it, as the log records it: seen by the audit hook of their processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from project_lab import Lab, Ran
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.log import events as ev
from whyrun.log.reads import folder_sha256, own_names

# Which modules a step's process has imported before is a matter of its start.
pytestmark = [pytest.mark.real_start, pytest.mark.traced]

Make = Callable[..., Lab]


def observed(ran: Ran) -> dict[str, dict[str, str | None]]:
    """Step → path → the hash of its content, or its kind where that has none."""
    found: dict[str, dict[str, str | None]] = {}
    for event in ran.events:
        if isinstance(event, ev.StepComplete | ev.StepFailed):
            reads = event.observed if isinstance(event.observed, list) else []
            found[event.step_id] = {read.path: read.sha256 or read.kind for read in reads}
    return found


def sha(text: str) -> str:
    return bytes_sha256(text.encode())


STEPS = {
    "steps.py": """
        import glob, importlib, json, os, runpy, sqlite3
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context
        from pathlib import Path
        PROJECT = Path(os.environ["WHYRUN_PROJECT"])

        def absolute(): return {"T": (PROJECT / "data/x.csv").read_text()}
        def relative():
            os.chdir(PROJECT / "data")
            return {"T": open("../data/x.csv").read()}
        def by_name(): return {"T": importlib.import_module("plug" + "in").NAME}
        def run_file(): return {"T": runpy.run_path(str(PROJECT / ("tools/ma" + "ke.py")))["NAME"]}
        def absent():
            try:
                json.loads((PROJECT / "conf.json").read_text())
            except FileNotFoundError:
                pass
            return {"T": ""}
        def listing(): return {"T": " ".join(sorted(os.path.basename(p) for p in glob.glob(f"{PROJECT}/data/*.csv")))}
        def database():
            with sqlite3.connect(PROJECT / "data/d.db") as d:
                return {"T": str(d.execute("pragma user_version").fetchone()[0])}
        def template():
            from jinja2 import Environment, FileSystemLoader
            return {"T": Environment(loader=FileSystemLoader(PROJECT / "pages")).get_template("a.txt").render()}
        def size(path): return len(Path(path).read_text())
        def pool():
            with ProcessPoolExecutor(1, mp_context=get_context("fork")) as p:
                return {"T": str(p.submit(size, PROJECT / "data/x.csv").result())}
        def link():
            os.symlink(PROJECT / "data", "here")
            return {"T": open("here/x.csv").read()}
        def own(given):
            assert given.read_text() and open(PROJECT / "given.txt").read()
            (PROJECT / "log.txt").open("a").write("x")
            Path("note.txt").write_text(open(PROJECT / "out/own").read() if (PROJECT / "out/own").exists() else "")
            open(PROJECT / "log.txt").read(), open("note.txt").read(), open(PROJECT / ".git/HEAD").read()
            return {"T": ""}
        def publish(n): return {"T": str(len(os.listdir(PROJECT / "out/list")))}
        """,
    "plugin.py": "NAME = 'p'\n",
    "tools/make.py": "NAME = 'm'\n",
    "pages/a.txt": "{% include 'b.txt' %}",
    "pages/b.txt": "b",
    "data/x.csv": "x\n",
    "data/y.csv": "y\n",
    "data/.hidden": "",
    "given.txt": "g",
    ".git/HEAD": "ref",
    "data/d.db": b"",
}
JOBS = ("absolute", "relative", "by_name", "run_file", "absent", "listing", "database", "pool", "link", "template")


def jobs(*names: str) -> str:
    lines = (
        f"""  {name.title().replace("_", "")}:
    uses: python
    with: {{call: "steps:{name}"}}
    outputs: {{T: {{type: text}}}}
"""
        for name in names
    )
    return "workflow: w\njobs:\n" + "".join(lines)


def test_what_the_log_records_of_each_way_to_read_a_file_of_the_project(project: Make) -> None:
    names = folder_sha256(["d.db", "x.csv", "y.csv"])
    x = {"data/x.csv": sha("x\n")}
    assert observed(project(jobs(*JOBS), STEPS).succeed()) == {
        "Job:Absolute": x,
        "Job:Relative": x,
        "Job:ByName": {"plugin.py": sha("NAME = 'p'\n"), "plugin/__init__.py": "absent"},  # which would go first
        "Job:RunFile": {"tools/make.py": sha("NAME = 'm'\n")},
        "Job:Absent": {"conf.json": "absent"},
        "Job:Listing": {"data": names},
        "Job:Database": {"data/d.db": sha("")},
        "Job:Pool": x,
        "Job:Link": x,
        "Job:Template": {"pages/a.txt": sha("{% include 'b.txt' %}"), "pages/b.txt": sha("b")},
    }


def test_inputs_code_own_files_and_state_do_not_count(project: Make) -> None:
    workflow = """
        workflow: w
        inputs: {Given: {type: file, default: given.txt}}
        jobs:
          Own:
            uses: python
            with: {call: "steps:own", given: "${{ inputs.Given }}"}
            outputs: {T: {type: text, path: out/own}}
        """
    lab = project(workflow, STEPS)
    first = lab.succeed()
    again = lab.succeed(force=["Job:Own"])  # `out/own` is there now
    assert observed(first) == observed(again) == {"Job:Own": {}}
    lines = (first.folder / "events.jsonl").read_text() if first.folder else ""
    assert '"observed"' not in lines


def test_names_that_the_instances_of_a_job_publish_do_not_count_in_the_folder(project: Make) -> None:
    workflow = """
        workflow: w
        loops: {n: {values: [1, 2]}}
        jobs:
          Publish:
            for: [n]
            uses: python
            with: {call: "steps:publish", n: "${{ n }}"}
            outputs: {T: {type: text, path: "out/list/${{ n }}.txt"}}
        """
    lab = project(workflow, {**STEPS, "out/list/theirs.txt": ""})
    only_theirs = {"out/list": folder_sha256(["theirs.txt"])}
    assert observed(lab.succeed()) == {"Job:Publish[1]": only_theirs, "Job:Publish[2]": only_theirs}
    assert own_names(["out/list/1.txt", "out/a/b", "c"], "out/list") == {"1.txt"}
    assert own_names(["out/list/1.txt", "out/a/b", "c"], ".") == {"out", "c"}


def test_a_file_that_changes_while_the_step_runs_is_unknown_and_a_failure_records_its_reads_too(project: Make) -> None:
    code = """
        import os, subprocess
        def go():
            project = os.environ["WHYRUN_PROJECT"]
            open(f"{project}/data/x.csv").read()
            subprocess.run(["sh", "-c", f"echo more >> {project}/data/x.csv"], check=True)
            open(f"{project}/data/y.csv").read()
            raise ValueError("no")
        """
    files = {**STEPS, "steps.py": code, "whyrun.toml": 'trace = "never"\n'}  # strace would see who writes
    ran = project(jobs("go"), files).run()
    assert ran.failed == {"Job:Go": ("FAILED", "ValueError")}
    assert observed(ran) == {"Job:Go": {"data/x.csv": "unknown", "data/y.csv": sha("y\n")}}


def test_what_whyrun_reads_to_find_an_action_of_the_project_does_not_count(project: Make) -> None:
    act = """
        from pathlib import Path
        from whyrun import action
        @action("lab/{0}", outputs={{"T": "text"}})
        def {0}(context): return {{"T": (context.project / "data/x.csv").read_text()}}
        """
    workflow = "workflow: w\njobs:\n  One: {uses: lab/one, env: {A: b}}\n  Two: {uses: lab/two}\n"
    files = {**STEPS, "actions/one.py": act.format("one"), "actions/two.py": act.format("two")}
    x = {"data/x.csv": sha("x\n")}
    assert observed(project(workflow, files).succeed()) == {"Job:One": x, "Job:Two": x}


def test_steps_that_share_a_process_have_read_what_the_process_imported(project: Make) -> None:
    workflow = """
        workflow: w
        loops: {n: {values: [1, 2]}}
        jobs:
          Shared:
            for: [n]
            uses: python
            isolation: shared
            with: {call: "steps:by_name"}
            outputs: {T: {type: text}}
        """
    plugin = {"plugin.py": sha("NAME = 'p'\n"), "plugin/__init__.py": "absent"}
    assert observed(project(workflow, STEPS).succeed(jobs=1)) == {"Job:Shared[1]": plugin, "Job:Shared[2]": plugin}


def test_a_file_outside_the_project_is_told_once_and_recorded(project: Make, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x.csv"
    elsewhere.write_text("x")
    settings = elsewhere.with_name("pyvenv.cfg")  # the Python of a virtual environment reads it
    settings.write_text("home = /usr/bin")
    code = f"""
        import json, sys
        open({str(settings)!r}).close()
        def one(): return {{"T": open({str(elsewhere)!r}).read()}}
        two = one
        """
    ran = project(jobs("one", "two"), {"steps.py": code}).succeed()
    assert [event.outside for event in ran.of(ev.StepComplete)] == [[str(elsewhere)]] * 2
    assert [note.partition(" ")[2] for note in ran.heard.notes] == [
        f"reads {elsewhere}, outside the project: declare it"
    ]
    assert observed(ran) == {"Job:One": {}, "Job:Two": {}}


def test_the_environment_of_the_interpreter_does_not_count(project: Make) -> None:
    code = """
        import contextlib, importlib, os, sys
        def go():
            project = os.environ["WHYRUN_PROJECT"]
            sys.path.insert(0, f"{project}/venv/lib")
            import inside
            open(f"{project}/__pycache__/x.txt").close()
            import xml.dom.minidom, wsgiref.util
            # These list each folder of `sys.path`.
            import importlib.metadata, importlib_metadata
            assert importlib.metadata.version("pyyaml") == importlib_metadata.version("pyyaml")
            with contextlib.suppress(ImportError):  # not every environment has setuptools
                import pkg_resources
            return {"T": inside.NAME}
        """
    files = {
        "steps.py": code,
        "venv/pyvenv.cfg": f"home = {sys.base_prefix}\n",
        "venv/lib/inside.py": "NAME = 'i'\n",
        "__pycache__/x.txt": "",
    }
    assert observed(project(jobs("go"), files).succeed()) == {"Job:Go": {}}


def test_the_packages_that_a_step_imported_have_their_versions_on_record(project: Make) -> None:
    code = """
        import importlib
        def named():
            import numpy, yaml
            return {"T": numpy.__name__}
        def by_name(): return {"T": importlib.import_module("duck" + "db").__name__}
        def nothing():
            import json, xml.dom
            return {"T": ""}
        """
    script = """\
  Script:
    uses: shell
    with: {run: 'echo "$t" > "$out_T"', t: "${{ jobs.Nothing.outputs.T }}"}
    outputs: {T: {type: text}}
"""
    workflow = jobs("named", "by_name", "nothing") + script
    ran = project(workflow, {"steps.py": code}).succeed()
    packages = {event.step_id: event.packages for event in ran.of(ev.StepComplete)}
    pyyaml, numpy = ({name: metadata.version(name)} for name in ("pyyaml", "numpy"))
    assert packages["Job:Named"] == {**numpy, **pyyaml}
    assert packages["Job:ByName"].items() >= {"duckdb": metadata.version("duckdb")}.items()
    assert packages["Job:Nothing"] == packages["Job:Script"] == {}


def test_a_step_that_lists_a_folder_into_which_it_writes_undeclared_files_is_up_to_date_afterwards(
    project: Make,
) -> None:
    code = """
        import os, shutil
        def go():
            shutil.rmtree("data/tmp", ignore_errors=True)
            os.mkdir("data/tmp")
            open("data/run.log", "a").write("x")
            open("data/passing", "w").close()
            os.remove("data/passing")
            return {"T": str(len([name for name in os.listdir("data") if name.endswith(".csv")]))}
        """
    workflow = "defaults: {workdir: project}\n" + jobs("go")
    lab = project(workflow, {"steps.py": code, "data/x.csv": "x"})
    assert observed(lab.succeed()) == {"Job:Go": {"data": folder_sha256(["run.log", "tmp", "x.csv"])}}
    assert lab.plan().planned == []
    lab.write({"data/y.csv": "y"})
    assert [job.id for job in lab.plan().planned] == ["Job:Go"]


def test_names_with_unusual_spaces_count_and_names_with_control_characters_do_not(project: Make) -> None:
    code = """
        import os
        PROJECT = os.environ["WHYRUN_PROJECT"]
        def go():
            names = sorted(os.listdir(PROJECT + "/data"))
            return {"T": " ".join(open(os.path.join(PROJECT, "data", name)).read() for name in names)}
        """
    shot = "Shot at 3.45\u202fPM,\u00a0new\u3000.png"
    lab = project(jobs("go"), {"steps.py": code, f"data/{shot}": "s", "data/a\x01b": "c"})
    (lab.root / os.fsdecode(b"data/\xff")).write_text("u")
    folder = folder_sha256([shot])
    assert observed(lab.succeed()) == {"Job:Go": {"data": folder, f"data/{shot}": sha("s")}}
    assert lab.plan().planned == []
    lab.write({f"data/{shot}": "another"})
    assert [job.id for job in lab.plan().planned] == ["Job:Go"]


def test_what_is_deleted_or_replaced_while_the_step_runs_is_unknown(project: Make) -> None:
    code = """
        import os, subprocess
        def go():
            os.chdir(os.environ["WHYRUN_PROJECT"])
            for path in ("gone.txt", "link/x", "direct", "folder/x", "busy/x", "steady/x"):
                open(path).read()
            os.listdir("lost")
            for path in ("never.txt", "never/there.txt"):
                try:
                    open(path)
                except OSError:
                    pass
            subprocess.run(["sh", "-ec", "rm -r gone.txt lost; ln -sfn v2 link; ln -sf v2/x direct; "
                            "mv folder old; mv new folder; touch busy/y"], check=True)
            return {"T": ""}
        """
    paths = ("gone.txt", "v1/x", "v2/x", "folder/x", "new/x", "busy/x", "steady/x", "lost/x")
    files = {"steps.py": code, "whyrun.toml": 'trace = "never"\n'}  # strace would see who writes
    lab = project(jobs("go"), {**files, **{path: path for path in paths}})
    (lab.root / "link").symlink_to("v1")
    (lab.root / "direct").symlink_to("v1/x")
    unknown = dict.fromkeys(("gone.txt", "link/x", "direct", "folder/x", "lost"), "unknown")
    assert observed(lab.succeed()) == {
        "Job:Go": {
            **unknown,
            "busy/x": sha("busy/x"),
            "never.txt": "absent",
            "never/there.txt": "absent",
            "steady/x": sha("steady/x"),
        }
    }


def test_a_file_that_is_opened_to_read_and_write_counts_unless_the_step_changes_it(project: Make) -> None:
    code = """
        import os
        PROJECT = os.environ["WHYRUN_PROJECT"]
        def go():
            with open(f"{PROJECT}/log.txt", "a+") as log, open(f"{PROJECT}/new.txt", "a+") as new:
                log.write("x"), new.write("x")
            try:
                open(f"{PROJECT}/state.txt", "r+")
            except FileNotFoundError:
                pass
            with open(f"{PROJECT}/count.txt", "r+") as file:
                return {"T": file.read()}
        """
    lab = project(jobs("go"), {"steps.py": code, "count.txt": "1", "log.txt": "x"})
    assert observed(lab.succeed()) == {"Job:Go": {"count.txt": sha("1"), "state.txt": "absent"}}
    assert lab.plan().planned == []
    lab.write({"count.txt": "2"})
    assert [job.id for job in lab.plan().planned] == ["Job:Go"]


def test_a_listing_counts_beside_the_names_that_code_matches(project: Make) -> None:
    code = """
        import os
        def go(): return {"T": " ".join(sorted(os.listdir(os.environ["WHYRUN_PROJECT"] + "/lib")))}
        """
    files = {"steps.py": code, "lib/m.py": "", "lib/a.json": ""}
    lab = project(jobs("go").replace("    uses", "    code: [lib/*.py]\n    uses"), files)
    assert observed(lab.succeed()) == {"Job:Go": {"lib": folder_sha256(["m.py", "a.json"])}}
    lab.edit("workflow.yaml", "lib/*.py", "lib/*")
    assert observed(lab.succeed()) == {"Job:Go": {}}


def test_what_changed_since_a_shared_process_imported_it_is_unknown(project: Make) -> None:
    code = """
        import os, subprocess, time
        PROJECT = os.environ["WHYRUN_PROJECT"]
        VALUE = open(f"{PROJECT}/conf.txt").read()
        def go(n):
            if n == 2:
                subprocess.run(["sh", "-c", f"echo edited > {PROJECT}/conf.txt"], check=True)
                time.sleep(0.1)  # so that the change is older than the next step
            return {"T": VALUE}
        """
    workflow = """
        workflow: w
        loops: {n: {values: [1, 2, 3]}}
        jobs:
          Go:
            for: [n]
            uses: python
            isolation: shared
            with: {call: "steps:go", n: "${{ n }}"}
            outputs: {T: {type: text, path: "out/${{ n }}.txt"}}
        """
    files = {"steps.py": code, "conf.txt": "first", "whyrun.toml": 'trace = "never"\n'}
    lab = project(workflow, files)
    unknown = {"conf.txt": "unknown"}
    found = observed(lab.succeed(jobs=1))
    assert lab.read("out/3.txt") == "first"
    assert found == {"Job:Go[1]": {"conf.txt": sha("first")}, "Job:Go[2]": unknown, "Job:Go[3]": unknown}


def test_a_link_that_the_step_itself_switches_leads_to_what_counts(project: Make) -> None:
    code = """
        import os
        def go():
            os.chdir(os.environ["WHYRUN_PROJECT"])
            if os.path.lexists("latest"):
                os.remove("latest")
            os.symlink("v1", "latest")
            return {"T": open("latest/x").read()}
        """
    lab = project(jobs("go"), {"steps.py": code, "v1/x": "1"})
    lab.succeed()
    again = lab.succeed(force=["Job:Go"])
    assert observed(again) == {"Job:Go": {"latest/x": sha("1")}}
