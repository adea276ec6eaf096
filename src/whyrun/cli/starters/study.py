"""`whyrun init --example study`: networks at computed paths, seeds, and a table of scores."""

from __future__ import annotations

FILES = {
    "workflow.yaml": """\
workflow: causal-study
description: Draw samples from known networks, learn their edges again, and score what was learned

inputs:
  Networks: {type: "string[]", default: [chain, fork]}
  Seeds:    {type: integer, default: 4}
  Rows:     {type: integer, default: 60}
  Edges:    {type: file, for: [network], path: "networks/${{ network }}/edges.csv"}     # Input:Edges[chain]

loops:
  network: {values: inputs.Networks}                   # the name is the index: a new network leaves the others alone
  seed:    {count: inputs.Seeds}

jobs:
  Sample:
    for: [network, seed]
    uses: python
    with:
      call: "study:sample"
      edges: ${{ inputs.Edges[network] }}
      rows: ${{ inputs.Rows }}
      seed: ${{ seed }}
    outputs: {Data: {type: text}}

  Learn:
    for: [network, seed]
    uses: python
    with: {call: "study:learn", data: "${{ jobs.Sample.outputs.Data[network, seed] }}"}
    outputs: {Graph: {type: text, path: "out/graphs/${{ network }}-${{ seed }}.csv"}}

  Score:
    for: [network, seed]
    uses: python
    with:
      call: "study:score"
      truth: ${{ inputs.Edges[network] }}
      graph: ${{ jobs.Learn.outputs.Graph[network, seed] }}
    outputs: {Score: {type: json, leaves: {F1: number}}}

  Vote:                                                # the edges that most seeds agree on; only even seeds vote
    for: [network]
    uses: python
    with:
      call: "study:vote"
      graphs: ${{ named(where(jobs.Learn.outputs.Graph[network, :], seed % 2 == 0)) }}
    outputs: {Graph: {type: text, path: "out/votes/${{ network }}.csv"}}

  Table:
    uses: python
    with: {call: "study:table", scores: "${{ named(jobs.Score.outputs.Score[:, :]) }}"}
    outputs: {Table: {type: text, path: out/scores.csv}}
""",
    "study.py": '''\
"""The functions that workflow.yaml calls. They need nothing but the standard library."""

import random
from itertools import combinations
from pathlib import Path
from statistics import correlation


def edges_of(file: Path) -> list[tuple[str, str]]:
    lines = file.read_text(encoding="utf-8").split()[1:]
    return [tuple(line.split(",")[:2]) for line in lines]


def as_csv(edges: list) -> str:
    return "from,to\\n" + "".join(f"{a},{b}\\n" for a, b in edges)


def sample(edges: Path, rows: int, seed: int) -> dict:
    """Each variable is the sum of its parents and noise. Parents stand before their children in the file."""
    draw, known = random.Random(seed), edges_of(edges)
    names = list(dict.fromkeys(name for edge in known for name in edge))
    lines = [",".join(names)]
    for _ in range(rows):
        values: dict = {}
        for name in names:
            values[name] = sum(values[a] for a, b in known if b == name) + draw.gauss(0, 1)
        lines.append(",".join(f"{values[name]:.4f}" for name in names))
    return {"Data": "\\n".join(lines) + "\\n"}


def learn(data: Path) -> dict:
    """Pairs that depend on each other, also once any third variable is known."""
    names, *rows = [line.split(",") for line in data.read_text(encoding="utf-8").split()]
    columns = {name: [float(row[i]) for row in rows] for i, name in enumerate(names)}
    r = {(a, b): correlation(columns[a], columns[b]) for a in names for b in names}
    found = []
    for a, b in combinations(names, 2):
        partial = [
            (r[a, b] - r[a, c] * r[c, b]) / ((1 - r[a, c] ** 2) * (1 - r[c, b] ** 2)) ** 0.5
            for c in names
            if c not in (a, b)
        ]
        if min(map(abs, (r[a, b], *partial))) > 0.15:
            found.append((a, b))
    return {"Graph": as_csv(found)}


def score(truth: Path, graph: Path) -> dict:
    """Edges without their direction: data alone does not always tell it."""
    wanted, found = ({frozenset(edge) for edge in edges_of(file)} for file in (truth, graph))
    right = len(wanted & found)
    return {"Score": {"F1": round(2 * right / ((len(wanted) + len(found)) or 1), 3), "Edges": len(found)}}


def vote(graphs: dict) -> dict:
    votes = [edge for file in graphs.values() for edge in edges_of(file)]
    return {"Graph": as_csv(sorted({edge for edge in votes if 2 * votes.count(edge) > len(graphs)}))}


def table(scores: dict) -> dict:
    lines = [f"{network},{seed},{each['F1']}" for network, seeds in scores.items() for seed, each in seeds.items()]
    return {"Table": "\\n".join(["network,seed,f1", *lines]) + "\\n"}
''',
    "networks/chain/edges.csv": """\
from,to
a,b
b,c
c,d
""",
    "networks/fork/edges.csv": """\
from,to
a,b
a,c
a,d
""",
    "README.md": """\
# A study over networks and seeds

Files lie at computed paths, `networks/NAME/edges.csv`. Data is drawn with a seed, edges are learned from it, and a
table says how well. Nothing is installed or fetched.

    whyrun run --jobs 4                          # out/scores.csv
    whyrun explain --set Seeds=6                 # two more seeds for each network, and what reads them
    whyrun table 'Artifact:Score.Score[*][*].F1' # all scores, by network and seed
    mkdir networks/loop; cp networks/chain/edges.csv networks/loop/
    whyrun explain --set 'Networks=[chain, fork, loop]'
""",
}
