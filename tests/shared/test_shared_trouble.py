"""A shared store that is missing, slow, read-only or busy: one note, no long wait, never a wrong skip."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from s3_server import READER, S3Server, s3_server
from shared_lab import Team, plan_told, shared_steps, use_server

from project_lab import PATIENCE, wait_until
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.artifacts.shared.result import SharedOutput, SharedResult
from whyrun.artifacts.shared.storage import FolderStorage, Link, ReadOnlyStorage, Storage
from whyrun.artifacts.shared.store import SharedStore
from whyrun.artifacts.store import Store
from whyrun.execution.sharing import sharing as sharing_module
from whyrun.execution.sharing.sharing import Patience, Sharing, SharingCounts
from whyrun.planning.plan import PlanOptions

BOTH = ["Job:Make", "Job:Use"]


def test_without_its_server_a_run_goes_on_and_says_so(s3_team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as gone:
        use_server(monkeypatch, gone)
    lab = s3_team.clone()
    plan, notes = plan_told(lab)
    assert plan.totals["planned"] == 2
    (note,) = notes
    assert note.startswith("the shared store s3://team/demo cannot be used (")
    assert note.endswith("); continuing without it")
    ran = lab.succeed()
    assert (ran.executed, len(ran.heard.notes)) == (BOTH, 1)


def test_a_folder_that_is_not_mounted_is_reported(folder_team: Team, tmp_path: Path) -> None:
    away = tmp_path / "mnt" / "team"
    lab = folder_team.clone(files={"whyrun.toml": f"store = '{away}'\n"})
    ran = lab.succeed()
    assert ran.executed == BOTH
    what = f"the shared store {away} cannot be used (there is no folder {tmp_path}/mnt); continuing without it"
    assert ran.heard.notes == [what]
    assert not away.parent.exists()


def test_a_file_instead_of_the_folder_is_reported_while_planning(folder_team: Team, tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("mine\n")
    lab = folder_team.clone(files={"whyrun.toml": f"store = '{tmp_path}/afile'\n"})
    what = f"the shared store {tmp_path}/afile cannot be used ({tmp_path}/afile is not a folder); continuing without it"
    assert plan_told(lab)[1] == [what]
    ran = lab.succeed()
    assert (ran.executed, ran.heard.notes) == (BOTH, [what])
    assert ran.result.shared == SharingCounts(gave=0, took=0, not_given=2)
    assert (tmp_path / "afile").read_text() == "mine\n"


def test_a_folder_that_becomes_unusable_during_the_run_is_reported_in_plain_words(tmp_path: Path) -> None:
    """No name of a temporary file, no number of an error; and all that was not given is counted."""
    lab_store, kept = Store(tmp_path / "store"), tmp_path / "kept"
    notes: list[str] = []
    sharing = Sharing("kept", tmp_path, lab_store, notes.append)
    kept.write_text("mine\n")
    output = SharedOutput("Out", lab_store.put_bytes(b"made"), 4, "file")
    for number in range(3):
        sharing.offer(SharedResult(1, f"{number}" * 64, "shell", "b" * 64, (output,)))
    sharing.close()
    assert notes == [
        f"results are not uploaded to the shared store kept (it cannot be written: {kept} is not a folder)"
    ]
    assert sharing.counts == SharingCounts(gave=0, took=0, not_given=3)


def test_creating_a_store_is_reported_and_so_is_finding_it_empty(folder_team: Team, tmp_path: Path) -> None:
    """A disk that is not mounted looks just like that."""
    (tmp_path / "mounted").mkdir()
    for name, told in {
        "new": "created the shared store",
        "mounted": "these are the first results in the shared store",
    }.items():
        settings = {"whyrun.toml": f"store = '{tmp_path}/{name}'\n"}
        first, second = folder_team.clone(files=settings), folder_team.clone(files=settings)
        assert plan_told(first)[1] == []
        assert first.succeed().heard.notes == [f"{told} {tmp_path}/{name}"]
        assert second.succeed(sets=["Topic=theatre"]).heard.notes == []


def test_the_home_folder_can_be_named(folder_team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for address in ("~/kept", "file://~/kept"):
        lab = folder_team.clone(files={"whyrun.toml": f"store = '{address}'\n"})
        lab.succeed()
        assert not (lab.root / "~").exists()
    assert len(folder_team.kept.keys("results")) == 2
    lab = folder_team.clone(files={"whyrun.toml": "store = '~nobody-of-this-name/kept'\n"})
    (note,) = lab.succeed().heard.notes
    assert note.startswith("the shared store ~nobody-of-this-name/kept cannot be used (")


@pytest.mark.parametrize(
    ("address", "why"),
    [("nosuch://bucket/x", "ValueError: Protocol not known: nosuch"), ("s3://missing/x", "NoSuchBucket")],
)
def test_an_invalid_address_is_reported(s3_team: Team, address: str, why: str) -> None:
    ran = s3_team.clone(files={"whyrun.toml": f"store = '{address}'\n"}).succeed()
    assert ran.executed == BOTH
    (note,) = ran.heard.notes
    assert why in note


class Slow:
    """Requests that match wait until they are let go."""

    def __init__(self, server: S3Server, method: str, part: str) -> None:
        self.let_go = threading.Event()
        self.method, self.part = method, part
        server.before = self.before

    def before(self, method: str, name: str) -> None:
        if method == self.method and self.part in name:
            self.let_go.wait(PATIENCE)


def test_the_run_goes_on_without_a_server_that_does_not_answer(s3_team: Team, server: S3Server) -> None:
    s3_team.clone().succeed()
    slow = Slow(server, "GET", "/results/")
    lab = s3_team.clone()
    opened = lab.opened()
    notes: list[str] = []
    sharing = Sharing("s3://team/demo", lab.root, opened.store, notes.append, Patience(0.2, 0.2))
    plan, _ = sharing.plan_to_run(opened.snapshot(), PlanOptions())
    sharing.close()
    slow.let_go.set()
    assert [job.reuse for job in plan.planned] == [None, None]
    assert notes == ["the shared store s3://team/demo cannot be used (no answer for 0.2 s); continuing without it"]


@pytest.mark.parametrize("many", [True, False])
def test_many_slow_lookups_are_reported(
    s3_team: Team, server: S3Server, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    monkeypatch.setattr(sharing_module, "QUIETLY", 0.05)
    slow = Slow(server, "GET", "/results/")
    lab = s3_team.clone()
    notes: list[str] = []

    def tell(note: str) -> None:
        notes.append(note)
        slow.let_go.set()

    sharing = Sharing("s3://team/demo", lab.root, lab.opened().store, tell, Patience(PATIENCE, PATIENCE))
    asked = {f"{number:064x}": f"Job:Make[{number}]" for number in range(sharing_module.MANY_LOOKUPS - (not many))}
    if not many:
        threading.Timer(0.2, slow.let_go.set).start()
    assert sharing.ask(asked) == {}
    sharing.close()
    assert notes == (["asking the shared store s3://team/demo for 100 results …"] if many else [])


def test_the_run_goes_on_without_a_server_that_stops_in_the_middle_of_a_transfer(
    s3_team: Team, server: S3Server
) -> None:
    s3_team.clone().succeed()
    slow = Slow(server, "GET", "/blobs/")
    lab = s3_team.clone()
    opened = lab.opened()
    notes: list[str] = []
    sharing = Sharing("s3://team/demo", lab.root, opened.store, notes.append, Patience(PATIENCE, 0.2))
    plan, _ = sharing.plan_to_run(opened.snapshot(), PlanOptions())
    sharing.close()
    slow.let_go.set()
    assert [job.reuse for job in plan.planned] == [None, None], "a plan that runs never counts on what is not here"
    assert notes == ["the shared store s3://team/demo cannot be used (no answer for 0.2 s); continuing without it"]


def test_a_server_that_accepts_no_uploads_does_not_end_the_run(s3_team: Team, server: S3Server) -> None:
    slow = Slow(server, "PUT", "/blobs/")
    lab = s3_team.clone()
    opened = lab.opened()
    notes: list[str] = []
    sharing = Sharing("s3://team/demo", lab.root, opened.store, notes.append, Patience(PATIENCE, 0.2))
    sha256 = opened.store.put_bytes(b"made")
    output = SharedOutput("Out", sha256, 4, "file")
    sharing.offer(SharedResult(1, "a" * 64, "shell", "b" * 64, (output,)))
    sharing.close()
    assert notes[-1] == "results are not uploaded to the shared store s3://team/demo (no answer for 0.2 s)"
    assert sharing.counts == SharingCounts(gave=0, took=0, not_given=1)
    assert s3_team.kept.keys("results") == []  # before it is let go: then what was under way may still arrive
    slow.let_go.set()


def test_one_stuck_upload_does_not_hide_the_others(folder_team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of six takes for ever: what the other five came to is told and counted all the same."""
    lab = folder_team.clone()
    opened, notes, let_go = lab.opened(), list[str](), threading.Event()
    offer = SharedStore.offer

    def held(store: SharedStore, result: SharedResult, alive: Callable[[], None]) -> SharedResult | None:
        if result.fingerprint == f"{0:064x}":
            let_go.wait(PATIENCE)
        return offer(store, result, alive)

    monkeypatch.setattr(SharedStore, "offer", held)
    results = [
        SharedResult(1, f"{number:064x}", "shell", "b" * 64, (SharedOutput("Out", bytes_sha256(made), 4, "file"),))
        for number in range(6)
        for made in [opened.store.read(opened.store.put_bytes(b"%04d" % number))]
    ]
    sharing = Sharing(folder_team.kept.address, lab.root, opened.store, notes.append, Patience(PATIENCE, 1.0))
    for result in results:
        sharing.offer(result)
    wait_until(lambda: len(folder_team.kept.keys("results")) == 5)  # a busy disk is no silence of the store
    sharing.close()
    assert sharing.counts == SharingCounts(gave=5, took=0, not_given=1)
    told = f"results are not uploaded to the shared store {folder_team.kept.address} (no answer for 1 s)"
    assert notes[-1] == told
    let_go.set()


