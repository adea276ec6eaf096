"""The results as a table and as a picture."""

import csv
from statistics import fmean
from typing import Any

from whyrun import Action, File, Parameters

COLUMNS = ("network", "algorithm", "size", "seeds", "shd", "shd_min", "shd_max", "precision", "recall", "f1", "best")


class Summarise(Action):
    """One row for every network, algorithm and sample size, over all seeds."""

    name, version = "report/table", "1"
    outputs = {"table": "file"}

    class Params(Parameters):
        scores: list[dict[str, Any]]
        choices: list[dict[str, Any]]

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for entry in inputs["scores"]:
            groups.setdefault(_group(entry), []).append(entry)
        best = {_group(choice) for choice in inputs["choices"]}
        with context.output("table").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            for group, entries in groups.items():
                shd = [entry["shd"] for entry in entries]
                means = (f"{fmean(entry[name] for entry in entries):.3f}" for name in ("precision", "recall", "f1"))
                shown = "best" if group in best else ""
                rows.writerow([*group, len(entries), f"{fmean(shd):.2f}", min(shd), max(shd), *means, shown])


class Plot(Action):
    """The distance from the truth: for every algorithm and sample size a bar, and the range over the seeds."""

    name, version = "report/plot", "1"
    outputs = {"picture": "image"}

    class Params(Parameters):
        table: File

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        import matplotlib

        matplotlib.use("agg")  # a file, on machines without a screen too
        from matplotlib.figure import Figure

        with inputs["table"].open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        networks, algorithms, sizes = (list(dict.fromkeys(row[name] for row in rows)) for name in COLUMNS[:3])
        figure = Figure(figsize=(3.4 * len(networks), 3.0), dpi=100, layout="constrained")
        panels = figure.subplots(1, len(networks), squeeze=False)[0]
        width = 0.8 / len(sizes)
        for network, axes in zip(networks, panels, strict=True):
            for number, size in enumerate(sizes):
                shown = [row for row in rows if (row["network"], row["size"]) == (network, size)]
                places = [algorithms.index(row["algorithm"]) + (number - (len(sizes) - 1) / 2) * width for row in shown]
                means = [float(row["shd"]) for row in shown]
                below = [mean - float(row["shd_min"]) for mean, row in zip(means, shown, strict=True)]
                above = [float(row["shd_max"]) - mean for mean, row in zip(means, shown, strict=True)]
                axes.bar(places, means, width, yerr=[below, above], capsize=3, label=f"{size} rows", alpha=0.85)
                for place, row in zip(places, shown, strict=True):
                    if row["best"]:
                        axes.annotate("best", (place, 0), ha="center", va="bottom", fontsize=7, color="white")
            axes.set_title(network)
            axes.set_xticks(range(len(algorithms)), algorithms)
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("structural Hamming distance")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(sizes), frameon=False)
        figure.savefig(context.output("picture"), format="png", metadata={"Software": None})


def _group(entry: dict[str, Any]) -> tuple[str, str, int]:
    return entry["network"], entry["algorithm"], entry["size"]
