"""What the page shows, read off a real browser, is what the commands print."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from browser_lab import KEPT_ADDRESS, Served

from command_lab import CommandLab
from page_objects import Viewer, external

# Each view, and the first words of its command.
VIEWS: dict[tuple[str, ...], str] = {
    ("graph",): "graph", ("why", "Job:Montage"): "why Job:Montage", ("why", "Job:Clip[*]"): "explain --job",
    ("plan", "r0002"): "plan --at r0002", ("run", "r0003"): "show r0003", ("runs",): "runs",
    ("artifacts",): "status --all", ("artifact", "Artifact:Script.Story"): "show Artifact:Script.Story",
    ("diff", "r0001", "r0002"): "diff r0001 r0002", ("whatif",): "explain", ("results",): "table",
    ("lineage", "Artifact:Montage.Picture"): "lineage Artifact:Montage.Picture",
}  # fmt: skip
CLEAN, INACTIVE = "Job:Script", "Job:Clip[1]"


def explained(lab: CommandLab) -> tuple[dict[str, Any], dict[str, Any]]:
    """`explain --json`, and its entries by ID."""
    body = lab.whyrun("explain", "--json").json
    jobs = [job for layer in body["layers"] for job in layer["jobs"]] + body["deferred"]
    return body, {job["id"]: job for job in jobs}


def named(reason: dict[str, Any]) -> set[str]:
    """The inputs, jobs and artifacts that a reason is about; parameters of the job itself are named by their slot."""
    ids = {str(reason[key]) for key in ("artifact", "job", "source", "old_source") if reason.get(key)}
    return {id_ for id_ in ids if ".with." not in id_ and not id_.endswith(".action")}


def check_reasons(viewer: Viewer, lab: CommandLab) -> None:
    body, jobs = explained(lab)
    assert viewer.totals() == counted(body["totals"])
    assert jobs
    for id_, job in jobs.items():
        page = viewer.why(id_)
        assert (page["id"], [reason["code"] for reason in page["reasons"]]) == (
            id_, [reason["code"] for reason in job["reasons"]],
        )  # fmt: skip
        for told, reason in zip(page["reasons"], job["reasons"], strict=True):
            assert told["job"] == id_
            assert named(reason) <= set(told["names"])


def counted(totals: dict[str, int]) -> dict[str, int]:
    """Totals as people read them: what there is none of is not shown."""
    return {name: count for name, count in totals.items() if count and name != "jobs"}


def test_view_1_the_reasons_on_the_page_are_those_of_explain(shown: Viewer, served: Served) -> None:
    check_reasons(shown, served.lab)
    told = served.lab.whyrun("why", CLEAN, "--json").json
    page = shown.why(CLEAN)
    assert (page["state"], page["reasons"]) == ("clean", [])
    assert [e["name"] for e in told["jobs"][0]["compared"]] == shown.page.locator(".same dt").all_inner_texts()
    assert [reason["code"] for reason in shown.why(INACTIVE)["reasons"]] == ["condition_false"]
    assert "HasTransition" in shown.main_text()


def test_view_1_the_old_photo_stands_beside_the_new_one(shown: Viewer, served: Served) -> None:
    """The last success read another photo than there is now: both are shown, and their bytes are different."""
    shown.go("why", "Job:ThenImage[1]")
    photos = shown.page.locator(".then-now img")
    loaded = photos.evaluate_all("all => Promise.all(all.map(async i => (await i.decode(), [i.src, i.naturalWidth])))")
    assert [width for _, width in loaded] == [96, 96]
    assert len({source for source, _ in loaded}) == 2


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_view_1_a_helper_that_nothing_declares_is_named(viewer: Viewer, tmp_path: Path) -> None:
    """By its path, in the heading and in the reason; what else the job read is listed with it."""
    lab = CommandLab(tmp_path / "study")
    lab.root.mkdir()
    script = "import helper, other; print(helper.N + other.N)"
    step = "{uses: shell, workdir: project, with: {run: 'python3 a.py > \"$out_T\"'}, outputs: {T: {type: text}}}"
    lab.write({"workflow.yaml": f"workflow: w\njobs:\n  Fit: {step}\n", "a.py": script})
    lab.write({"helper.py": "N = 1\n", "other.py": "N = 1\n"})
    lab.succeed()
    lab.write({"helper.py": "N = 2\n"})
    served = Served(lab)
    try:
        viewer.start(served.url)
        heading = viewer.page.locator(".cause h2").inner_text()
        assert heading == "Because a file that Fit reads without declaring it, helper.py, changed"
        viewer.go("why", "Job:Fit")
        [sentence] = viewer.page.locator(".sentence").all_inner_texts()
        assert sentence.startswith("It reads helper.py without declaring it, and that file changed (")
        read = viewer.page.locator(".same dt").all_inner_texts()
        assert {"a.py", "other.py"} <= set(read)
        assert "helper.py" not in read
    finally:
        served.stop()
    assert viewer.wrong == []


def test_view_1_a_failure_is_one_click_from_the_first_screen(shown: Viewer) -> None:
    shown.page.locator(".failure .failure-more a").click()
    shown.settle()
    assert shown.hash == "#/why/Job%3AThenImage%5B1%5D"
    assert "UnidentifiedImageError" in shown.page.locator(".failure-error").inner_text()
    assert "in sepia" in shown.page.get_by_label("Traceback", exact=True).inner_text()


def test_view_2_the_graph_and_the_edges_in_focus_are_those_of_the_plan(shown: Viewer) -> None:
    assert shown.boxes() == {
        "Job:Script": "clean", "Job:ThenImage[*]": "failed", "Job:Clip[*]": "inactive", "Job:Montage": "planned",
    }  # fmt: skip
    shown.go("why", "Job:Montage")
    assert shown.focused_edges() == {("ThenImage", "Montage"), ("Clip", "Montage")}
    shown.go("why", "Job:ThenImage[1]")
    assert shown.focused_edges() == {("ThenImage", "Montage")}
    shown.page.keyboard.press("ArrowRight")
    shown.settle()
    assert shown.hash == "#/why/Job%3AMontage"


def test_view_2_a_state_that_the_page_does_not_know_is_shown_by_its_name(viewer: Viewer, served: Served) -> None:
    """As of a newer server: nothing is guessed, and nothing breaks."""

    def newer(route: Any) -> None:
        answer = route.fetch()
        graph = answer.json()
        for node in graph["nodes"]:
            node["states"] = {"quarantined": node["count"]}
        route.fulfill(response=answer, json=graph)

    viewer.page.route("**/api/graph", newer)
    viewer.start(served.url)
    assert set(viewer.boxes().values()) >= {"quarantined"}
    assert "quarantined" in viewer.main_text()
    assert viewer.wrong == []


def test_view_5_now_and_the_kept_results_are_in_sight_from_the_start(viewer: Viewer, served: Served) -> None:
    """With more runs than the line has room for; a keep has no plan, so it shows what it did."""

    def many(route: Any) -> None:
        answer = route.fetch()
        state = answer.json()
        named = [{**state["runs"][-1], "run": f"r{number:04d}"} for number in range(1, 21)]
        state["runs"] = [*named[:-1], {**named[-1], "mode": "decide", "state": "succeeded"}]
        route.fulfill(response=answer, json=state)

    viewer.page.route("**/api/state", many)
    viewer.start(served.url)
    sides = "all => all.map(one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
    [line] = viewer.page.locator(".stops").evaluate_all(sides)
    kept, now = viewer.page.locator(".stops [data-id=r0020], .stops .now a").evaluate_all(sides)
    assert line[0] <= kept[0] < now[0] < now[1] <= line[1]
    viewer.page.locator(".stops [data-id=r0020]").click()
    assert viewer.hash == "#/run/r0020"


def test_view_3_artifacts_are_shown_as_they_are(shown: Viewer, served: Served) -> None:
    known = {row["id"]: row for row in served.lab.whyrun("status", "--all", "--json").json["artifacts"]}
    shown.go("artifacts")
    assert set(shown.ids("#main [data-id^='Artifact:']")) <= set(known)
    shown.go("artifact", "Artifact:ThenImage.Image[0]")
    facts = served.lab.whyrun("show", "Artifact:ThenImage.Image[0]", "--json").json
    assert facts["sha256"] in shown.main_text()
    assert shown.page.locator(".preview").get_attribute("data-sha256") == facts["sha256"]
    assert shown.page.locator(".picture").evaluate("async image => (await image.decode(), image.naturalWidth)") > 0
    shown.go("artifact", "Artifact:Script.Story")
    assert "HasTransition" in shown.page.locator(".json").inner_text()


def test_view_5_the_digest_on_the_page_is_that_of_each_plan(shown: Viewer, served: Served) -> None:
    for run in served.lab.runs():
        plan = json.loads((served.lab.run_folder(run) / "plan.json").read_bytes())
        assert shown.digest(run) == plan["digest"]
        assert shown.shown_totals() == counted(plan["totals"])


def test_view_6_what_if_equals_the_command(shown: Viewer, served: Served) -> None:
    shown.page.evaluate("location.hash = '#/whatif'")
    shown.settle()
    shown.page.locator("[data-id='Input:Topic'] input[type=checkbox]").check()
    shown.until("app => app.route.params.assume")
    shown.settle()
    body = served.lab.whyrun(*shlex.split(str(shown.command()))[1:]).json
    assert body["totals"]["planned"] == 8
    assert shown.shown_totals() == counted(body["totals"])
    assert len(shown.ids(".instances li")) == 8


def test_view_7_the_differences_of_two_runs_are_counted_as_the_command_counts(shown: Viewer, served: Served) -> None:
    body = served.lab.whyrun("diff", "r0001", "r0002", "--json").json
    counts = {name: len(body[name]) for name in ("jobs", "reasons", "inputs", "actions", "artifacts") if body[name]}
    assert shown.differences("r0001", "r0002") == counts
    assert shown.page.locator("wr-compare").count() == 1


def check_comparison(viewer: Viewer, lab: CommandLab) -> None:
    """A recorded comparison: the counts on the page are those that `compare --json` has printed."""
    lab.edit("actions/image.py", "16", "20")
    told = lab.whyrun("compare", "Job:ThenImage[*]", "Job:Script", "--json").json
    viewer.go("run", told["run"])
    counted = viewer.page.locator("#main [data-differs]")
    shown = counted.evaluate_all("all => all.map(e => [e.dataset.differs, Number(e.dataset.count)])")
    assert dict(shown) == Counter(one["status"] for one in told["artifacts"])
    assert set(dict(shown)) == {"DIFFERENT", "IDENTICAL"}
    assert viewer.ids("#main .instances [data-code=DIFFERENT]") == [
        one["artifact"] for one in told["artifacts"] if one["status"] == "DIFFERENT"
    ]


def test_view_10_the_command_of_a_view_can_be_run(shown: Viewer, served: Served) -> None:
    """That it prints the same is in `test_viewer_data.py` and `test_viewer_commands.py`."""
    for view, words in VIEWS.items():
        command = shown.go(*view).command()
        assert command is not None, view
        assert command.startswith(f"whyrun {words}"), view
        assert served.lab.whyrun(*shlex.split(command)[1:]).code == 0, command


def test_view_8_the_hops_of_a_lineage_are_those_of_the_command(shown: Viewer, served: Served) -> None:
    told = served.lab.whyrun("lineage", "Artifact:ThenImage.Image[2]", "--json").json
    shown.go("lineage", "Artifact:ThenImage.Image[2]")
    hops = shown.page.locator(".hop").evaluate_all("all => all.map(e => [e.dataset.id, e.dataset.sha256 ?? null])")
    assert [tuple(hop) for hop in hops] == [(hop["id"], hop.get("sha256")) for hop in told["hops"]]


def test_results_are_the_table_of_the_command(shown: Viewer, served: Served) -> None:
    patterns = served.lab.whyrun("table", "--json").json["patterns"]
    told = served.lab.whyrun("table", *patterns, "--json").json
    shown.go("results")
    cells = shown.page.locator("#main td[data-id^='Artifact:']")
    shown_values = cells.evaluate_all("all => all.map(e => [e.dataset.id, e.innerText.trim()])")
    assert [tuple(cell) for cell in shown_values] == [
        (id_, json.dumps(value))
        for row in told["rows"]
        for id_, value in zip(row["artifacts"], row["values"], strict=True)
    ]


def test_keys_search_and_jump(shown: Viewer) -> None:
    shown.page.keyboard.press("?")
    shown.settle()
    help_ = shown.page.get_by_role("dialog")
    assert "zoom in, zoom out, show everything" in help_.inner_text()
    assert "nothing that it reads has changed" in help_.inner_text()
    shown.page.keyboard.press("Escape")
    shown.until("app => !app.ui.help")
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("montage")
    shown.until("app => app.querySelector('#hits [data-id=\"Job:Montage\"]')")
    shown.page.keyboard.press("Enter")
    shown.until("app => app.route.view !== 'graph'")
    assert "Montage" in shown.hash
    shown.go("why", "Job:Montage")
    shown.page.keyboard.press("Escape")
    shown.until("app => app.route.view === 'graph'")


def test_the_report_opens_from_disk_without_a_network(viewer: Viewer, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert served.lab.whyrun("report", "-o", str(file)).code == 0
    viewer.start(file.as_uri())
    check_reasons(viewer, served.lab)
    for run in served.lab.runs():
        assert viewer.digest(run) is not None
    viewer.go("artifact", "Artifact:ThenImage.Image[0]")
    assert viewer.page.locator(".picture").evaluate("async image => (await image.decode(), image.naturalWidth)") > 0
    viewer.go("run", "r0003")
    assert "UnidentifiedImageError" in viewer.main_text()
    assert list(external(viewer.asked)) == []
    assert viewer.wrong == []


WAITING = """
    workflow: waiting
    jobs:
      Quick: {uses: shell, with: {run: 'echo done > "$out_T"'}, outputs: {T: {type: text}}}
      Slow:
        uses: shell
        with:
          text: ${{ jobs.Quick.outputs.T }}
          run: |
            echo "it waits" >&2
            until [ -e "$WHYRUN_PROJECT/../go" ]; do sleep 0.05; done
            cp "$text" "$out_T"
        outputs: {T: {type: text}}
