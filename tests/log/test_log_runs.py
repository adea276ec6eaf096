from __future__ import annotations

import pytest

from whyrun.errors import InvalidError, StateError
from whyrun.log.events import RunComplete
from whyrun.log.journal import FIRST_CHAIN, check_chain, read_events
from whyrun.log.runs import WorkflowState, create_run, project_dir_for, state_dir_for
from whyrun.project_config import ProjectConfig, read_project_config


def test_state_stands_beside_the_nearest_whyrun_toml_else_beside_the_workflow(tmp_path):
    workflow = tmp_path / "a" / "b" / "workflow.yaml"
    workflow.parent.mkdir(parents=True)
    assert project_dir_for(workflow) == tmp_path / "a" / "b"
    assert state_dir_for(workflow, None, {}) == tmp_path / "a" / "b" / ".whyrun"
    (tmp_path / "whyrun.toml").touch()
    assert project_dir_for(workflow) == tmp_path
    (tmp_path / "a" / "whyrun.toml").touch()
    assert state_dir_for(workflow, None, {}) == tmp_path / "a" / ".whyrun"
    assert state_dir_for(workflow, None, {"WHYRUN_STATE": str(tmp_path / "v")}) == tmp_path / "v"
    assert state_dir_for(workflow, str(tmp_path / "w"), {"WHYRUN_STATE": str(tmp_path / "v")}) == tmp_path / "w"


def test_folders_whose_names_are_no_text_are_refused_before_anything_is_written() -> None:
    odd, workflow = "/no/\udcff", "/no/w.yaml"
    rename = "rename the folder or the file: names must read the same everywhere"
    another = "name another folder, or rename it: names must read the same everywhere"
    state = f"{odd!r}, is not UTF-8"
    told = []
    for ask in (
        lambda: project_dir_for(f"{odd}/w.yaml"),
        lambda: state_dir_for(workflow, odd, {}),
        lambda: state_dir_for(workflow, None, {"WHYRUN_STATE": odd}),
    ):
        with pytest.raises(InvalidError) as refused:
            ask()
        told += [(problem.code, problem.message, problem.hint) for problem in refused.value.diagnostics]
    assert told == [
        ("NAME_INVALID", f"the path of the workflow file, {f'{odd}/w.yaml'!r}, is not UTF-8", rename),
        ("NAME_INVALID", f"the state folder, {state}", another),
        ("NAME_INVALID", f"the state folder (`WHYRUN_STATE`), {state}", another),
    ]


def test_settings_are_read_and_unknown_ones_refused(tmp_path):
    assert read_project_config(tmp_path) == ProjectConfig()
    toml = tmp_path / "whyrun.toml"
    toml.write_text("[resources]\ngpu = 1\napi = 2.5\n")
    assert read_project_config(tmp_path) == ProjectConfig({"gpu": 1.0, "api": 2.5})
    toml.write_text("resurces = 1\n")
    with pytest.raises(InvalidError, match=r"UNKNOWN_KEY(.|\n)*did you mean `resources`"):
        read_project_config(tmp_path)
    long = f"[resources]\ngpu = 1{'0' * 5000}"
    for wrong in ("resources = 3", "[resources]\ngpu = true", "[resources]\ngpu = -1", "x =", long):
        toml.write_text(wrong)
        with pytest.raises(InvalidError, match="WRONG_TYPE"):
            read_project_config(tmp_path)


@pytest.mark.parametrize("name", ["store", "tmp", "stat-cache", "", "..", "a/b"])
def test_a_workflow_cannot_have_a_name_that_stands_in_the_state_folder(tmp_path, name):
    with pytest.raises(InvalidError, match="NAME_INVALID"):
        WorkflowState(tmp_path, name)


def test_a_number_that_no_run_has_is_missed_up_to_the_last_run_that_is_asked_for(state):
    assert state.checked_runs_and_tombstones() == ([], [])
    for name in ("r0001", "r0002", "r0004"):
        (state.runs_dir / name).mkdir(parents=True)
    assert [run.name for run in state.checked_runs_and_tombstones(through=2)[0]] == ["r0001", "r0002", "r0004"]
    for through in (None, 3, 4):
        with pytest.raises(StateError) as refused:
            state.checked_runs_and_tombstones(through)
        (told,) = refused.value.diagnostics
        assert (told.code, told.message, told.file) == (
            "LOG_DAMAGED",
            f"`r0003` of `{state.workflow}` is missing, and was not pruned",
            str(state.runs_dir / "r0003"),
        )
    (state.runs_dir / "r0003").mkdir()
    assert len(state.checked_runs_and_tombstones()[0]) == 4


def test_runs_are_sorted_by_number_and_other_files_left_alone(state):
    assert state.runs() == []
    assert state.next_run_name() == "r0001"
    for name in ("r10000", "r9999", "r0002", "notes.txt", "readme"):
        (state.runs_dir / name).mkdir(parents=True)
    assert [run.name for run in state.runs()] == ["r0002", "r9999", "r10000"]
    assert state.next_run_name() == "r10001"
    assert state.run("r9999").number == 9999
    with pytest.raises(StateError, match=r"RUN_UNKNOWN(.|\n)*the latest is `r10000`"):
        state.run("r0001")


@pytest.mark.parametrize("name", ["r1", "r0000", "r00001"])
def test_a_name_that_only_looks_like_a_run_is_an_error(state, name):
    (state.runs_dir / name).mkdir(parents=True)
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        state.runs()


def test_a_run_begins_with_its_folder_whole(state, clock, run_start):
    run, journal = create_run(state, run_start, clock, {"manifest.yaml": b"{}\n", "source/a/b.yaml": b"x"})
    assert run == state.runs()[0]
    assert sorted(str(p.relative_to(run.path)) for p in run.path.rglob("*") if p.is_file()) == [
        "events.jsonl",
        "manifest.yaml",
        "source/a/b.yaml",
    ]
    (first,) = read_events(run.events_path)
    assert (first.session, first.previous_chain) == ("r0001", FIRST_CHAIN)
    journal.append(RunComplete(state="succeeded", counts={}, duration=0.0))
    journal.close()
    assert list(state.tmp.iterdir()) == []

    second, journal_2 = create_run(state, run_start, clock)
    journal_2.close()
    assert second.name == "r0002"
    assert next(iter(second.events())).previous_chain == journal.chain
    assert check_chain(r.events_path for r in state.runs()) == journal_2.chain


def test_what_a_kill_left_of_a_beginning_run_is_replaced(state, clock, run_start):
    draft = state.tmp / "then-and-now-r0001"
    draft.mkdir(parents=True)
    (draft / "events.jsonl").write_bytes(b'{"seq":1,"t')
    assert state.runs() == []
    run, journal = create_run(state, run_start, clock)
    journal.close()
    assert len(list(run.events())) == 1


def test_a_run_without_run_start_stops_the_next_one(state, clock, run_start):
    (state.runs_dir / "r0001").mkdir(parents=True)
    with pytest.raises(StateError, match="LOG_INCOMPLETE"):
        create_run(state, run_start, clock)
    (state.runs_dir / "r0001" / "events.jsonl").write_bytes(b'{"seq":1')
    with pytest.raises(StateError, match="LOG_INCOMPLETE"):
        create_run(state, run_start, clock)
