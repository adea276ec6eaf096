"""Learn a graph from data, with pyAgrum."""

import csv
from typing import Annotated, Any, Literal

import pyagrum as gum
from equivalence import essential_edges, mixed_edges
from graphs import Edge, Graph, write_graphml

from whyrun import Action, File, Meta, Parameters

# How PC tests independence: "chi2" or "g2". Libraries differ in such defaults, and so do their releases; change it here
# and see what `whyrun compare` says.
INDEPENDENCE_TEST = "chi2"
OWN_PARAMETER = {"pc": "alpha", "hc": "max_parents", "miic": "correction"}


class LearnGraph(Action):
    """PC (independence tests), hill climbing (a score) or MIIC (information theory), on a table of yes and no."""

    name, version = "causal-discovery", "1"
    outputs = {"graph": "file"}

    class Params(Parameters):
        data: File
        network: str
        algorithm: Literal["pc", "hc", "miic"]
        size: int
        seed: int
        alpha: Annotated[float, Meta(gt=0, lt=1)] | None = None  # pc: the level of its tests
        max_parents: Annotated[int, Meta(ge=1)] | None = None  # hc: how many a variable may have
        correction: Literal["mdl", "nml", "none"] | None = None  # miic: for small samples

        def __post_init__(self) -> None:
            own = OWN_PARAMETER[self.algorithm]
            if getattr(self, own) is None:
                raise ValueError(f"the algorithm `{self.algorithm}` needs `{own}`")

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        data = inputs["data"]
        with data.open(encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file))
        gum.setNumberOfThreads(1)  # whyrun runs many steps side by side; each takes one core
        learner = gum.BNLearner(str(data), _binary(columns))
        edges = LEARN[inputs["algorithm"]](learner, columns, inputs)
        context.metric("edges", len(edges))
        about = {name: inputs[name] for name in ("network", "algorithm", "size", "seed")}
        write_graphml(Graph.of(columns, edges, about), context.output("graph"))

    def estimate_runtime(self, inputs: dict[str, Any]) -> float:
        return 0.02 + 1e-5 * inputs["size"]


def _binary(columns: list[str]) -> gum.BayesNet:
    """Says that every column may be yes or no: in a small sample a rare `yes` may not occur."""
    template = gum.BayesNet()
    for column in columns:
        template.add(gum.LabelizedVariable(column, column, ["no", "yes"]))
    return template


def _pc(learner: gum.BNLearner, columns: list[str], given: dict[str, Any]) -> list[Edge]:
    learner.usePC()
    {"chi2": learner.useChi2Test, "g2": learner.useG2Test}[INDEPENDENCE_TEST]()
    learner.setPCAlpha(given["alpha"])
    return mixed_edges(learner.learnPDAG(), columns)


def _hill_climbing(learner: gum.BNLearner, columns: list[str], given: dict[str, Any]) -> list[Edge]:
    learner.useGreedyHillClimbing()
    learner.useScoreBIC()
    learner.setMaxIndegree(given["max_parents"])
    arcs = learner.learnDAG().arcs()
    return essential_edges(columns, [(columns[a], columns[b]) for a, b in arcs])


def _miic(learner: gum.BNLearner, columns: list[str], given: dict[str, Any]) -> list[Edge]:
    learner.useMIIC()
    corrections = {"mdl": learner.useMDLCorrection, "nml": learner.useNMLCorrection, "none": learner.useNoCorrection}
    corrections[given["correction"]]()
    return mixed_edges(learner.learnPDAG(), columns)


LEARN = {"pc": _pc, "hc": _hill_climbing, "miic": _miic}
