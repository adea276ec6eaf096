"""`whyrun init --example wildcard`: one sample a file, as with the wildcards of other tools."""

from __future__ import annotations

FILES = {
    "workflow.yaml": """\
workflow: reads
description: Trim the reads of each sample, count them, and report on all samples

inputs:
  Reads: {type: "file[]", default: "reads/*.fastq", key: stem}     # reads/alpha.fastq is Input:Reads[alpha]
  Sheet: {type: "json[]", default: samples.csv, key: id}           # Input:Sheet[alpha].group counts alone
  MinLength: {type: integer, default: 8}

loops:
  sample: {each: inputs.Reads}                                     # what a `{sample}` wildcard is elsewhere

jobs:
  Trim:
    for: [sample]
    uses: python
    with:
      call: "reads:trim"
      reads: ${{ inputs.Reads[sample] }}
      min_length: ${{ inputs.MinLength }}
    outputs: {Trimmed: {type: text, path: "out/trimmed/${{ sample }}.fastq"}}

  Count:
    for: [sample]
    uses: python
    with:
      call: "reads:count"
      reads: ${{ jobs.Trim.outputs.Trimmed[sample] }}
      group: ${{ inputs.Sheet[sample].group }}
    outputs: {Stats: {type: json, leaves: {Reads: integer, Group: string}}}

  Empty:                                                           # only for samples that lost all their reads
    for: [sample]
    if: ${{ jobs.Count.outputs.Stats[sample].Reads == 0 }}
    uses: shell
    with: {sample: "${{ sample }}", run: 'echo "$sample has no reads left" > "$out_Note"'}
    outputs: {Note: {type: text, path: "out/empty/${{ sample }}.txt"}}

  Report:
    uses: python
    with:
      call: "reads:report"
      stats: ${{ named(jobs.Count.outputs.Stats[:]) }}             # a mapping: which sample has which counts
    outputs: {Table: {type: text, path: out/report.csv}}
""",
    "reads.py": '''\
"""The functions that workflow.yaml calls. They need nothing but the standard library."""

import csv
import io
from pathlib import Path


def records(file: Path) -> list[tuple[str, str, str]]:
    """(name, bases, qualities) of each read of a FASTQ file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [(lines[i], lines[i + 1], lines[i + 3]) for i in range(0, len(lines) - 3, 4)]


def trim(reads: Path, min_length: int) -> dict:
    """Cut each read at its first `N`, and drop what is too short then."""
    kept = []
    for name, bases, qualities in records(reads):
        end = bases.find("N") if "N" in bases else len(bases)
        if end >= min_length:
            kept.append(f"{name}\\n{bases[:end]}\\n+\\n{qualities[:end]}\\n")
    return {"Trimmed": "".join(kept)}


def count(reads: Path, group: str) -> dict:
    bases = "".join(read for _, read, _ in records(reads))
    share = (bases.count("G") + bases.count("C")) / len(bases) if bases else 0.0
    return {"Stats": {"Reads": len(records(reads)), "Group": group, "GC": round(share, 3)}}


def report(stats: dict) -> dict:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\\n")
    table.writerow(["sample", "group", "reads", "gc"])
    for sample, each in stats.items():
        table.writerow([sample, each["Group"], each["Reads"], each["GC"]])
    return {"Table": text.getvalue()}
''',
    "samples.csv": """\
id,group
alpha,treated
beta,control
gamma,control
""",
    "reads/alpha.fastq": """\
@read1
ACGTGGCATTACG
+
IIIIIIIIIIIII
@read2
TTGCACCGGTNAC
+
IIIIIIIIIIIII
@read3
GGNACGTACGT
+
IIIIIIIIIII
""",
    "reads/beta.fastq": """\
@read1
CATTACGGAACGT
+
IIIIIIIIIIIII
@read2
ACCGGTTAACCGG
+
IIIIIIIIIIIII
""",
    "reads/gamma.fastq": """\
@read1
NNNNACGTACGTA
+
IIIIIIIIIIIII
@read2
ACNNNNNNNNNNN
+
IIIIIIIIIIIII
""",
    "README.md": """\
# Reads by sample

Each file in `reads/` is a sample, named by its stem; `samples.csv` says more about it. Nothing is installed or fetched.

    whyrun run                                   # out/report.csv
    cp reads/alpha.fastq reads/delta.fastq       # a new sample,
    echo delta,treated >> samples.csv            # and its row:
    whyrun explain                               # only its own jobs and the report run; the others keep their names
    whyrun why 'Job:Count[alpha]'
""",
}
