"""Issue 20: imports with `for`, `if`, `needs`, and with results of jobs as their inputs."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from project_lab import ECHO, Lab, reasons, states
from whyrun.errors import WhyrunError
from whyrun.facts.graph import graph_facts, instance_facts
from whyrun.facts.show import id_facts
from whyrun.facts.subjects import find_subject
from whyrun.ids import IdPattern, any_index, parse_id, split_folder
from whyrun.planning.answers.whatif import assume
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob
from whyrun.snapshot.index import split_step, step_of
from whyrun.snapshot.observing.observe import InputObserver
from whyrun.workflow.parsing.parse import workflow_schema

Make = Callable[..., Lab]

VIDEO = """\
workflow: video
inputs:
  Portrait: {type: text, default: usual.txt}
  Style: {type: string, default: plain}
  N: {type: integer, default: 2}
loops: {segment: {count: inputs.N}}
jobs:
  Clip:
    for: [segment]
    if: ${{ inputs.N > 0 }}
    uses: python
    with:
      call: "echo:received"
      portrait: "${{ inputs.Portrait }}"
      style: "${{ inputs.Style }}"
      title: "${{ inputs.Style }} ${{ segment }}"
      before: "${{ first(jobs.Clip.outputs.Got[segment-1], inputs.Portrait) }}"
    outputs: {Got: {type: json, path: "clip-${{ segment }}.json"}}
  Film:
    uses: python
    with: {call: "echo:received", clips: "${{ jobs.Clip.outputs.Got[:] }}"}
    outputs: {Got: {type: json, path: film.json}}
"""
MAIN = """\
workflow: w
inputs:
  WithVideo: {type: boolean, default: true}
  Names: {type: "string[]", default: [ada, bob]}
loops: {celebrity: {values: inputs.Names}}
imports:
  Video:
    workflow: ./video.yaml
    for: [celebrity]
    if: ${{ inputs.WithVideo }}
    needs: [Prepare]
    with: {Portrait: "${{ jobs.Image.outputs.Image[celebrity] }}", Style: "as ${{ celebrity }}"}
jobs:
  Prepare: {uses: shell, with: {run: "true"}}
  Image:
    for: [celebrity]
    uses: shell
    with: {name: "${{ celebrity }}", run: 'echo "$name" > "$out_Image"'}
    outputs: {Image: {type: text}}
  Each:
    for: [celebrity]
    uses: python
    with: {call: "echo:received", film: "${{ jobs.Video.Film.outputs.Got[celebrity] }}"}
    outputs: {Got: {type: json}}
  All:
    needs: [Video]
    uses: python
    with:
      call: "echo:received"
      films: "${{ named(jobs.Video.Film.outputs.Got[:]) }}"
      clips: "${{ jobs.Video.Clip.outputs.Got[:, :] }}"
    outputs: {Got: {type: json}}
