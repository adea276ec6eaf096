"""A change plans exactly the affected jobs, with exactly the right reasons. A cosmetic edit plans nothing."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from project_lab import ECHO, Lab, codes, reasons

Make = Callable[..., Lab]


def sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


MORPH = """
    workflow: morph
    inputs:
      Photos: {type: "file[]", default: "p/*.txt"}
      Note:   {type: string, default: hello}
    loops: {i: {each: inputs.Photos}}
    jobs:
      Tone:
        for: [i]
        uses: shell
        with: {photo: "${{ inputs.Photos[i] }}", run: 'cat "$photo" > "$out_Image"; echo " toned" >> "$out_Image"'}
        outputs: {Image: {type: text}}
      Morph:
        uses: shell
        with:
          start: ${{ jobs.Tone.outputs.Image[0] }}
          end: ${{ jobs.Tone.outputs.Image[1] }}
          note: ${{ inputs.Note }}
          run: cat "$start" "$end" > "$out_Film"; echo "${note-}" >> "$out_Film"
        outputs: {Film: {type: text, path: out/film.txt}}
      All:
        uses: shell
        with: {images: "${{ jobs.Tone.outputs.Image[:] }}", run: 'cat "${images[@]}" > "$out_Sheet"'}
        outputs: {Sheet: {type: text, path: out/sheet.txt}}