def test_with_read_only_access_results_are_reused_and_the_user_gets_one_note(
    s3_team: Team, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_team.clone().succeed()
    use_server(monkeypatch, server, key=READER)
    assert shared_steps(s3_team.clone().succeed()) == BOTH
    before = dict(server.objects)
    ran = s3_team.clone().succeed(sets=["Topic=theatre"])
    assert ran.executed == BOTH
    (note,) = ran.heard.notes
    what = (
        "results are not uploaded to the shared store s3://team/demo (it may be read, but not written: PermissionError"
    )
    assert note.startswith(what)
    assert ran.result.shared == SharingCounts(gave=0, took=0, not_given=2)
    assert server.objects == before


def test_without_read_access_the_run_goes_on(s3_team: Team, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_team.clone().succeed()
    use_server(monkeypatch, server, key="somebody-else")
    ran = s3_team.clone().succeed()
    assert (ran.executed, len(ran.heard.notes)) == (BOTH, 1)


def test_a_step_that_is_not_deterministic_after_all_is_reported(folder_team: Team) -> None:
    flow = """
    workflow: demo
    jobs:
      Dice:
        uses: shell
        deterministic: true
        with: {run: 'echo $RANDOM $RANDOM $RANDOM $RANDOM > "$out_Number"'}
        outputs: {Number: {type: text}}
    """
    folder_team.clone(flow).succeed()
    key, standing = folder_team.kept.result_of("Job:Dice")
    ran = folder_team.clone(flow).succeed(force=["Job:Dice"])
    assert ran.heard.notes == [
        f"Job:Dice gave different bytes (Number) than the shared store has from {standing['origin']['by']}; "
        "is it really deterministic? The shared one stays"
    ]
    assert folder_team.kept.results()[key] == standing


def no_links(number: int) -> Link:
    """As a file system without hard links answers."""

    def refuse(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), source, None, target)

    return refuse


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV])
def test_a_folder_without_hard_links_accepts_results_and_the_first_one_stays(tmp_path: Path, number: int) -> None:
    storage = FolderStorage(tmp_path / "kept", no_links(number))
    assert storage.put_bytes("v1/results/a", b"first", replace=False)
    assert not storage.put_bytes("v1/results/a", b"second", replace=False)
    assert storage.read("v1/results/a", 0, 99) == b"first"
    assert storage.put_bytes("v1/results/a", b"third", replace=True)
    assert storage.read("v1/results/a", 0, 99) == b"third"
    assert list((tmp_path / "kept" / "tmp").iterdir()) == []