"""
FILES = {"echo.py": ECHO, "video.yaml": VIDEO, "usual.txt": "usual\n"}
OF_VIDEO = [f"Job:Video[{name}]/{job}" for name in ("ada", "bob") for job in ("Clip[0]", "Clip[1]", "Film")]


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(MAIN, FILES)


def test_each_index_has_jobs_inputs_and_paths_of_its_own(lab: Lab) -> None:
    ran = lab.succeed()
    assert sorted(job for job in ran.executed if job.startswith("Job:Video")) == OF_VIDEO
    clip = next(job for job in ran.plan.planned if job.id == "Job:Video[ada]/Clip[1]")
    assert clip.bindings == {
        "portrait": "Artifact:Image.Image[ada]",  # the input is that artifact: it has no second name
        "style": "Input:Video[ada]/Style",
        "before": "Artifact:Video[ada]/Clip.Got[0]",
    }
    assert lab.content("Artifact:Video[ada]/Clip.Got[1]")["title"] == "as ada 1"
    assert lab.content("Artifact:Video[bob]/Clip.Got[0]")["portrait"] == "file:bob\n"
    assert json.loads(lab.read("Video/bob/clip-1.json"))["title"] == "as bob 1"
    assert lab.content("Artifact:All.Got")["films"].keys() == {"ada", "bob"}
    assert lab.plan().headlines() == {}
    one = next(job for job in lab.plan(force=["Job:All"]).planned if job.id == "Job:All")
    assert one.bindings["clips"] == [f"Artifact:Video[{name}]/Clip.Got[{n}]" for name in ("ada", "bob") for n in (0, 1)]


def test_a_change_stays_at_its_index(lab: Lab) -> None:
    lab.succeed()
    styles = "Style: \"${{ 'new' if celebrity == 'bob' else 'as ada' }}\""
    lab.edit("workflow.yaml", 'Style: "as ${{ celebrity }}"', styles)
    plan = lab.plan()
    assert plan.headlines() == {
        "Job:Video[bob]/Clip[0]": "INPUT_CHANGED",
        "Job:Video[bob]/Clip[1]": "INPUT_CHANGED",
        "Job:Video[bob]/Film": "UPSTREAM_DIRTY",
        "Job:Each[bob]": "UPSTREAM_DIRTY",
        "Job:All": "UPSTREAM_DIRTY",
    }
    changed = reasons(plan)["Job:Video[bob]/Clip[0]"]
    assert [(each["code"], each["source"]) for each in changed] == [
        ("INPUT_CHANGED", "Input:Video[bob]/Style"),
        ("INPUT_CHANGED", "Input:Video[bob]/Clip[0].with.title"),
    ]
    assert lab.succeed().executed == sorted(plan.headlines())
    assert lab.plan(sets=['Names=["eve", "ada", "bob"]']).headlines().keys() >= {"Job:Video[eve]/Film"}
    assert "Job:Video[ada]/Film" not in lab.plan(sets=['Names=["eve", "ada", "bob"]']).headlines()


def test_the_condition_of_an_import_is_that_of_all_its_jobs(lab: Lab) -> None:
    ran = lab.succeed(sets=["WithVideo=false"])
    inactive = [job for job, state in states(ran.plan).items() if state == "inactive"]
    assert sorted(inactive) == sorted([*OF_VIDEO, "Job:Each[ada]", "Job:Each[bob]"])
    (one,) = [j for j in ran.plan.jobs if j.id == "Job:Video[ada]/Clip[0]"]
    assert one.because == {
        "condition": "(inputs.WithVideo) and (inputs.N > 0)",
        "inputs": {"Input:WithVideo": False, "Input:Video[ada]/N": 2},
    }
    assert lab.content("Artifact:All.Got") == {"films": {}, "clips": []}


def test_what_an_import_needs_blocks_all_its_jobs(lab: Lab) -> None:
    lab.edit("workflow.yaml", 'run: "true"', 'run: "false"')
    ran = lab.run()
    assert ran.failed.keys() == {"Job:Prepare"}
    assert sorted(ran.blocked) == sorted([*OF_VIDEO, "Job:All", "Job:Each[ada]", "Job:Each[bob]"])


def test_the_file_runs_alone(lab: Lab) -> None:
    (lab.root / "workflow.yaml").unlink()
    (lab.root / "video.yaml").rename(lab.root / "workflow.yaml")
    assert lab.succeed().executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Film"]
    assert lab.content("Artifact:Clip.Got[0]")["portrait"] == "file:usual\n"


def test_plans_replay_and_the_index_of_the_log_knows_the_steps(lab: Lab) -> None:
    lab.succeed()
    snapshot = lab.snapshot()
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    options = PlanOptions(force=("Job:Video[bob]/*", "Job:Video[bob]/Clip[*]"))
    plans = [compute_execution_plan(each, options).to_json() for each in (again, snapshot)]
    assert plans[0] == plans[1]
    assert len(plans[0]["jobs"]) == 5
    lab.succeed(force=["Job:Video[bob]/Clip[*]"])  # it reads the index that the first run has left
    assert lab.plan().headlines() == {}
    assert [split_step(step) for step in sorted(lab.opened().history().records.steps) if "bob" in step][2:] == [
        ("Video[]/Clip", "[bob][0]"), ("Video[]/Clip", "[bob][1]"), ("Video[]/Film", "[bob]"),
    ]  # fmt: skip
    assert step_of("Video[]/Clip", "[bob][0]") == "Job:Video[bob]/Clip[0]"


def test_what_is_told(lab: Lab) -> None:
    lab.succeed()
    snapshot, plan = lab.snapshot(), lab.plan()
    graph = snapshot.dependency_graph
    facts = graph_facts(graph, plan)
    clip = next(node for node in facts["nodes"] if node["job"] == "Video/Clip")
    assert (clip["pattern"], clip["loops"], clip["import"]) == (
        "Job:Video[*]/Clip[*]",
        ["celebrity", "segment"],
        "Video",
    )
    groups = {group["import"]: group["jobs"] for group in instance_facts(graph, plan)["groups"]}
    assert groups["Video[ada]"] == ["Video[ada]/Clip[0]", "Video[ada]/Clip[1]", "Video[ada]/Film"]
    for id_, value in (("Input:Video[ada]/Style", "as ada"), ("Input:Video[bob]/Clip[1].with.title", "as bob 1")):
        assert find_subject(graph, id_).id == id_
        assert id_facts(lab.opened(), id_)["value"] == value


def test_an_assumption_about_one_index(lab: Lab) -> None:
    lab.succeed()
    opened = lab.opened()
    inputs, _ = assume(
        opened.workflow, opened.inputs, ["Input:Video[ada]/Style=x"], InputObserver(lab.root, opened.cache)
    )
    assert inputs["Input:Video[ada]/Style"].value == "x"
    assert inputs["Input:Video[bob]/Style"].value == "as bob"


def test_the_schema_knows_the_keys() -> None:
    decl = {"workflow": "./a.yaml", "for": ["x"], "if": "${{ inputs.A }}", "needs": ["B"], "with": {}}
    file = {"workflow": "w", "loops": {"x": {"count": 1}}, "imports": {"I": decl}, "jobs": {}}
    checker = jsonschema.Draft202012Validator(workflow_schema())
    assert checker.is_valid(file)
    assert not checker.is_valid({**file, "imports": {"I": {**decl, "if": 3}}})


# --- IDs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id_", "folder", "own"),
    [
        ("Job:Video[ada]/Clip[0]", "Job:Video[ada]/", "Clip[0]"),
        ('Job:Video["a/b"][1]/In[?]/Clip', 'Job:Video["a/b"][1]/In[?]/', "Clip"),
        ('Job:Clip["a]/b"]', "Job:", 'Clip["a]/b"]'),
        ('Artifact:Video[a.b]/Clip.Frame[0].Score', 'Artifact:Video[a.b]/', "Clip.Frame[0].Score"),
        ("Input:Video[1.5]/Style", "Input:Video[1.5]/", "Style"),
    ],
)  # fmt: skip
def test_ids_have_one_spelling(id_: str, folder: str, own: str) -> None:
    assert str(parse_id(id_)) == id_
    assert split_folder(id_) == (folder, own)
    assert IdPattern(any_index(id_)).matches(id_)
    if id_.startswith("Job:"):
        assert step_of(*split_step(id_)) == id_


def test_the_index_of_an_import_is_not_one_of_the_job(lab: Lab) -> None:
    graph = lab.snapshot().dependency_graph
    assert graph.node_of["Job:Video[ada]/Clip[1]"] == graph.node_of["Job:Video[ada]/Clip[0]"] + 1
    for wrong in ("Job:Video/Clip[ada][1]", "Job:Video[ada]/Clip", "Job:Video[ada][1]/Clip"):
        assert wrong not in graph.node_of
    assert graph.artifact_id(graph.artifact_of["Artifact:Video[bob]/Film.Got"]) == "Artifact:Video[bob]/Film.Got"
    assert "Artifact:Video/Film.Got[bob]" not in graph.artifact_of
    with pytest.raises(WhyrunError) as caught:
        lab.plan(targets=["Video[ada]/Film"])
    assert caught.value.diagnostics[0].hint == "write `--target 'Job:Video[ada]/Film'`"
    with pytest.raises(WhyrunError) as caught:
        lab.plan(targets=["Job:Video[*]"])
    assert "names nothing" in caught.value.diagnostics[0].message


def test_indices_that_are_no_names(lab: Lab) -> None:
    names = ['Names=["a/b", "c d", "01"]']
    lab.succeed(sets=names)
    assert sorted(path.name for path in (lab.root / "Video").iterdir()) == ["01", "a%2Fb", "c%20d"]
    assert lab.plan(sets=names).headlines() == {}
    assert lab.plan(sets=names, force=['Job:Video["a/b"]/Clip[0]']).headlines().keys() == {
        'Job:Video["a/b"]/Clip[0]', 'Job:Video["a/b"]/Clip[1]', 'Job:Video["a/b"]/Film', 'Job:Each["a/b"]', "Job:All",
    }  # fmt: skip
    assert lab.plan(sets=["Names=[]"]).headlines() == {"Job:All": "INPUT_CHANGED"}


# --- imports in imports, and loops over results ----------------------------------------------------------------------

INNER = """\
workflow: inner
inputs:
  Text: {type: string, default: x}
  Net: {type: file, for: [k], path: "nets/${{ inputs.Text }}-${{ k }}.txt"}
