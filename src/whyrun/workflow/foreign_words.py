"""Words of other tools, of each place in a workflow file, and what Whyrun says instead: one table.

People come from Snakemake, DVC, GitHub Actions, Nextflow, Airflow and make, and write what they know. A similar key of
ours would mislead them (`conda` resembles `code`), so each of these words has a hint of its own. Imported late: only a
mistake needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

Place = Literal["workflow", "job", "input", "loop", "output", "import", "retries", "uses", "type", "with", "parameter"]


class ForeignWord(msgspec.Struct, frozen=True):
    """What to write instead of a word. `ours`: our key for the same thing, if there is one."""

    hint: str
    ours: str = ""


_PARAMETERS = "write parameters of the action under `with:`"
_SCRIPT = "write `uses: shell`, and the command as `run:` under `with:`"
_PYTHON_PACKAGES = "write `environment: {python: requirements.txt}`"
_OTHER_PACKAGES = "; for other packages, activate the environment and start `whyrun` in it"
_CONTAINER = 'write `container: {image: "debian:12"}`'
_OF_A_JOB = " in a job, or under `defaults:` for all jobs"
_BESIDE = " beside `with:`, as a key of the job"
_AMOUNT = (
    "write `resources: {WORD: 4}`, and give a limit: `whyrun run --limit WORD=8`; a script that reads `$WORD` also "
    "needs `WORD: 4` under `with:`"
)
_OUTPUTS = "declare what the job makes: `outputs: {NAME: {type: file, path: out/NAME.txt}}`"
_SCRATCH = "remove it: each step runs in a scratch folder of its own; bind the files that it reads under `with:`"
_SCHEDULE = "remove it: Whyrun starts nothing by itself; call `whyrun run` from cron or a CI job"
_BACKEND = "remove it: the command says where steps execute: `whyrun run --backend NAME`"
_DESCRIPTION = "write it as `description:`"

# Place, our key for it, words with blanks between them, hint. In a hint, WORD is the word that was written.
_ROWS: tuple[tuple[Place, str, str, str], ...] = (
    ("workflow", "jobs", "steps tasks rules rule stages processes job", "write jobs under `jobs:`"),
    ("workflow", "workflow", "name title project", "write the name under `workflow:`"),
    (
        "workflow",
        "inputs",
        "input params parameters vars variables config configfile args arguments data",
        "declare values and files under `inputs:`: `Alpha: {type: number, default: 0.1}`",
    ),
    ("workflow", "loops", "matrix foreach samples wildcards", "declare loops: `loops: {sample: {each: inputs.NAME}}`"),
    (
        "workflow",
        "imports",
        "include includes modules module subworkflow subworkflows",
        "write `imports: {Intro: {workflow: ./intro.yaml}}`",
    ),
    (
        "workflow",
        "",
        "output outs targets all results",
        "remove it: outputs belong to jobs, and `--target` chooses what a run makes",
    ),
    ("workflow", "", "on schedule trigger triggers cron", _SCHEDULE),
    ("workflow", "", "conda envs venv", _PYTHON_PACKAGES + _OF_A_JOB + _OTHER_PACKAGES),
    ("workflow", "", "image docker singularity apptainer", _CONTAINER + _OF_A_JOB),
    (
        "workflow",
        "",
        "threads cpus cpu cores mem mem_mb memory gpu gpus",
        f"write `resources: {{WORD: 4}}`{_OF_A_JOB}, and give a limit: `whyrun run --limit WORD=8`",
    ),
    ("workflow", "", "executor runs-on profile cluster", _BACKEND),
    ("workflow", "", "version author date license permissions", "remove it, or write it into `description:`"),
    ("workflow", "defaults", "default_args default", "write keys for all jobs under `defaults:`: `timeout: 5m`"),
    (
        "job",
        "with",
        "inputs input deps dependencies sources",
        "declare files under `inputs:` of the workflow, and bind them under `with:`: `data: ${{ inputs.NAME }}`",
    ),
    ("job", "with", "args params parameters arguments kwargs", _PARAMETERS),
    ("job", "with", "cmd command commands exec bash", _SCRIPT),
    ("job", "outputs", "output outs produces products", _OUTPUTS),
    ("job", "outputs", "metrics plots", "declare them: `outputs: {Scores: {type: json, path: out/scores.json}}`"),
    (
        "job",
        "outputs",
        "publishDir publish_dir publish",
        "an output is published at its `path:`: `outputs: {NAME: {type: file, path: out/NAME.txt}}`",
    ),
    ("job", "environment", "conda envmodules venv virtualenv requirements", _PYTHON_PACKAGES + _OTHER_PACKAGES),
    ("job", "container", "containers docker singularity apptainer image", _CONTAINER),
    ("job", "resources", "threads cpus cpu cores mem mem_mb memory disk disk_mb gpu gpus", _AMOUNT),
    (
        "job",
        "",
        "log logs stdout stderr",
        "remove it: Whyrun keeps what a step prints, in the folder of the run; `whyrun log --job ID` shows a failure",
    ),
    ("job", "", "benchmark", "remove it: time and memory of each step are in `metrics.jsonl` of the run"),
    (
        "job",
        "needs",
        "depends_on depends dependsOn depends-on after requires upstream",
        "remove it: a job waits for what it reads; to wait without reading, write `needs: [JOB]`",
    ),
    ("job", "if", "when condition only_if", "write `if: ${{ … }}`"),
    (
        "job",
        "for",
        "foreach for_each each matrix strategy with_items loop loops scatter wildcards",
        "declare a loop at the top of the file, `loops: {sample: {each: inputs.NAME}}`, and name it: `for: [sample]`",
    ),
    ("job", "retries", "retry attempts max_retries maxRetries restart-times", "write `retries: 2`"),
    (
        "job",
        "timeout",
        "timeout-minutes timeout_minutes timeout_seconds timeout_secs walltime time time_limit runtime",
        "write `timeout: 5m`",
    ),
    (
        "job",
        "",
        "cache frozen always_changed persist",
        "remove it: results are kept and reused by content; `whyrun run --force ID` runs a job again",
    ),
    ("job", "", "priority group localrule", "remove it: the order follows from what the jobs read"),
    ("job", "", "runs-on executor queue partition backend pool", _BACKEND),
    (
        "job",
        "",
        "continue-on-error ignore_errors allow_failure errorStrategy",
        "remove it: after a failure other jobs continue; only those that need its result are blocked",
    ),
    ("job", "", "working-directory working_dir wdir cwd chdir", _SCRATCH),
    ("job", "env", "environ environment_variables variables vars", "write `env: {NAME: value}`"),
    ("job", "description", "name title desc doc help comment message summary", _DESCRIPTION),
    ("job", "uses", "type kind operator plugin driver", "name the action: `uses: shell`"),
    ("job", "", "steps tasks stages", "a job is one step: make each a job of its own"),
    ("job", "", "on schedule trigger", _SCHEDULE),
    (
        "input",
        "default",
        "file files filename value src source glob pattern",
        "write it as `default:`; `--set` and `--inputs` give other values",
    ),
    ("input", "required", "optional", "write `required: false`"),
    ("input", "type", "kind dtype format", "write it as `type:`"),
    ("input", "description", "desc doc help title label", _DESCRIPTION),
    (
        "input",
        "",
        "choices enum options allowed min max minimum maximum",
        "remove it: typed parameters of an action check values; see `docs/actions.md`",
    ),
    ("output", "path", "file filename dest destination target publish publishDir to", "write `path: out/file.txt`"),
    ("output", "type", "kind dtype format", "write it as `type:`"),
    ("output", "leaves", "fields properties schema", "declare parts of a `json` output: `leaves: {Title: string}`"),
    (
        "output",
        "",
        "cache persist temp temporary protected",
        "remove it: outputs are kept in the store; `whyrun gc` removes what no run needs",
    ),
    ("output", "", "description desc doc help", "remove it: describe the job instead"),
    (
        "output",
        "",
        "uses with for if needs env secrets code timeout retries resources sandbox isolation environment container",
        "write `WORD:` beside `outputs:`, as a key of the job",
    ),
    ("output", "", "optional required", "remove it: a declared output is always made; `if:` leaves out the whole job"),
    ("loop", "each", "in over from items input", "write `each: inputs.NAME`, or `values: [a, b]`"),
    ("loop", "values", "list value", "write `values: [a, b]`"),
    ("loop", "count", "n times number", "write `count: 3`"),
    ("loop", "range", "start stop end to step", "write `range: 0-24`; both ends count"),
    ("import", "workflow", "file path source uses from src", "name the file: `workflow: ./intro.yaml`"),
    ("import", "with", "inputs input params parameters args", "give values to its inputs under `with:`"),
    ("retries", "max", "count attempts times limit", "write `max: 2`"),
    ("retries", "backoff", "delay wait interval pause", "write `backoff: 10s`"),
    # An entry of `with:` that no script reads, and no function takes.
    (
        "with",
        "timeout",
        "timeout timeout_secs timeout_seconds timeout_s timeout_minutes timeout-minutes time_limit walltime",
        "write `timeout: 5m` beside `with:`, as a key of the job",
    ),
    (
        "with",
        "retries",
        "retries retry max_retries maxRetries attempts",
        "write `retries: 2` beside `with:`, as a key of the job",
    ),
    ("with", "needs", "needs depends_on depends", "write `needs: [JOB]` beside `with:`, as a key of the job"),
    ("with", "outputs", "outputs outs", "declare outputs beside `with:`: `outputs: {NAME: {type: file}}`"),
    ("with", "secrets", "secrets", "write `secrets: [NAME]` beside `with:`, and `name: ${{ secrets.NAME }}` under it"),
    ("with", "env", "env environ", "write `env: {NAME: value}` beside `with:`, as a key of the job"),
    (
        "with",
        "resources",
        "resources threads cpus cores mem mem_mb memory gpu gpus",
        "write `resources: {gpu: 1}` beside `with:`, as a key of the job",
    ),
    ("with", "sandbox", "sandbox", "write `sandbox: required` beside `with:`, as a key of the job"),
    ("with", "", "cwd workdir working_dir working_directory working-directory wdir chdir", _SCRATCH),
    ("with", "environment", "environment conda venv virtualenv", _PYTHON_PACKAGES + _BESIDE + _OTHER_PACKAGES),
    ("with", "container", "container docker singularity apptainer", _CONTAINER + _BESIDE),
    ("with", "", "uses isolation deterministic", "write `WORD:` beside `with:`, as a key of the job"),
    # A parameter of an action that has `ours`, in the words of pandas, SQL and dplyr.
    ("parameter", "keys", "on by key left_on right_on", "write `keys: [COLUMN]`"),
    ("parameter", "primary_dataset", "left x data df table input", "write it as `primary_dataset:`"),
    ("parameter", "secondary_dataset", "right y other", "write it as `secondary_dataset:`"),
    ("parameter", "how", "join type kind", "write it as `how:`"),
    ("parameter", "query", "sql statement", "write it as `query:`"),
    ("type", "string", "str char varchar url date datetime enum", "write `string`"),
    ("type", "integer", "int long uint", "write `integer`"),
    ("type", "number", "float double decimal real num", "write `number`"),
    ("type", "boolean", "bool logical", "write `boolean`"),
    ("type", "json", "dict map object any yaml mapping", "write `json`"),
    ("type", "file", "path File filepath filename csv tsv txt parquet pdf audio video binary", "write `file`"),
    ("type", "directory", "folder dir", "write `directory`"),
    ("type", "image", "png jpg jpeg picture", "write `image`"),
    ("type", "dataset", "table dataframe", "write `dataset` for a table that data actions read, else `file`"),
    ("type", "", "files paths", 'an array of files is a `"file[]"`'),
    ("uses", "shell", "bash sh cmd command run script exec Rscript R julia node perl make docker", _SCRIPT),
    ("uses", "python", "python3 py function", 'write `uses: python`, and `call: "module:function"` under `with:`'),
)


def meant_beside_with(name: str) -> str | None:
    """The hint for an entry of `with:` that nothing reads, if a key of the job was probably meant."""
    from difflib import get_close_matches

    words = foreign_words("with")
    near = get_close_matches(name, words, n=1, cutoff=0.8)
    return words[near[0]].hint if near else None


@lru_cache(maxsize=16)
def foreign_words(place: Place) -> Mapping[str, ForeignWord]:
    """The words of other tools in this place."""
    return {
        word: ForeignWord(hint.replace("WORD", word), ours)
        for at, ours, words, hint in _ROWS
        if at == place
        for word in words.split()
    }
