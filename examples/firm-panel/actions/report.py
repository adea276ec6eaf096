"""What a reader gets: a table and a figure of whichever regression ran."""

import csv
from pathlib import Path
from typing import Any

from whyrun import Action, File, Parameters


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Table(Action):
    """The coefficients with their labels, as CSV for programs and as Markdown for people."""

    name, version = "report/table", "1"
    outputs = {"table": "dataset", "report": "text"}

    class Params(Parameters):
        primary_dataset: File
        auxiliary_data: File

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        labels = {row["variable"]: row["label"] for row in read_rows(inputs["auxiliary_data"])}
        rows = [{"label": labels[row["variable"]], **row} for row in read_rows(inputs["primary_dataset"])]
        with context.output("table").open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        lines = [f"Investment / assets, {rows[0]['model']}, {rows[0]['observations']} firm-years", ""]
        lines += ["| | coefficient | standard error |", "|---|---:|---:|"]
        lines += [f"| {r['label']} | {float(r['coefficient']):.4f} | ({float(r['std_error']):.4f}) |" for r in rows]
        context.output("report").write_text("\n".join(lines) + "\n", encoding="utf-8")


class Figure(Action):
    """The coefficients with their 95 % intervals."""

    name, version = "report/figure", "1"
    outputs = {"figure": "image"}

    class Params(Parameters):
        primary_dataset: File

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot

        rows = read_rows(inputs["primary_dataset"])[::-1]
        middle = [float(row["coefficient"]) for row in rows]
        around = [[m - float(row["low"]) for m, row in zip(middle, rows, strict=True)],
                  [float(row["high"]) - m for m, row in zip(middle, rows, strict=True)]]  # fmt: skip
        figure, axes = pyplot.subplots(figsize=(6, 2.4), layout="constrained")
        axes.errorbar(middle, range(len(rows)), xerr=around, fmt="o", capsize=3)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.margins(y=0.25)
        axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
        axes.set_title(f"Investment / assets: {rows[0]['model']}")
        figure.savefig(context.output("figure"), format="png", dpi=120, metadata={"Software": None})
        pyplot.close(figure)