def test_a_read_only_folder_is_not_taken_for_one_without_hard_links(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "kept", no_links(errno.EACCES))
    with pytest.raises(ReadOnlyStorage, match=r"^PermissionError: Permission denied$"):
        storage.put_bytes("v1/results/a", b"first", replace=False)
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", ["folder", "folder without links", "s3"])
def test_many_writers_at_once_leave_one_whole_result(kind: str, tmp_path: Path, server: S3Server) -> None:
    """Each has bytes of its own for the same fingerprint; who is first stays, and the others are told."""
    writers = 6
    gate = threading.Barrier(writers)
    told: list[SharedResult | None] = []
    made: list[SharedResult] = []

    def storage() -> Storage:
        if kind != "s3":
            return FolderStorage(tmp_path / "kept", os.link if kind == "folder" else no_links(errno.EPERM))
        from whyrun.artifacts.shared.storage import UrlStorage

        return UrlStorage("s3://team/demo")

    def write(number: int) -> None:
        store = Store(tmp_path / f"store{number}")
        data = f"made by {number}".encode()
        same = store.put_bytes(b"the same for all")
        outputs = (
            SharedOutput("Own", store.put_bytes(data), len(data), "file", stored=len(data)),
            SharedOutput("Same", same, 16, "file", stored=16),
        )
        result = SharedResult(1, "a" * 64, "shell", "b" * 64, outputs)
        made.append(result)
        shared = SharedStore(storage(), store)
        gate.wait(PATIENCE)
        told.append(shared.offer(result, lambda: None))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(told) == writers
    reader = Store(tmp_path / "reader")
    shared = SharedStore(storage(), reader)
    standing = shared.find("a" * 64)
    assert standing in made
    shared.fetch(standing, lambda: None)
    assert reader.read(bytes_sha256(b"the same for all")) == b"the same for all"
    if kind != "s3":
        assert list((tmp_path / "kept" / "tmp").iterdir()) == []
