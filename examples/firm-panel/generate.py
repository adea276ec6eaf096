"""The data of the example: 400 firms over 10 years. The same files every time.

    python generate.py [--firm-effect 0.06]

Investment follows Tobin's q and cash flow, with coefficients that are known (`TRUE`). Firms differ: some always invest
more, and the market values these higher. Whoever ignores that blames q for it, which is what the condition of the
workflow is about. `--firm-effect 0` makes a world in which firms do not differ.
"""

import argparse
import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
FIRMS, YEARS = 400, range(2014, 2024)
TRUE = {"q": 0.03, "cash_flow": 0.20, "leverage": -0.05}
INDUSTRIES = {2834: "Pharmaceuticals", 3674: "Semiconductors", 3711: "Motor vehicles", 4911: "Electric power",
              5411: "Grocery stores", 7372: "Software"}  # fmt: skip
LABELS = {"q": "Tobin's q", "cash_flow": "Cash flow / assets", "leverage": "Debt / assets"}


def generate(folder: Path, firm_effect: float) -> None:
    chance = random.Random(f"firm-panel {firm_effect}")
    panel: list[Sequence[object]] = []
    controls: list[Sequence[object]] = []
    for firm in range(1, FIRMS + 1):
        firm_id, sic = f"F{firm:04d}", chance.choice(list(INDUSTRIES))
        effect = chance.gauss(0, firm_effect)
        for year in YEARS:
            q = 1.6 + 8 * effect + chance.gauss(0, 0.5)
            cash_flow = 0.08 + chance.gauss(0, 0.06)
            leverage = min(max(chance.gauss(0.30, 0.12), 0), 1)
            means = 0.02 + effect + TRUE["q"] * q + TRUE["cash_flow"] * cash_flow + TRUE["leverage"] * leverage
            investment = means + chance.gauss(0, 0.03)
            panel.append((firm_id, year, sic, f"{investment:.4f}", f"{q:.3f}"))
            if chance.random() < 0.02:
                continue  # a firm-year that the second file does not have
            gap = chance.random() < 0.03
            controls.append((firm_id, year, f"{cash_flow:.4f}", "" if gap else f"{leverage:.4f}"))
    controls += [(f"X{firm:04d}", year, "0.0500", "0.2500") for firm in range(1, 4) for year in YEARS]
    folder.mkdir(exist_ok=True)
    write(folder / "panel.csv", ("firm_id", "year", "sic", "investment", "q"), panel)
    write(folder / "controls.csv", ("firm_id", "year", "cash_flow", "leverage"), controls)
    write(folder / "industries.csv", ("sic", "industry"), INDUSTRIES.items())
    write(folder / "labels.csv", ("variable", "label"), LABELS.items())


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        lines.writerows(rows)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Write data/*.csv.")
    options.add_argument("--firm-effect", type=float, default=0.06, help="how much firms differ (standard deviation)")
    generate(HERE / "data", options.parse_args().firm_effect)