loops: {k: {values: [1, 2]}}
jobs:
  J:
    for: [k]
    exclude: [{k: 1}]
    include: [{k: 5}]
    uses: python
    with: {call: "echo:received", k: "${{ k }}", t: "${{ inputs.Text }}"}
    outputs: {Got: {type: json}}
  K:
    for: [k]
    uses: python
    with: {call: "echo:received", net: "${{ inputs.Net[k] }}"}
    outputs: {Got: {type: json}}
"""
MID = """\
workflow: mid
inputs: {Who: {type: string}, Go: {type: boolean}, File: {type: text}}
loops: {k: {values: [u, v]}}
imports:
  In:
    workflow: ./inner.yaml
    for: [k]
    if: ${{ inputs.Go and k != 'no' }}
    with: {Text: "${{ inputs.Who }}${{ k }}"}
  Once: {workflow: ./inner.yaml, with: {Text: "${{ inputs.Who }}u"}}
jobs:
  M:
    uses: python
    with: {call: "echo:received", f: "${{ inputs.File }}", all: "${{ jobs.In.J.outputs.Got[:, :] }}"}
    outputs: {Got: {type: json}}
"""
TOP = """\
workflow: top
inputs: {Pairs: {type: "json[]", default: [{n: a, go: true}, {n: b, go: false}], key: n}}
loops: {p: {each: inputs.Pairs}}
imports:
  Mid:
    workflow: ./mid.yaml
    for: [p]
    with: {Who: "${{ p }}", Go: "${{ inputs.Pairs[p].go }}", File: "${{ jobs.F.outputs.Z[p] }}"}