"""


def test_view_4_while_a_run_goes_on(viewer: Viewer, tmp_path: Path) -> None:
    """What runs, what is done and the last lines, without a reload; then the end."""
    (tmp_path / "project").mkdir()
    lab = CommandLab(tmp_path / "project")  # the file that a step waits for is no part of it
    lab.write({"workflow.yaml": WAITING})
    live = Served(lab)
    try:
        viewer.start(live.url)
        assert viewer.totals() == {"planned": 2}
        run = lab.start("run")
        viewer.until("app => app.querySelector('[data-headline]').innerText.includes('r0001 running')")
        viewer.go("run", "r0001")
        viewer.until("app => app.querySelector('#main .progress')?.innerText.startsWith('1 of 2')")
        bar = viewer.page.locator("#main .bit[data-code=RUNNING]")
        assert bar.get_attribute("data-id") == "Job:Slow"
        assert "step_start Job:Slow" in viewer.page.get_by_label("Events", exact=True).inner_text()
        assert "running" in viewer.go("why", "Job:Slow").main_text()
        viewer.go("run", "r0001")
        (tmp_path / "go").touch()
        assert run.ended().code == 0
        viewer.until("app => !app.querySelector('[data-headline] [data-total=planned]')")
        viewer.until("app => !app.querySelector('#main .progress')")
        assert "succeeded" in viewer.page.locator("#main h1").inner_text()
        assert viewer.wrong == []
    finally:
        (tmp_path / "go").touch()
        live.stop()


def test_view_4_ten_tabs_and_a_server_that_is_killed(viewer: Viewer, served: Served, tmp_path: Path) -> None:
    """Each line of the log comes once to every tab, also those that were written while there was no server; and the
    plan follows without a reload."""
    root = tmp_path / "copy"
    shutil.copytree(served.lab.root, root, ignore=shutil.ignore_patterns("lock"))
    lab = CommandLab(root)
    live = Served(lab, KEPT_ADDRESS, "0", root)
    port = live.url.split(":")[2].partition("/")[0]
    try:
        viewer.start(live.url)
        address = viewer.page.url.split("#")[0]
        tabs = [viewer, *(Viewer(viewer.page.context.new_page()).start(address) for _ in range(9))]
        for tab in tabs:
            tab.until("app => app.ui.connected")
        assert viewer.totals()["planned"] == 2
        live.kill()
        lab.succeed()
        live.start(KEPT_ADDRESS, port, root)
        for tab in tabs:
            tab.until("app => app.querySelector('[data-said]')?.innerText === 'Everything is up to date'")
        lab.write({"photos/ben.png": "not a photo\n"})
        assert lab.run().exit_code == 1
        events = [f"{run}:{event.seq}" for run in ("r0004", "r0005") for event in lab.events(run)]
        for tab in tabs:
            tab.until(f"app => app.ui.lines.length >= {len(events)}")
            assert tab.log_lines() == events
            assert [line for line in tab.wrong if "ERR_" not in line] == []  # the browser tells of the lost connection
        viewer.go("run", "r0005")
        assert "UnidentifiedImageError" in viewer.main_text()
        check_comparison(viewer, lab)
    finally:
        live.stop()
