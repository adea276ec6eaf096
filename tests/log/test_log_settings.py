"""`whyrun.toml`, and where state and shared results stand: each setting as it is read, and what is refused by name."""

from __future__ import annotations

import locale
from pathlib import Path
from typing import Any

import pytest

from whyrun.errors import InvalidError
from whyrun.log.runs import project_dir_for, state_dir_for
from whyrun.project_config import ProjectConfig, read_project_config, shared_store_for

LIMITS = "[resources]\n         gpu = 1"
COMMAND = 'on_finish = "notify-send whyrun", or a list of words: ["./notify.py", "--quiet"]'
STORE = 'store = "s3://bucket/prefix", or a folder: store = "/mnt/team/whyrun"'


def diagnostic_of(refused: pytest.ExceptionInfo[InvalidError]) -> tuple[str, str, str | None, str | None]:
    (diagnostic,) = refused.value.diagnostics
    return diagnostic.code, diagnostic.message, diagnostic.file, diagnostic.hint


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("", ProjectConfig({})),
        ("[resources]\nnone = 0\nhalf = 0.5\nmany = 7\n", ProjectConfig({"none": 0.0, "half": 0.5, "many": 7.0})),
        ('on_finish = "notify me"', ProjectConfig({}, "notify me")),
        ('on_finish = ["./notify.py", ""]', ProjectConfig({}, ("./notify.py", ""))),
        ('prepare = "pip install x"', ProjectConfig({}, None, "pip install x")),
        ('import_late = ["torch"]', ProjectConfig({}, import_late=("torch",))),
        ('store = "s3://bucket/prefix"', ProjectConfig({}, None, None, "s3://bucket/prefix")),
        ('store = "/mnt/a@b?c"', ProjectConfig({}, None, None, "/mnt/a@b?c")),  # a folder may be called so
    ],
)
def test_each_setting_is_read_as_it_is_written(tmp_path: Path, text: str, config: ProjectConfig) -> None:
    (tmp_path / "whyrun.toml").write_text(text)
    read = read_project_config(tmp_path)
    assert read == config
    assert all(type(limit) is float for limit in (read.resources or {}).values())