jobs:
  F: {for: [p], uses: shell, with: {p: "${{ p }}", run: 'echo "$p" > "$out_Z"'}, outputs: {Z: {type: text}}}
  All:
    uses: python
    with: {call: "echo:received", some: "${{ jobs.Mid.In.J.outputs.Got['a', :, 2] }}"}
    outputs: {Got: {type: json}}
"""
NETS = {f"nets/{p}{k}-{n}.txt": f"{p}{k}{n}" for p in "ab" for k in "uv" for n in (1, 2)}


def test_imports_in_imports(project: Make) -> None:
    lab = project(TOP, {"echo.py": ECHO, "mid.yaml": MID, "inner.yaml": INNER, **NETS})
    ran = lab.succeed()
    of_a = {f"Job:Mid[a]/{way}/{job}" for way in ("In[u]", "In[v]", "Once") for job in ("J[2]", "J[5]", "K[1]", "K[2]")}
    of_b = {f"Job:Mid[b]/Once/{job}" for job in ("J[2]", "J[5]", "K[1]", "K[2]")}
    assert set(ran.executed) == {*of_a, *of_b, "Job:F[a]", "Job:F[b]", "Job:Mid[a]/M", "Job:Mid[b]/M", "Job:All"}
    assert lab.content("Artifact:Mid[a]/In[v]/K.Got[2]") == {"net": "file:av2"}
    bindings = {job.id: job.bindings for job in ran.plan.planned}
    assert bindings["Job:Mid[a]/M"]["f"] == "Artifact:F.Z[a]"
    assert bindings["Job:Mid[b]/M"]["all"] == []
    assert bindings["Job:All"]["some"] == ["Artifact:Mid[a]/In[u]/J.Got[2]", "Artifact:Mid[a]/In[v]/J.Got[2]"]
    lab.write({"nets/av-2.txt": "new"})
    assert lab.plan().headlines() == {"Job:Mid[a]/In[v]/K[2]": "INPUT_CHANGED"}


PROCESS = """\
workflow: process
inputs:
  Parts: {type: "file[]", key: stem}
  Story: {type: json}