"""

PHOTOS = {"p/a.txt": "a", "p/b.txt": "b", "p/c.txt": "c"}


def toned(text: str) -> str:
    return sha(f"{text} toned\n")


def test_swapped_wiring(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.edit("workflow.yaml", "start: ${{ jobs.Tone.outputs.Image[0] }}", "start: ${{ jobs.Tone.outputs.Image[1] }}")
    lab.edit("workflow.yaml", "end: ${{ jobs.Tone.outputs.Image[1] }}", "end: ${{ jobs.Tone.outputs.Image[0] }}")
    zero, one = "Artifact:Tone.Image[0]", "Artifact:Tone.Image[1]"
    assert reasons(lab.plan()) == {
        "Job:Morph": [
            {"code": "INPUT_CHANGED", "binding": "end", "source": zero, "old_source": one,
             "old": toned("b"), "new": toned("a")},
            {"code": "INPUT_CHANGED", "binding": "start", "source": one, "old_source": zero,
             "old": toned("a"), "new": toned("b")},
        ]
    }  # fmt: skip
    assert lab.succeed().executed == ["Job:Morph"]
    assert lab.read("out/film.txt") == "b toned\na toned\nhello\n"


def test_removed_and_added_parameter(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.edit("workflow.yaml", "      note: ${{ inputs.Note }}\n", "")
    (change,) = reasons(lab.plan()).pop("Job:Morph")
    assert {key: value for key, value in change.items() if key != "old"} == {
        "code": "INPUT_CHANGED", "binding": "note", "old_source": "Input:Note", "old_value": "hello",
    }  # fmt: skip
    assert codes(lab.plan()) == {"Job:Morph": ["INPUT_CHANGED"]}
    assert lab.succeed().executed == ["Job:Morph"]
    lab.edit("workflow.yaml", '      run: cat "$start"', '      extra: 1\n      run: cat "$start"')
    (change,) = reasons(lab.plan())["Job:Morph"]
    assert (change["binding"], change["source"], change["new_value"]) == ("extra", "Input:Morph.with.extra", 1)
    assert "old" not in change


def test_removed_optional_input(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Mask: {type: file, required: false}}
        jobs:
          Paint:
            uses: python
            with: {call: "echo:received", mask: "${{ inputs.Mask }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "mask.txt": "M"},
    )
    lab.succeed(sets=["Mask=mask.txt"])
    assert lab.content("Artifact:Paint.Got") == {"mask": "file:M"}
    (change,) = reasons(lab.plan())["Job:Paint"]
    assert (change["code"], change["binding"], change["source"], change["old"]) == (
        "INPUT_CHANGED", "mask", "Input:Mask", sha("M"),
    )  # fmt: skip
    lab.succeed()
    assert lab.content("Artifact:Paint.Got") == {"mask": None}
    assert lab.plan().headlines() == {}


def test_a_fan_in_member_changed_by_an_up_run(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.write({"p/c.txt": "C"})
    assert lab.succeed(up=1).executed == ["Job:Tone[2]"]
    assert reasons(lab.plan()) == {
        "Job:All": [
            {"code": "INPUT_CHANGED", "binding": "images", "source": "Artifact:Tone.Image[2]",
             "old": toned("c"), "new": toned("C")}
        ]
    }  # fmt: skip
    assert lab.succeed().executed == ["Job:All"]
    assert lab.read("out/sheet.txt") == "a toned\nb toned\nC toned\n"


def test_a_fan_in_member_added_and_removed(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.write({"p/d.txt": "d"})
    assert codes(lab.plan()) == {"Job:Tone[3]": ["MISSING_OUTPUT"], "Job:All": ["UPSTREAM_DIRTY"]}
    lab.succeed()
    lab.write({"p/d.txt": None})
    assert reasons(lab.plan()) == {
        "Job:All": [
            {"code": "INPUT_CHANGED", "binding": "images", "old_source": "Artifact:Tone.Image[3]", "old": toned("d")}
        ]
    }
    # the three-member sheet is known from the first run
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == ([], {"Job:All": "r0001"})
    assert lab.read("out/sheet.txt") == "a toned\nb toned\nc toned\n"


def test_a_deleted_published_file_is_put_back_without_executing(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.write({"out/film.txt": None})
    plan = lab.plan()
    assert reasons(plan) == {
        "Job:Morph": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Morph.Film", "change": "deleted", "path": "out/film.txt"}
        ]
    }
    assert (plan.totals["planned"], plan.totals["reused"]) == (0, 1)
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == ([], {"Job:Morph": "r0001"})
    assert lab.read("out/film.txt") == "a toned\nb toned\nhello\n"


def test_an_edited_published_file_is_replaced_and_kept(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.write({"out/film.txt": "my own film"})
    assert reasons(lab.plan()) == {
        "Job:Morph": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Morph.Film", "change": "changed", "path": "out/film.txt"}
        ]
    }
    ran = lab.succeed()
    assert ran.reused == {"Job:Morph": "r0001"}
    assert lab.read("out/film.txt") == "a toned\nb toned\nhello\n"
    assert lab.blob(sha("my own film")).read_text() == "my own film"


def test_a_deleted_blob_of_an_unpublished_artifact(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.blob(toned("c")).unlink()
    assert reasons(lab.plan()) == {
        "Job:Tone[2]": [{"code": "MISSING_OUTPUT", "artifact": "Artifact:Tone.Image[2]", "change": "lost"}],
        "Job:All": [{"code": "UPSTREAM_DIRTY", "job": "Job:Tone[2]"}],
    }
    ran = lab.succeed()
    # it comes out identical, so its consumer is not executed
    assert (ran.executed, ran.reused) == (["Job:Tone[2]"], {"Job:All": "r0001"})
    assert lab.blob(toned("c")).read_text() == "c toned\n"


def test_a_deleted_blob_of_a_published_artifact_is_restored_from_its_file(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Word: {type: string, default: one}}
        jobs:
          Make:
            uses: shell
            with: {run: 'printf made > "$out_File"'}
            outputs: {File: {type: text, path: out/made.txt}}
          Use:
            uses: shell
            with:
              file: ${{ jobs.Make.outputs.File }}
              word: ${{ inputs.Word }}
              run: cat "$file" > "$out_Copy"; printf "$word" >> "$out_Copy"
            outputs: {Copy: {type: text, path: out/copy.txt}}
        """
    )
    lab.succeed()
    lab.blob(sha("made")).unlink()
    assert lab.plan().headlines() == {}
    ran = lab.succeed(sets=["Word=two"])
    assert ran.executed == ["Job:Use"]
    assert lab.read("out/copy.txt") == "madetwo"
    assert lab.blob(sha("made")).read_text() == "made"


