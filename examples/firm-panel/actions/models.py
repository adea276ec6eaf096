"""Two regressions of investment on q and controls. Both write the same table, so that what follows takes either."""

import csv
from pathlib import Path
from typing import Any

from whyrun import Action, File, Parameters

OUTCOME, REGRESSORS = "investment", ["q", "cash_flow", "leverage"]


class PooledOls(Action):
    """All firm-years alike, with an intercept for each group; heteroscedasticity-robust standard errors (HC1)."""

    name, version = "stats/ols", "1"
    outputs = {"fit": "dataset"}

    class Params(Parameters):
        primary_dataset: File
        group: str

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        import pandas
        import statsmodels.api as sm

        data = pandas.read_parquet(inputs["primary_dataset"]).dropna(subset=[OUTCOME, *REGRESSORS])
        groups = pandas.get_dummies(data[inputs["group"]], dtype=float)
        fit = sm.OLS(data[OUTCOME], data[REGRESSORS].join(groups)).fit(cov_type="HC1")
        write_fit(context.output("fit"), "pooled OLS", fit)
        context.metric("rsquared", fit.rsquared)


class FixedEffects(Action):
    """Within each entity: what never changes about a firm is taken out; standard errors clustered by firm."""

    name, version = "stats/fixed-effects", "1"
    outputs = {"fit": "dataset"}

    class Params(Parameters):
        primary_dataset: File
        entity: str

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        import pandas
        import statsmodels.api as sm

        data = pandas.read_parquet(inputs["primary_dataset"]).dropna(subset=[OUTCOME, *REGRESSORS])
        entity = data[inputs["entity"]]
        columns = data[[OUTCOME, *REGRESSORS]]
        within = columns - columns.groupby(entity).transform("mean")
        groups = entity.astype("category").cat.codes
        fit = sm.OLS(within[OUTCOME], within[REGRESSORS]).fit(cov_type="cluster", cov_kwds={"groups": groups})
        write_fit(context.output("fit"), "fixed effects", fit)
        context.metric("rsquared", fit.rsquared)


def write_fit(path: Path, model: str, fit: Any) -> None:
    bounds = fit.conf_int()
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("model", "variable", "coefficient", "std_error", "low", "high", "observations"))
        for variable in REGRESSORS:
            numbers = (fit.params[variable], fit.bse[variable], *bounds.loc[variable])
            rows.writerow((model, variable, *(f"{number:.6f}" for number in numbers), int(fit.nobs)))
