"""Where the data comes from: the true networks, and samples of them."""

import csv
import random
from typing import Annotated, Any, Literal

from equivalence import essential_edges
from graphs import Graph, write_graphml
from networks import NETWORKS

from whyrun import Action, Meta, Parameters


class ReadNetwork(Action):
    """A network by its name: its probabilities, and the graph that perfect learning would find."""

    name, version = "network/read", "1"
    outputs = {"model": "json", "truth": "file"}

    class Params(Parameters):
        network: Literal["asia", "cancer"]

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> dict:
        variables = NETWORKS[inputs["network"]]
        arcs = [(parent, child) for child, (parents, _) in variables.items() for parent in parents]
        truth = Graph.of(variables, essential_edges(variables, arcs), {"network": inputs["network"]})
        write_graphml(truth, context.output("truth"))
        model = [{"name": name, "parents": parents, "yes": yes} for name, (parents, yes) in variables.items()]
        return {"model": {"network": inputs["network"], "variables": model}}


class SampleNetwork(Action):
    """Independent draws from a network, one a row. The same seed gives the same rows on every machine."""

    name, version = "network/sample", "1"
    outputs = {"data": "file"}
    deterministic = True

    class Params(Parameters):
        model: dict[str, Any]
        size: Annotated[int, Meta(ge=1, description="rows")]
        seed: int

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        model = inputs["model"]
        chance = random.Random(f"{model['network']} {inputs['size']} {inputs['seed']}")
        with context.output("data").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(variable["name"] for variable in model["variables"])
            for _ in range(inputs["size"]):
                rows.writerow("yes" if is_yes else "no" for is_yes in _draw(model["variables"], chance))

    def estimate_runtime(self, inputs: dict[str, Any]) -> float:
        return 0.01 + 1e-5 * inputs["size"]


def _draw(variables: list[dict[str, Any]], chance: random.Random) -> list[bool]:
    drawn: dict[str, bool] = {}
    for variable in variables:
        parents = "".join("y" if drawn[parent] else "n" for parent in variable["parents"])
        drawn[variable["name"]] = chance.random() < variable["yes"][parents]
    return list(drawn.values())