loops:
  part: {each: inputs.Parts}
  n: {count: inputs.Story.Count}
jobs:
  Map:
    for: [part]
    uses: python
    with: {call: "echo:received", part: "${{ inputs.Parts[part] }}", title: "${{ inputs.Story.Title }}"}
    outputs: {Got: {type: json}}
  Number:
    for: [n]
    uses: shell
    with: {n: "${{ n }}", run: 'echo "$n" > "$out_X"'}
    outputs: {X: {type: text}}
  Merge:
    uses: python
    with: {call: "echo:received", all: "${{ jobs.Map.outputs.Got[:] }}", raw: "${{ inputs.Parts }}"}
    outputs: {Got: {type: json}}
"""
SPLIT = """\
workflow: w
loops: {sample: {values: [a, b]}}
imports:
  P:
    workflow: ./process.yaml
    for: [sample]
    with: {Parts: "${{ jobs.Split.outputs.Parts[sample] }}", Story: "${{ jobs.Script.outputs.Story }}"}
jobs:
  Script:
    uses: shell
    with: {run: "echo '{\\"Title\\": \\"t\\", \\"Count\\": 1}' > \\"$out_Story\\""}
    outputs: {Story: {type: json, leaves: {Title: string, Count: integer}}}
  Split:
    for: [sample]
    uses: shell
    with: {s: "${{ sample }}", run: 'for n in 1 2; do echo "$s $n" > "$out_Parts/p$n.txt"; done'}
    outputs: {Parts: {type: "file[]"}}
"""


def test_loops_over_results_that_are_handed_in(project: Make) -> None:
    lab = project(SPLIT, {"echo.py": ECHO, "process.yaml": PROCESS})
    before = lab.plan()
    assert sorted(job.id for job in before.jobs if job.state == "open") == [
        "Job:P[a]/Map[?]", "Job:P[a]/Number[?]", "Job:P[b]/Map[?]", "Job:P[b]/Number[?]",
    ]  # fmt: skip
    lab.succeed(targets=["Job:Script", "Job:Split[*]"])
    ran = lab.succeed()
    maps = [f"Job:P[{sample}]/Map[p{n}]" for sample in "ab" for n in (1, 2)]
    assert ran.executed == sorted([*maps, *(f"Job:P[{s}]/{job}" for s in "ab" for job in ("Number[0]", "Merge"))])
    bindings = {job.id: job.bindings for job in ran.plan.planned}
    assert bindings["Job:P[b]/Map[p1]"] == {
        "part": "Artifact:Split.Parts[b][p1]",
        "title": "Artifact:Script.Story.Title",
    }
    assert bindings["Job:P[b]/Merge"]["raw"] == ["Artifact:Split.Parts[b][p1]", "Artifact:Split.Parts[b][p2]"]
    assert lab.plan().headlines() == {}
    why = id_facts(lab.opened(), "Job:P[a]/Map[p2]")
    assert (why["state"], why["bindings"]["part"]) == ("clean", "Artifact:Split.Parts[a][p2]")


def test_stages_inside_an_import_that_runs_for_a_loop(project: Make) -> None:
    lab = project(SPLIT, {"echo.py": ECHO, "process.yaml": PROCESS})
    made = {f"Job:P[{s}]/{job}" for s in "ab" for job in ("Map[p1]", "Map[p2]", "Number[0]", "Merge")}
    assert set(lab.succeed().executed) == {*made, "Job:Script", "Job:Split[a]", "Job:Split[b]"}
    assert lab.plan().headlines() == {}
    lab.edit("workflow.yaml", "for n in 1 2;", "for n in 1 2 $([ $s = a ] && echo 3);")
    ran = lab.succeed()
    assert set(ran.executed) == {"Job:Split[a]", "Job:Split[b]", "Job:P[a]/Map[p3]", "Job:P[a]/Merge"}
    assert lab.plan().headlines() == {}
