"""`whyrun init --example`: each example is valid, runs at once in an empty folder, and then has nothing to do."""

from __future__ import annotations

import wave
from pathlib import Path

import pytest
from cli_lab import tree, whyrun

from project_lab import Lab
from whyrun.cli.starters import EXAMPLES

SCORES = """\
network,seed,f1
chain,0,1.0
chain,1,0.857
chain,2,1.0
chain,3,0.857
fork,0,1.0
fork,1,1.0
fork,2,1.0
fork,3,0.857
"""


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Lab:
    answer = whyrun(tmp_path, "init", "--example", request.param, "--json")
    assert answer.code == 0
    assert answer.json["files"] == [*answer.json["files"][:-1], "README.md"]
    assert sorted(tree(tmp_path)) == sorted(answer.json["files"])
    lab = Lab(tmp_path)
    lab.succeed()
    assert lab.plan().headlines() == {}
    return lab


@pytest.mark.parametrize("made", ["wildcard"], indirect=True)
def test_wildcard(made: Lab) -> None:
    table = "sample,group,reads,gc\nalpha,treated,2,0.565\nbeta,control,2,0.538\ngamma,control,0,0.0\n"
    assert made.read("out/report.csv") == table
    assert made.read("out/empty/gamma.txt") == "gamma has no reads left\n"
    made.write({"reads/delta.fastq": made.read("reads/alpha.fastq")})
    made.write({"samples.csv": made.read("samples.csv") + "delta,treated\n"})
    assert made.plan().headlines() == {
        "Job:Trim[delta]": "MISSING_OUTPUT",
        "Job:Count[delta]": "MISSING_OUTPUT",
        "Job:Empty[delta]": "MISSING_OUTPUT",
        "Job:Report": "UPSTREAM_DIRTY",
    }


@pytest.mark.parametrize("made", ["media"], indirect=True)
def test_media(made: Lab) -> None:
    page = made.read("out/film.html")
    assert (page.count("image/png"), page.count("audio/wav"), page.count("<h2>the sea ")) == (4, 3, 3)
    with wave.open(str(made.root / "Shot/1/voice.wav")) as sound:
        assert sound.getnframes() == 3 * 1000  # "the sea moves"
    assert made.plan(sets=["Style=dawn"]).headlines() == {
        **{f"Job:Shot[{n}]/Picture": "INPUT_CHANGED" for n in range(3)},
        "Job:Transition[1]": "UPSTREAM_DIRTY",
        "Job:Film": "UPSTREAM_DIRTY",
    }
    silent = {job.id: job.state for job in made.plan(sets=["WithVoice=false"]).jobs}
    assert [silent[f"Job:Shot[{n}]/Voice"] for n in range(3)] == ["inactive"] * 3
    alone = whyrun(made.root, "plan", "shot.yaml", "--json")
    assert sorted(job["id"] for job in alone.json["jobs"]) == ["Job:Picture", "Job:Voice"]


@pytest.mark.parametrize("made", ["study"], indirect=True)
def test_study(made: Lab) -> None:
    assert made.read("out/scores.csv") == SCORES
    assert made.read("out/votes/fork.csv") == "from,to\na,b\na,c\na,d\n"
    more = made.plan(sets=["Seeds=5"]).headlines()
    assert sorted(more) == sorted([
        *(f"Job:{job}[{net}][4]" for job in ("Sample", "Learn", "Score") for net in ("chain", "fork")),
        "Job:Vote[chain]", "Job:Vote[fork]", "Job:Table",
    ])  # fmt: skip
    assert sorted(made.plan(sets=["Seeds=6"]).headlines().keys() - more.keys()) == sorted(
        f"Job:{job}[{net}][5]" for job in ("Sample", "Learn", "Score") for net in ("chain", "fork")
    )


def test_the_help_names_them_and_what_they_show(tmp_path: Path) -> None:
    shown = " ".join(whyrun(tmp_path, "init", "--help").out.split())
    assert [name for name, text in EXAMPLES.items() if f"{name} {text}" not in shown] == []
    answer = whyrun(tmp_path, "init", "--from", "--example", "media", "true")
    assert (answer.code, answer.err.splitlines()) == (2, [
        "error[USAGE]: `--from` and `--example` do not go together",
        "   hint: `--from` writes the workflow of your commands; `--example` creates one of ours",
    ])  # fmt: skip
    assert list(tmp_path.iterdir()) == []