def test_comments_key_order_and_whitespace_change_nothing(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {A: {type: integer, default: 1}, B: {type: integer, default: 2}}
        jobs:
          Add:
            uses: python
            with: {call: "sums:add", a: "${{ inputs.A }}", b: "${{ inputs.B }}", deep: {x: 1, y: 2}}
            env: {ONE: "1", TWO: "2"}
            outputs: {Sum: {type: integer}, Text: {type: text, path: out/sum.txt}}
        """,
        {"sums.py": "def add(a, b, deep):\n    return {'Sum': a + b, 'Text': str(a + b)}\n"},
    )
    lab.succeed()
    before = lab.plan()
    lab.write(
        {
            "workflow.yaml": """
                # a comment
                description: words for people
                jobs:
                    Add:   # another
                        outputs:
                            Text: {path: out/sum.txt, type: text}
                            Sum:
                                type: integer
                        env:
                            TWO: "2"
                            ONE: "1"
                        description: more words
                        with:
                            deep: {y: 2, x: 1}
                            b:   "${{inputs.B}}"
                            a:   '${{   inputs.A   }}'
                            call: sums:add
                        uses: python
                inputs:
                    B: {default: 2, type: integer, description: the second}
                    A: {type: integer, default: 1}
                workflow: w
                """,
            "sums.py": '''
                """Sums."""

                # with a comment


                def add(a, b, deep):
                    """Adds."""
                    return {
                        "Sum": a + b,  # the sum
                        "Text": str(a + b),
                    }
                ''',
        }
    )
    plan = lab.plan()
    assert plan.headlines() == {}
    assert plan.digest == before.digest
    assert lab.run().result.run is None


def test_code_with_another_meaning_plans_its_jobs(project: Make) -> None:
    files = {"sums.py": "from helper import plus\n\n\ndef add(a):\n    return {'Sum': plus(a)}\n",
             "helper.py": "def plus(a):\n    return a + 1\n", "unused.py": "X = 1\n"}  # fmt: skip
    lab = project(
        """
        workflow: w
        jobs:
          Add:
            uses: python
            with: {call: "sums:add", a: 1}
            outputs: {Sum: {type: integer}}
        """,
        files,
    )
    lab.succeed()
    lab.write({"unused.py": "X = 2\n"})
    assert lab.plan().headlines() == {}
    lab.write({"helper.py": "def plus(a):\n    return a + 2\n"})
    (change,) = reasons(lab.plan())["Job:Add"]
    assert (change["code"], change["binding"], change["source"]) == ("INPUT_CHANGED", "action", "Input:Add.action")
    lab.succeed()
    assert lab.content("Artifact:Add.Sum") == 3


def test_a_parameter_set_back_is_reused_not_executed(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    assert lab.succeed(sets=["Note=other"]).executed == ["Job:Morph"]
    assert lab.read("out/film.txt").endswith("other\n")
    plan = lab.plan()
    assert [(j.id, j.headline, j.reuse and j.reuse.run) for j in plan.planned] == [
        ("Job:Morph", "INPUT_CHANGED", "r0001")
    ]
    ran = lab.succeed()
    assert (ran.executed, ran.reused, ran.starts) == ([], {"Job:Morph": "r0001"}, [])
    assert lab.read("out/film.txt").endswith("hello\n")
    assert lab.plan().headlines() == {}


def test_an_upstream_that_comes_out_identical_is_cut_off(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Words: {type: file, default: words.txt}}
        jobs:
          Sort:
            uses: shell
            with: {words: "${{ inputs.Words }}", run: 'sort -u "$words" > "$out_Sorted"'}
            outputs: {Sorted: {type: text}}
          Count:
            uses: shell
            with: {sorted: "${{ jobs.Sort.outputs.Sorted }}", run: 'wc -l < "$sorted" > "$out_N"'}
            outputs: {N: {type: text}}
          Tell:
            uses: shell
            with: {n: "${{ jobs.Count.outputs.N }}", run: 'cat "$n" > "$out_T"'}
            outputs: {T: {type: text, path: out/t.txt}}
        """,
        {"words.txt": "b\na\n"},
    )
    lab.succeed()
    lab.write({"words.txt": "a\nb\nb\n"})
    assert codes(lab.plan()) == {
        "Job:Sort": ["INPUT_CHANGED"], "Job:Count": ["UPSTREAM_DIRTY"], "Job:Tell": ["UPSTREAM_DIRTY"],
    }  # fmt: skip
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:Sort"], {"Job:Count": "r0001", "Job:Tell": "r0001"})
    assert lab.plan().headlines() == {}


