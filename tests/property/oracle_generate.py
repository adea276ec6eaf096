"""Random workflows and random changes to them. Every choice is a draw, so that hypothesis can shrink what fails."""

from __future__ import annotations

import json
import os
import random
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from oracle_backend import Faults
from oracle_flow import (
    All,
    At,
    Const,
    Expr,
    First,
    Flow,
    Format,
    In,
    Job,
    Keyed,
    Leaf,
    Listed,
    Literal,
    Loop,
    Op,
    Out,
    Output,
    Own,
    Selector,
    Term,
    Var,
    job_id,
    loop_values,
    rows,
)
from oracle_project import Lab
from oracle_pure import WORDS

from whyrun.planning.plan import PlanOptions

T = TypeVar("T")


class Dice(Protocol):
    def number(self, low: int, high: int) -> int: ...


class RandomDice:
    """From a seed: for long runs outside hypothesis, and for repeating one of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class DrawnDice:
    """From hypothesis."""

    def __init__(self, draw_number: Callable[[int, int], int]) -> None:
        self.number = draw_number


def pick(dice: Dice, options: Sequence[T]) -> T:
    return options[dice.number(0, len(options) - 1)]


def chance(dice: Dice, out_of: int) -> bool:
    """True once in so many; shrinks to False."""
    return dice.number(1, out_of) == out_of


# --- workflows ---------------------------------------------------------------------------------------------------

TYPES = {"Text": "text", "Doc": "json", "Word": "string", "Count": "integer", "On": "boolean"}
LOOPS = ("i", "v", "r", "e")


def new_flow(dice: Dice) -> Flow:
    number = dice.number(1, 3)
    files = {f"in/{i}.txt": f"file {i}" for i in range(number)}
    flow = Flow(
        jobs={},
        loops={
            "i": Loop("count", "Num") if chance(dice, 2) else Loop("count", dice.number(1, 3)),
            "v": Loop("values", "Words") if chance(dice, 2) else Loop("values", WORDS[: dice.number(1, 3)]),
            "r": Loop("range", (1, 2)),
            "e": Loop("each", "Files"),
        },
        values={
            "Files": list(files),
            "Single": "in/0.txt",
            "Words": list(WORDS[: dice.number(1, 3)]),
            "Switches": [True, False, True],
            "Title": "title",
            "Num": dice.number(1, 3),
            "Flag": True,
        },
        files=files,
    )
    for n in range(dice.number(2, 6)):
        flow = flow.with_job(new_job(dice, flow, f"J{n}"))
    return flow


def new_job(dice: Dice, flow: Flow, name: str) -> Job:
    loops: tuple[str, ...] = ()
    shape = dice.number(0, 5)
    if shape in (2, 3, 4):
        loops = (pick(dice, LOOPS),)
    elif shape == 5:
        first = pick(dice, LOOPS)
        loops = (first, pick(dice, [loop for loop in LOOPS if loop != first]))
    names = ["Text", *(n for n in ("Doc", "Word", "Count", "On") if chance(dice, 3))]
    if chance(dice, 4):
        names = [pick(dice, list(TYPES))]
    job = Job(
        name,
        loops,
        outputs=tuple(new_output(dice, n, loops) for n in names),
        deterministic=chance(dice, 3),
        retries=1 if chance(dice, 5) else 0,
        module=pick(dice, ["m2", "m1", "m0"]),
    )
    if loops and chance(dice, 5):
        options = [(loop, value) for loop in loops for value in loop_values(flow, loop)[:2]]
        if options:
            job = replace(job, exclude=((pick(dice, options),),))
    if loops and all(loop in ("i", "r") for loop in loops) and chance(dice, 5):
        job = replace(job, include=(tuple(5 for _ in loops),))
    entries = [(f"p{n}", new_term(dice, flow, job)) for n in range(dice.number(1, 3))]
    job = replace(job, with_=tuple(entries))
    if chance(dice, 2):
        job = replace(job, condition=new_condition(dice, flow, job))
    if flow.jobs and chance(dice, 5):
        job = replace(job, needs=(pick(dice, list(flow.jobs)),))
    if chance(dice, 8):
        job = replace(job, env=(("LAB", Literal(dice.number(0, 2))),))
    return job


def new_output(dice: Dice, name: str, loops: tuple[str, ...]) -> Output:
    suffix = None
    if chance(dice, 2):
        suffix = {"Text": ".txt", "Doc": ".json"}.get(name, ".val")
    leaves: list[Leaf] = []
    if name == "Doc":
        kinds = dice.number(1, 4)
        if kinds in (1, 4):
            leaves.append(Leaf((("Top", ()),), "boolean"))
        if kinds in (2, 4):
            loop = pick(dice, ["i", "r", "e"])
            leaves.append(Leaf((("Nums", (Own(loop),)), ("On", ())), "boolean"))
            if chance(dice, 2):
                leaves.append(Leaf((("Nums", (Own(loop),)), ("N", ())), "integer"))
        if kinds == 3:
            leaves.append(Leaf((("Keys", (Own("v"),)), ("N", ())), "integer"))
        if kinds == 4:
            leaves.append(Leaf((("Nums", (At(5),)), ("N", ())), "integer"))
    return Output(name, TYPES[name], suffix, leaves=tuple(leaves))


# -- references --


def selectors_for(dice: Dice, flow: Flow, target: Job, job: Job, *, fan_in: bool) -> tuple[Selector, ...]:
    found: list[Selector] = []
    for loop in target.loops:
        if loop in job.loops and (not fan_in or chance(dice, 2)):
            found.append(Own(loop))
        elif fan_in:
            found.append(All())
        else:
            values = loop_values(flow, loop)
            found.append(At(pick(dice, values)) if values else All())
    if fan_in and target.loops and not any(isinstance(s, All) for s in found):
        found[dice.number(0, len(found) - 1)] = All()
    return tuple(found)


def value_refs(flow: Flow, job: Job, target: Job) -> list[tuple[str, Any]]:
    """(output, leaf path) of everything small that a job offers."""
    found: list[tuple[str, Any]] = []
    for output in target.outputs:
        if output.name in ("Word", "Count", "On"):
            found.append((output.name, ()))
        for leaf in output.leaves:
            path = []
            for name, here in leaf.path:
                chosen: list[Selector] = []
                for s in here:
                    if isinstance(s, Own) and s.loop not in job.loops:
                        values = loop_values(flow, s.loop)
                        chosen.append(At(values[0]) if values else All())
                    else:
                        chosen.append(s)
                path.append((name, tuple(chosen)))
            found.append((output.name, tuple(path)))
    return found


def new_value_ref(dice: Dice, flow: Flow, job: Job) -> Expr:
    """A small value: an input, an element, a value output or a leaf."""
    options = [(t, o, leaf) for t in flow.jobs.values() for o, leaf in value_refs(flow, job, t)]
    if options and not chance(dice, 3):
        target, output, leaf = pick(dice, options)
        return Out(target.name, output, selectors_for(dice, flow, target, job, fan_in=False), leaf)
    which = dice.number(0, 3)
    if which == 0:
        return In("Title")
    if which == 1:
        return In("Num")
    if which == 2 and job.loops:
        return Var(job.loops[0])
    return In("Switches", (At(dice.number(0, 2)),))


def new_file_ref(dice: Dice, flow: Flow, job: Job) -> In | Out:
    targets = [t for t in flow.jobs.values() if any(o.name in ("Text", "Doc") for o in t.outputs)]
    if targets and not chance(dice, 4):
        target = pick(dice, targets)
        output = pick(dice, [o.name for o in target.outputs if o.name in ("Text", "Doc")])
        return Out(target.name, output, selectors_for(dice, flow, target, job, fan_in=False))
    if "e" in job.loops:
        return In("Files", (Own("e"),))
    return pick(dice, [In("Single"), In("Files", (At(0),))])


def new_term(dice: Dice, flow: Flow, job: Job) -> Term:
    kind = dice.number(0, 12)
    if kind <= 3:
        return new_file_ref(dice, flow, job)
    if kind in (4, 5):
        targets = list(flow.jobs.values())
        if not targets:
            return In("Files", (All(),))
        target = pick(dice, targets)
        output = pick(dice, [o.name for o in target.outputs])
        return Out(target.name, output, selectors_for(dice, flow, target, job, fan_in=True))
    if kind in (6, 7):
        return new_first(dice, flow, job)
    if kind == 8:
        items: list[Term] = [new_file_ref(dice, flow, job)]
        items += [
            pick(dice, [Literal("x"), new_file_ref(dice, flow, job), new_value_ref(dice, flow, job), Literal([])])
            for _ in range(dice.number(0, 2))
        ]
        return Listed(tuple(items))
    if kind == 9:
        return Keyed((("a", new_file_ref(dice, flow, job)), ("b", Literal(dice.number(0, 3)))))
    if kind == 10:
        return Format(("<", new_value_ref(dice, flow, job), "> ", new_value_ref(dice, flow, job)))
    if kind == 11:
        group = new_value_group(dice, flow, job)
        if group is not None:
            return Op(pick(dice, ["len", "any", "all"]), (group,))
    plain: list[Term] = [In("Files"), In("Title"), In("Words"), Literal(dice.number(0, 3))]
    return pick(dice, plain)


def new_value_group(dice: Dice, flow: Flow, job: Job) -> Expr | None:
    targets = [
        (t, o.name) for t in flow.jobs.values() if t.loops for o in t.outputs if o.name in ("Word", "Count", "On")
    ]
    if not targets:
        return None
    target, output = pick(dice, targets)
    return Out(target.name, output, selectors_for(dice, flow, target, job, fan_in=True))


def new_first(dice: Dice, flow: Flow, job: Job) -> Term:
    """Often the neighbour of this very job, else candidates that may be inactive; with or without a sure end."""
    candidates: list[In | Out] = []
    own = [o.name for o in job.outputs if o.name == "Text"]
    if job.loops and own and chance(dice, 2):
        moved = dice.number(0, len(job.loops) - 1)
        selectors = tuple(Own(loop, -1 if n == moved else 0) for n, loop in enumerate(job.loops))
        candidates.append(Out(job.name, "Text", selectors))
    for _ in range(dice.number(1, 2)):
        candidates.append(new_file_ref(dice, flow, job))
    return First(tuple(candidates))


def new_condition(dice: Dice, flow: Flow, job: Job) -> Expr:
    kind = dice.number(0, 7)
    if kind == 0:
        return In("Flag")
    if kind == 1:
        return Op(">", (In("Num"), Const(dice.number(0, 2))))
    if kind == 2 and job.loops:
        return Op("not", (Op("==", (Var(job.loops[0]), Const(1))),))
    if kind == 3:
        group = new_value_group(dice, flow, job)
        if group is not None:
            return Op(pick(dice, ["any", "all"]), (group,))
    if kind == 4 and flow.jobs:
        target = pick(dice, list(flow.jobs.values()))
        output = pick(dice, [o.name for o in target.outputs])
        if output not in ("Text", "Doc"):
            inner = Out(target.name, output, selectors_for(dice, flow, target, job, fan_in=False))
            return Op("exists", (inner,))
    left = new_value_ref(dice, flow, job)
    if kind == 5:
        return Op(pick(dice, ["and", "or"]), (left, In("Switches", (At(dice.number(0, 2)),))))
    if kind == 6:
        return Op("not", (left,))
    return left


# --- mutations ---------------------------------------------------------------------------------------------------


def mutate(dice: Dice, lab: Lab) -> str:
    """One change of the world between two runs; what it was, for the record of a failing case."""
    flow = lab.flow
    change = pick(dice, MUTATIONS)
    return f"{change.__name__}: {change(dice, lab, flow)}"


def edit_file(dice: Dice, lab: Lab, flow: Flow) -> Any:
    path = pick(dice, list(flow.files))
    text = pick(dice, ["one", "two", f"file {path[3:-4]}", "FAIL"])
    return path, text, lab.try_flow(replace(flow, files={**flow.files, path: text}))


def add_element(dice: Dice, lab: Lab, flow: Flow) -> Any:
    number = len(flow.values["Files"])
    if number >= 4:
        return None
    path = f"in/{number}.txt"
    at = dice.number(0, number)
    files = {**flow.files, path: flow.files.get(path, f"file {number}")}
    paths = [*flow.values["Files"]]
    if path in paths:
        return None
    paths.insert(at, path)
    return at, lab.try_flow(replace(flow, files=files, values={**flow.values, "Files": paths}))


def remove_element(dice: Dice, lab: Lab, flow: Flow) -> Any:
    paths = [*flow.values["Files"]]
    if len(paths) < 2:
        return None
    gone = paths.pop(dice.number(0, len(paths) - 1))
    return gone, lab.try_flow(replace(flow, values={**flow.values, "Files": paths}))


def set_value(dice: Dice, lab: Lab, flow: Flow) -> Any:
    name = pick(dice, ["Title", "Num", "Flag", "Switches", "Words"])
    makers: dict[str, Callable[[], Any]] = {
        "Title": lambda: pick(dice, ["title", "other", "FAIL"]),
        "Num": lambda: dice.number(0, 3),
        "Flag": lambda: bool(dice.number(0, 1)),
        "Switches": lambda: [bool(dice.number(0, 1)) for _ in range(3)],
        "Words": lambda: list(WORDS[dice.number(0, 1) : dice.number(1, 4)]),
    }
    value = makers[name]()
    return name, value, lab.try_flow(replace(flow, values={**flow.values, name: value}))


def change_type(dice: Dice, lab: Lab, flow: Flow) -> Any:
    return not flow.texts, lab.try_flow(replace(flow, texts=not flow.texts))


def change_code(dice: Dice, lab: Lab, flow: Flow) -> Any:
    module = pick(dice, list(flow.versions))
    versions = {**flow.versions, module: dice.number(0, 2)}
    return versions, lab.try_flow(replace(flow, versions=versions))


def cosmetics(dice: Dice, lab: Lab, flow: Flow) -> Any:
    before = lab.plan().to_bytes()
    assert lab.try_flow(flow, style=dice.number(1, 1000))
    assert lab.plan().to_bytes() == before, "comments, layout and key order changed the plan"
    return lab.style


def some_job(dice: Dice, flow: Flow) -> Job:
    return pick(dice, list(flow.jobs.values()))


def swap_wiring(dice: Dice, lab: Lab, flow: Flow) -> Any:
    job = some_job(dice, flow)
    if len(job.with_) < 2:
        return None
    (a, first), (b, second), *rest = job.with_
    return job.name, lab.try_flow(flow.with_job(replace(job, with_=((a, second), (b, first), *rest))))


def remove_binding(dice: Dice, lab: Lab, flow: Flow) -> Any:
    job = some_job(dice, flow)
    entries = list(job.with_)
    if not entries:
        return None
    gone = entries.pop(dice.number(0, len(entries) - 1))
    return job.name, gone[0], lab.try_flow(flow.with_job(replace(job, with_=tuple(entries))))


def earlier(flow: Flow, job: Job) -> Flow:
    """The workflow as the job may see it: only the jobs before it, so that no circle comes about."""
    names = list(flow.jobs)
    return replace(flow, jobs={n: flow.jobs[n] for n in names[: names.index(job.name)]})


def change_binding(dice: Dice, lab: Lab, flow: Flow) -> Any:
    job = some_job(dice, flow)
    name = f"p{dice.number(0, 3)}"
    entries = {**dict(job.with_), name: new_term(dice, earlier(flow, job), job)}
    return job.name, name, lab.try_flow(flow.with_job(replace(job, with_=tuple(entries.items()))))


def change_fan_in(dice: Dice, lab: Lab, flow: Flow) -> Any:
    """From one to all, or from all to one: where there is only one, the content is the same and the shape is not."""
    job = some_job(dice, flow)
    for n, (name, term) in enumerate(job.with_):
        if isinstance(term, Out) and term.selectors and not term.leaf:
            chosen: tuple[Selector, ...]
            if any(isinstance(s, All) for s in term.selectors):
                target = rows(flow, flow.jobs[term.job])
                if not target:
                    return None
                chosen = tuple(At(i) for i in target[0])
            else:
                chosen = tuple(All() for _ in term.selectors)
            entries = [*job.with_]
            entries[n] = (name, replace(term, selectors=chosen))
            return job.name, name, lab.try_flow(flow.with_job(replace(job, with_=tuple(entries))))
    return None


def change_condition(dice: Dice, lab: Lab, flow: Flow) -> Any:
    job = some_job(dice, flow)
    condition = None if job.condition is not None and chance(dice, 2) else new_condition(dice, earlier(flow, job), job)
    return job.name, lab.try_flow(flow.with_job(replace(job, condition=condition)))


def change_outputs(dice: Dice, lab: Lab, flow: Flow) -> Any:
    """A path that moves, comes or goes; an output or leaf more or less."""
    job = some_job(dice, flow)
    outputs = list(job.outputs)
    n = dice.number(0, len(outputs) - 1)
    output = outputs[n]
    kind = dice.number(0, 3)
    if kind == 0:
        outputs[n] = replace(output, folder=pick(dice, ["out", "other"]))
    elif kind == 1:
        outputs[n] = replace(output, suffix=pick(dice, [None, ".txt", ".md", ".json", ""]))
    elif kind == 2:
        name = pick(dice, list(TYPES))
        if any(o.name == name for o in outputs):
            outputs = [o for o in outputs if o.name != name] or outputs
        else:
            outputs.append(new_output(dice, name, job.loops))
    else:
        outputs[n] = new_output(dice, output.name, job.loops)
    return job.name, lab.try_flow(flow.with_job(replace(job, outputs=tuple(outputs))))


def change_keys(dice: Dice, lab: Lab, flow: Flow) -> Any:
    job = some_job(dice, flow)
    kind = dice.number(0, 3)
    if kind == 0:
        names = list(flow.jobs)[: list(flow.jobs).index(job.name)]
        job = replace(job, needs=(pick(dice, names),) if names and not job.needs else ())
    elif kind == 1:
        job = replace(job, deterministic=not job.deterministic)
    elif kind == 2:
        job = replace(job, retries=1 - job.retries)
    else:
        job = replace(job, env=() if job.env else (("LAB", Literal(dice.number(0, 2))),))
    return job.name, lab.try_flow(flow.with_job(job))


def change_loops(dice: Dice, lab: Lab, flow: Flow) -> Any:
    name = pick(dice, ["i", "v", "r"])
    loop = {
        "i": lambda: Loop("count", dice.number(0, 3)),
        "v": lambda: Loop("values", tuple(reversed(WORDS[dice.number(0, 1) : dice.number(1, 4)]))),
        "r": lambda: Loop("range", (dice.number(0, 1), dice.number(1, 3))),
    }[name]()
    return name, lab.try_flow(replace(flow, loops={**flow.loops, name: loop}))


def remove_job(dice: Dice, lab: Lab, flow: Flow) -> Any:
    job = some_job(dice, flow)
    if len(flow.jobs) < 2:
        return None
    return job.name, lab.try_flow(replace(flow, jobs={n: j for n, j in flow.jobs.items() if n != job.name}))


def add_job(dice: Dice, lab: Lab, flow: Flow) -> Any:
    free = [f"J{n}" for n in range(8) if f"J{n}" not in flow.jobs]
    if not free:
        return None
    return free[0], lab.try_flow(flow.with_job(new_job(dice, flow, free[0])))


def published(lab: Lab) -> list[Any]:
    return sorted(p for folder in ("out", "other") for p in (lab.project / folder).rglob("*") if p.is_file())


def delete_published(dice: Dice, lab: Lab, flow: Flow) -> Any:
    files = published(lab)
    if not files:
        return None
    file = pick(dice, files)
    file.unlink()
    return file.name


def edit_published(dice: Dice, lab: Lab, flow: Flow) -> Any:
    files = published(lab)
    if not files:
        return None
    file = pick(dice, files)
    file.write_text("edited by hand\n", encoding="utf-8")
    return file.name


def blobs(lab: Lab) -> list[Any]:
    """Blobs of artifacts, by the log. (Snapshots and wide lists are evidence of runs and stay.)"""
    from oracle_judge import read_log

    found = {e["sha256"] for t in read_log(lab.runs) for e in t.outputs.values()}
    store = lab.project / ".whyrun" / "store"
    return sorted(p for sha in found if (p := store / sha[:2] / sha[2:]).is_file())


def delete_blob(dice: Dice, lab: Lab, flow: Flow) -> Any:
    files = blobs(lab)
    if not files:
        return None
    gone = [pick(dice, files) for _ in range(dice.number(1, 3))]
    for file in gone:
        file.unlink(missing_ok=True)
    return [f"{file.parent.name}{file.name}"[:12] for file in gone]


def lose_much(dice: Dice, lab: Lab, flow: Flow) -> Any:
    """Everything that is stored, or published, or both but for one."""
    kind = dice.number(0, 2)
    files = [*(blobs(lab) if kind != 1 else []), *(published(lab) if kind != 0 else [])]
    if files and kind == 2:
        files.remove(pick(dice, files))
    for file in files:
        file.unlink()
    return kind, len(files)


def lose_caches(dice: Dice, lab: Lab, flow: Flow) -> Any:
    lab.check_caches()
    return None


def tear_log(dice: Dice, lab: Lab, flow: Flow) -> Any:
    """The last run was killed: its log ends somewhere after its first line."""
    if not lab.runs:
        return None
    file = lab.runs[-1] / "events.jsonl"
    data = file.read_bytes()
    data = data[: data.rfind(b"\n") + 1]  # it may be torn already
    first = data.index(b"\n") + 1
    lines = data.count(b"\n")
    kept = dice.number(1, lines)
    end = first
    for _ in range(kept - 1):
        end = data.index(b"\n", end) + 1
    if end < len(data):
        end += dice.number(0, data.index(b"\n", end) - end)
    os.chmod(file, stat.S_IWUSR | stat.S_IRUSR)
    file.write_bytes(data[:end])
    (lab.runs[-1] / "status.json").unlink(missing_ok=True)
    # A kill is no power cut: what is there was synced, as the lock says. Else a repair would take blobs that other
    # changes have lost for what never reached the disk, and events of them for as good as none.
    run = lab.runs[-1].name
    said = {"pid": 1, "host": "", "started": "", "run": run, "synced": {"run": run, "seq": data[:end].count(b"\n")}}
    (lab.project / ".whyrun" / "lab" / "lock").write_text(json.dumps(said))
    return run, end


MUTATIONS = [
    edit_file,
    set_value,
    change_code,
    change_binding,
    remove_binding,
    swap_wiring,
    change_fan_in,
    change_condition,
    change_outputs,
    change_keys,
    change_loops,
    add_element,
    remove_element,
    delete_published,
    edit_published,
    delete_blob,
    lose_much,
    add_job,
    remove_job,
    cosmetics,
    lose_caches,
    tear_log,
    change_type,
]


# --- runs --------------------------------------------------------------------------------------------------------


def new_options(dice: Dice, flow: Flow) -> PlanOptions:
    steps = [job_id(n, row) for n, job in flow.jobs.items() for row in rows(flow, job)]
    if not steps or not chance(dice, 3):
        return PlanOptions()
    kind = dice.number(0, 4)
    up = dice.number(1, 2) if chance(dice, 3) else None
    step = pick(dice, steps)
    if kind == 0:
        return PlanOptions(up=dice.number(1, 3))
    if kind == 1:
        return PlanOptions(targets=(step,), up=up)
    if kind == 2:
        return PlanOptions(targets=(step,), force=(step,), up=up)
    return PlanOptions(force=(step if kind == 3 else "layer:0",), up=up)


def new_faults(dice: Dice, flow: Flow) -> Faults:
    order = dice.number(0, 1000)
    workers = dice.number(1, 3)
    if not chance(dice, 3):
        return Faults(order=order, workers=workers)
    steps = [job_id(n, row) for n, job in flow.jobs.items() for row in rows(flow, job)]
    kind = dice.number(0, 3)
    if kind == 0:
        return Faults(interrupt_at=dice.number(1, 5), order=order, workers=workers)
    if kind == 1:
        return Faults(crash_at=dice.number(1, 5), order=order, workers=workers)
    ends = {pick(dice, steps): (pick(dice, ["fail", "lost"]),) * dice.number(1, 2) for _ in range(2)} if steps else {}
    return Faults(steps=ends, order=order, workers=workers)
