"""The workload of the planning benchmarks: N/10 chains of depth 10, one small file an output; for every tool the same.

    src/00042.txt → out/s0-42.txt → out/s1-42.txt → … → out/s9-42.txt

Every step copies its file and adds a line, so that no two outputs have the same content.
"""

from __future__ import annotations

from pathlib import Path

DEPTH = 10

WORK = """\
def step(source, stage, context):
    with open(source, "rb") as file:
        data = file.read()
    with open(context.output("Out"), "wb") as file:
        file.write(data + b"stage %d\\n" % stage)
"""


def make_sources(folder: Path, chains: int, *, keyed: bool = False) -> None:
    (folder / "src").mkdir(parents=True)
    for i in range(chains):
        (folder / f"src/{name_of(i, keyed=keyed)}.txt").write_text(f"source {i}\n")


def name_of(chain: int, *, keyed: bool) -> str:
    return f"sample-{chain:06d}" if keyed else f"{chain:06d}"


def workflow_text(*, keyed: bool = False) -> str:
    """`keyed`: the sources have keys, so that the index of a chain is a name and not its position."""
    lines = [
        "workflow: chains",
        "inputs:",
        f'  Sources: {{type: "file[]", default: "src/*.txt"{", key: stem" if keyed else ""}}}',
        "loops:",
        "  chain: {each: inputs.Sources}",
        "jobs:",
    ]
    for stage in range(DEPTH):
        source = "inputs.Sources[chain]" if stage == 0 else f"jobs.S{stage - 1}.outputs.Out[chain]"
        lines += [
            f"  S{stage}:",
            "    for: [chain]",
            "    uses: python",
            f'    with: {{call: "work:step", stage: {stage}, source: "${{{{ {source} }}}}"}}',
            f'    outputs: {{Out: {{type: file, path: "out/s{stage}-${{{{ chain }}}}.txt"}}}}',
        ]
    return "\n".join(lines) + "\n"


def whyrun_project(folder: Path, chains: int, *, keyed: bool = False) -> None:
    make_sources(folder, chains, keyed=keyed)
    (folder / "workflow.yaml").write_text(workflow_text(keyed=keyed))
    (folder / "work.py").write_text(WORK)


def ninja_project(folder: Path, chains: int) -> None:
    make_sources(folder, chains)
    lines = ["rule step", "  command = cp $in $out"]
    for i in range(chains):
        before = f"src/{i:06d}.txt"
        for stage in range(DEPTH):
            lines.append(f"build out/s{stage}-{i}.txt: step {before}")
            before = f"out/s{stage}-{i}.txt"
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")


def snakemake_project(folder: Path, chains: int) -> None:
    """The Snakefile alone; the files come from `copy_files`, since snakemake itself would take an hour to make them."""
    lines = [f'rule all:\n    input: expand("out/s{DEPTH - 1}-{{chain}}.txt", chain=range({chains}))\n']
    for stage in range(DEPTH):
        source = 'lambda w: f"src/{int(w.chain):06d}.txt"' if stage == 0 else f'"out/s{stage - 1}-{{chain}}.txt"'
        lines.append(
            f'rule S{stage}:\n    input: {source}\n    output: "out/s{stage}-{{chain}}.txt"\n'
            '    shell: "cp {input} {output}"\n'
        )
    make_sources(folder, chains)
    (folder / "Snakefile").write_text("\n".join(lines))
    copy_files(folder, chains)


def copy_files(folder: Path, chains: int) -> None:
    (folder / "out").mkdir()
    for stage in range(DEPTH):
        for i in range(chains):
            (folder / f"out/s{stage}-{i}.txt").write_text(f"source {i}\n")


def make_rules(folder: Path, chains: int) -> None:
    """A Makefile over the files that ninja made: make has no state but their times."""
    lines = [f"all: {' '.join(f'out/s{DEPTH - 1}-{i}.txt' for i in range(chains))}"]
    for i in range(chains):
        before = f"src/{i:06d}.txt"
        for stage in range(DEPTH):
            lines.append(f"out/s{stage}-{i}.txt: {before}\n\tcp $< $@")
            before = f"out/s{stage}-{i}.txt"
    (folder / "Makefile").write_text("\n".join(lines) + "\n")


def dvc_project(folder: Path, chains: int) -> None:
    """The files are copied, and `dvc commit` takes them as they are: running would take a second a stage."""
    lines = ["stages:"]
    for stage in range(DEPTH):
        source = "src/${item}.txt" if stage == 0 else f"out/s{stage - 1}-${{item}}.txt"
        target = f"out/s{stage}-${{item}}.txt"
        lines += [
            f"  S{stage}:",
            f"    foreach: [{', '.join(str(i) for i in range(chains))}]",
            "    do:",
            f"      cmd: cp {source} {target}",
            f'      deps: ["{source}"]',
            f'      outs: [{{"{target}": {{cache: false}}}}]',
        ]
    (folder / "src").mkdir(parents=True)
    for i in range(chains):
        (folder / f"src/{i}.txt").write_text(f"source {i}\n")
    copy_files(folder, chains)
    (folder / "dvc.yaml").write_text("\n".join(lines) + "\n")


def doit_project(folder: Path, chains: int) -> None:
    make_sources(folder, chains)
    (folder / "out").mkdir()
    (folder / "dodo.py").write_text(
        f"""\
import shutil

DOIT_CONFIG = {{"verbosity": 0}}


def copy(source, target):
    shutil.copyfile(source, target)


def task_step():
    for i in range({chains}):
        before = f"src/{{i:06d}}.txt"
        for stage in range({DEPTH}):
            target = f"out/s{{stage}}-{{i}}.txt"
            yield {{
                "name": f"{{stage}}-{{i}}", "actions": [(copy, [before, target])], "file_dep": [before],
                "targets": [target],
            }}
            before = target
"""
    )
