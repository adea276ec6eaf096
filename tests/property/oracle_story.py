"""One story: a random workflow, then random changes, faults and runs, checked after every step."""

from __future__ import annotations

from pathlib import Path

from oracle_backend import Faults
from oracle_counts import Counts
from oracle_generate import Dice, chance, mutate, new_faults, new_flow, new_options
from oracle_project import Lab

from whyrun.errors import InvalidError


class Unusable(Exception):
    """The generated workflow is refused: nothing to tell."""


def new_lab(dice: Dice, project: Path) -> Lab:
    for _ in range(8):
        lab = Lab(project, new_flow(dice))
        try:
            opened = lab.opened()
            opened.graph, opened.actions  # noqa: B018
        except InvalidError:
            continue
        return lab
    raise Unusable


def tell(dice: Dice, project: Path, record: list[str], *, local: bool = False, steps: int = 8) -> Counts:
    try:
        lab = new_lab(dice, project)
    except Unusable:
        return Counts()
    record.append((project / "lab.yaml").read_text(encoding="utf-8"))
    for _ in range(dice.number(1, steps)):
        for _ in range(dice.number(0, 3)):
            record.append(mutate(dice, lab))
        options = new_options(dice, lab.flow)
        faults = Faults() if local else new_faults(dice, lab.flow)
        record.append(f"run: {options} {faults}")
        lab.run(options, faults, local=local)
        if chance(dice, 3):
            converge(lab, record, local=local)
    record.append((project / "lab.yaml").read_text(encoding="utf-8"))
    converge(lab, record, local=local)
    return lab.counts


def converge(lab: Lab, record: list[str], *, local: bool) -> None:
    """Then everything is true, and nothing is left but failures."""
    run_all(lab, record, local=local)
    lab.check_truth()
    lab.check_caches()


def run_all(lab: Lab, record: list[str], *, local: bool = False) -> None:
    """Without faults and controls one run is enough, with one exception: a job behind a failure turns out to be up to
    date only when that run is over. The jobs that wait for it run next."""
    record.append("converge")
    lab.run(local=local)
    for _ in lab.flow.jobs:
        if not lab.released():
            break
        record.append("converge further")
        lab.run(local=local)