def test_keys_outside_the_fingerprint_change_nothing(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    more = "timeout: 5m\n    retries: {max: 1}\n    resources: {gpu: 1}\n    needs: [All]\n"
    lab.edit("workflow.yaml", "outputs: {Film:", f"{more}    outputs: {{Film:")
    assert lab.plan().headlines() == {}


def test_a_published_path_in_another_folder_is_missing_there_and_reused(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.edit("workflow.yaml", "out/film.txt", "films/film.txt")
    assert reasons(lab.plan()) == {
        "Job:Morph": [
            {
                "code": "MISSING_OUTPUT",
                "artifact": "Artifact:Morph.Film",
                "change": "unpublished",
                "path": "films/film.txt",
            }
        ]
    }
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == ([], {"Job:Morph": "r0001"})
    assert lab.read("films/film.txt") == "a toned\nb toned\nhello\n"


def test_a_job_renamed_or_gone_leaves_the_others_alone(project: Make) -> None:
    lab = project(MORPH, PHOTOS)
    lab.succeed()
    lab.edit("workflow.yaml", "  All:\n", "  Sheet:\n")
    assert codes(lab.plan()) == {"Job:Sheet": ["MISSING_OUTPUT"]}


def test_inserting_a_value_of_a_values_loop_leaves_the_others_alone(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Nets: {type: "string[]", default: [asia, cancer]}}
        loops: {net: {values: inputs.Nets}}
        jobs:
          Learn:
            for: [net]
            uses: python
            with: {call: "echo:received", net: "${{ net }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO},
    )
    lab.succeed()
    lab.edit("workflow.yaml", "[asia, cancer]", '[alarm, asia, "TETRAD/FGES", cancer]')
    assert codes(lab.plan()) == {"Job:Learn[alarm]": ["MISSING_OUTPUT"], 'Job:Learn["TETRAD/FGES"]': ["MISSING_OUTPUT"]}
    lab.succeed()
    assert lab.content('Artifact:Learn.Got["TETRAD/FGES"]') == {"net": "TETRAD/FGES"}


def test_the_order_of_fan_in_members_counts(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Nets: {type: "string[]", default: [asia, cancer, alarm]}}
        loops: {net: {values: inputs.Nets}}
        jobs:
          Learn:
            for: [net]
            uses: python
            with: {call: "echo:received", net: "${{ net }}"}
            outputs: {Got: {type: json}}
          All:
            uses: python
            with: {call: "echo:received", all: "${{ jobs.Learn.outputs.Got[:] }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO},
    )
    lab.succeed()
    lab.edit("workflow.yaml", "[asia, cancer, alarm]", "[asia, alarm, cancer]")
    (reason,) = reasons(lab.plan()).pop("Job:All")
    assert (reason["code"], reason["binding"], reason["old_source"], reason["source"]) == (
        "INPUT_CHANGED", "all", "Artifact:Learn.Got[cancer]", "Artifact:Learn.Got[alarm]",
    )  # fmt: skip
    assert lab.succeed().executed == ["Job:All"]
    assert [one["net"] for one in lab.content("Artifact:All.Got")["all"]] == ["asia", "alarm", "cancer"]
