"""Commands and options of other tools, and the words of Whyrun for the same: one table.

What other tools call a backend is in its row (`execution/backends/registry`), and words of workflow files are in
`workflow/foreign_words`. Imported late: only a mistake needs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from whyrun.execution.backends.registry import BACKENDS

_RUN = "write `whyrun run`: it runs what is missing, failed or changed, and nothing else"
_PLAN = "write `whyrun plan`, or `whyrun run --dry-run` for the lines of a run"
_CLEAN = "`whyrun gc` removes stored bytes that no run needs, and `whyrun runs prune` old runs"
_PARTS = "write `--target Job:NAME`: it runs this job and what it depends on; `--up N` stops after N layers"
_FILE = "name the file without an option: `whyrun run workflow.yaml`"

# Words with blanks between them → what to write.
_COMMANDS = {
    "repro build start exec execute launch resume retry rerun make submit do apply": _RUN,
    "dry-run dryrun dag estimate": _PLAN,
    "clean cleanup delete remove rm cache": _CLEAN,
    "list ls": "`whyrun status` shows jobs and artifacts, `whyrun runs` the runs, `whyrun actions` the actions",
    "lint check test": "write `whyrun validate`",
    "new create": "write `whyrun init`",
    "help": "write `whyrun --help`, or `whyrun COMMAND --help`",
    "version": "write `whyrun --version`",
    "logs": "write `whyrun log`",
    "unlock": "no command is needed: the lock of a run ends with its process",
    "cancel stop kill": "stop a run with Ctrl-C where it runs; what has ended is kept",
    "invalidate touch": "write `whyrun run --force ID` to run a job again",
    "config": "inputs are set with `--set NAME=VALUE` or `--inputs FILE.yaml`; settings are in `whyrun.toml`",
    "params metrics": "write `whyrun diff` to compare runs, and `whyrun show ID` for values",
}
_OPTIONS = {
    "-n --dry --dryrun --just-print": "write `--dry-run`",
    "-c --cores --threads --parallel --max-workers -J": "write `--jobs N`, or `-j N`",
    "-k --keep-going": "omit it: only jobs that need a failed one are blocked; `--fail-fast` stops the others, too",
    "-R --forcerun --rerun": "write `--force ID`",
    "-F -B -a --forceall --force-all --always-make --no-cache": "write `--force all`",
    "--until --to -U --omit-from --only --select --downstream": _PARTS,
    "--from --start-at --from-step": "omit it: a run continues with what is missing; `--force ID` repeats a job",
    "--resume -resume --rerun-incomplete --ri --continue --restart": (
        "omit it: `whyrun run` continues where the last run ended"
    ),
    "--max-cost --cost-limit": "write `--budget AMOUNT`",
    "-f -s --file --snakefile --workflow -w": _FILE,
    "--config --param --params -P -p --var -e --arg": "write `--set NAME=VALUE`, or `--inputs FILE.yaml`",
    "--configfile --params-file --values": "write `--inputs FILE.yaml`",
    "-v -V --verbose": "write `--log-level all`",
    "--debug -d": "write `--log-level debug`",
    "--reason --why --explain": "write `whyrun explain`",
    "--summary --list -l": "write `whyrun status`",
    "--dag --rulegraph": _PLAN,
    "--lint --check": "write `whyrun validate`",
    "--unlock": "omit it: the lock of a run ends with its process",
    "--timeout": "a limit belongs to its job, in the workflow: `timeout: 5m`",
    "--retries --retry --restart-times -T": "they belong to the job, in the workflow: `retries: 2`",
    "--use-conda --sdm --use-singularity --with-docker --docker": (
        "omit it: Whyrun makes no environments; start it in the one that the steps need"
    ),
    "-C --directory --chdir --workdir": "change the folder first, or name the file: `whyrun run path/workflow.yaml`",
    "--watch": "omit it: Whyrun does not watch files; a run without changes costs next to nothing",
    "--output --format -o": "write `--json`, where the command has it",
    "--yes -y": "omit it: no command asks",
}
# Options by which other tools are told to run steps on a cluster.
_CLUSTER_OPTIONS = ("--executor", "--profile", "--cluster", "--slurm", "--runner")


def command_hint(word: str) -> str | None:
    return _hint(_COMMANDS.items(), word)


def option_hint(word: str) -> str | None:
    return backend_hint("cluster") if word in _CLUSTER_OPTIONS else _hint(_OPTIONS.items(), word)


def backend_hint(word: str) -> str | None:
    rows = (row for entry in BACKENDS.values() for row in entry.foreign)
    return _hint(rows, word.partition(":")[2] or word)


def _hint(table: Iterable[tuple[str, str]], word: str) -> str | None:
    return next((hint for words, hint in table if word in words.split()), None)