PACKAGES = "`import_late` is a list of packages, by the names under which they are imported"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("resources = 3", "`resources` is a table of limits", LIMITS),
        ("[resources]\ngpu = true", "the limit of `gpu` is a number from 0 up", LIMITS),
        ("[resources]\ngpu = '1'", "the limit of `gpu` is a number from 0 up", LIMITS),
        ("[resources]\ngpu = -0.5", "the limit of `gpu` is a number from 0 up", LIMITS),
        ("[resources]\ngpu = inf", "the limit of `gpu` is a number from 0 up", LIMITS),
        (f"[resources]\ngpu = 1{'0' * 400}", "the limit of `gpu` is a number from 0 up", LIMITS),
        ("[resources]\ngpu = nan", "the limit of `gpu` is a number from 0 up", LIMITS),
        ("[resources]\na = 1\ngpu = []", "the limit of `gpu` is a number from 0 up", LIMITS),
        ("on_finish = 3", "`on_finish` is a command: a string or a list of strings", COMMAND),
        ("on_finish = ' '", "`on_finish` is a command: a string or a list of strings", COMMAND),
        ("on_finish = []", "`on_finish` is a command: a string or a list of strings", COMMAND),
        ("on_finish = ['a', 3]", "`on_finish` is a command: a string or a list of strings", COMMAND),
        (
            "prepare = ['a']",
            "`prepare` is a command for bash: a string",
            'prepare = "python -m nltk.downloader punkt"',
        ),
        ("prepare = ''", "`prepare` is a command for bash: a string", 'prepare = "python -m nltk.downloader punkt"'),
        ("import_late = 'torch'", PACKAGES, 'import_late = ["torch"]'),
        ("import_late = ['a.b']", PACKAGES, 'import_late = ["torch"]'),
        ("store = 3", "`store` is a URL or a folder: a string", STORE),
        ("store = ' '", "`store` is a URL or a folder: a string", STORE),
        ('store = "a\\u0000b"', "`store` is a URL or a folder: a string", STORE),
    ],
)
def test_a_setting_of_another_kind_is_refused(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = tmp_path / "whyrun.toml"
    path.write_text(text)
    with pytest.raises(InvalidError) as refused:
        read_project_config(tmp_path)
    assert diagnostic_of(refused) == ("WRONG_TYPE", message, str(path), hint)


def test_settings_are_utf8_whatever_the_locale(tmp_path: Path) -> None:
    (tmp_path / "whyrun.toml").write_bytes('prepare = "größer"'.encode())
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        assert read_project_config(tmp_path).prepare == "größer"
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.parametrize("bad", [b"x =", b"x = '\xff'"])
def test_what_is_no_toml_is_said_with_its_file(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "whyrun.toml"
    path.write_bytes(bad)
    with pytest.raises(InvalidError) as refused:
        read_project_config(tmp_path)
    code, message, file, hint = diagnostic_of(refused)
    assert (code, message[:16], file, hint) == ("WRONG_TYPE", "not valid TOML: ", str(path), "see https://toml.io")


def test_an_unknown_setting_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    path = tmp_path / "whyrun.toml"
    path.write_text('store = "a"\non_finsh = "b"\n')
    with pytest.raises(InvalidError) as refused:
        read_project_config(tmp_path)
    assert diagnostic_of(refused) == (
        "UNKNOWN_KEY",
        "there is no setting `on_finsh`",
        str(path),
        "did you mean `on_finish`?",
    )


def test_everything_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "whyrun.toml"
    limits = "[resources]\ngpu = 'a'\nfine = 1\napi = -1\n"
    path.write_text(f"stor = 'x'\nprepare = 5\n'on_finish' = ''\n\n{limits}[other]\n")
    with pytest.raises(InvalidError) as refused:
        read_project_config(tmp_path)
    assert [(d.code, d.file, d.line, d.message) for d in refused.value.diagnostics] == [
        ("UNKNOWN_KEY", str(path), 1, "there is no setting `stor`"),
        ("WRONG_TYPE", str(path), 2, "`prepare` is a command for bash: a string"),
        ("WRONG_TYPE", str(path), 3, "`on_finish` is a command: a string or a list of strings"),
        ("WRONG_TYPE", str(path), 6, "the limit of `gpu` is a number from 0 up"),
        ("WRONG_TYPE", str(path), 8, "the limit of `api` is a number from 0 up"),
        ("UNKNOWN_KEY", str(path), 9, "there is no setting `other`"),
    ]


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "https://host/x?token=1"])
def test_a_secret_in_the_address_of_the_shared_store_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    path = tmp_path / "whyrun.toml"
    path.write_text(f'store = "{url}"')
    for read, file in (
        (lambda: read_project_config(tmp_path), str(path)),
        (lambda: shared_store_for(ProjectConfig(), {"WHYRUN_STORE": url}), "WHYRUN_STORE"),
    ):
        with pytest.raises(InvalidError) as refused:
            read()
        assert diagnostic_of(refused) == (
            "WRONG_TYPE",
            "the URL of the shared store contains a user, password or key, which must not be written here",
            file,
            "leave it to the environment or the cloud's own configuration: AWS_PROFILE, AWS_ACCESS_KEY_ID, …",
        )


@pytest.mark.parametrize(
    ("env", "found"),
    [({}, "/of/settings"), ({"WHYRUN_STORE": ""}, None), ({"WHYRUN_STORE": "/of/env"}, "/of/env")],
)
def test_the_variable_goes_before_the_setting_and_turns_it_off_when_empty(env: dict[str, str], found: Any) -> None:
    assert shared_store_for(ProjectConfig(store="/of/settings"), env) == found
    assert shared_store_for(ProjectConfig(), {}) is None


def test_a_blank_variable_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as refused:
        shared_store_for(ProjectConfig(), {"WHYRUN_STORE": " "})
    assert diagnostic_of(refused) == ("WRONG_TYPE", "`store` is a URL or a folder: a string", "WHYRUN_STORE", STORE)


def test_paths_of_the_state_are_whole_however_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_dir_for("wf/workflow.yaml", None, {}) == tmp_path / "wf" / ".whyrun"
    assert state_dir_for("wf/workflow.yaml", "s", {}) == tmp_path / "s"
    assert state_dir_for("wf/workflow.yaml", "", {"WHYRUN_STATE": "e"}) == tmp_path / "e"
    assert state_dir_for("wf/workflow.yaml", None, {"WHYRUN_STATE": ""}) == tmp_path / "wf" / ".whyrun"
    (tmp_path / "whyrun.toml").mkdir()  # a folder is no settings
    assert project_dir_for("wf/workflow.yaml") == tmp_path / "wf"
