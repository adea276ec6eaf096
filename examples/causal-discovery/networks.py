"""Two small Bayesian networks that everybody knows. Every variable is `yes` or `no`.

asia: Lauritzen and Spiegelhalter, "Local computations with probabilities on graphical structures" (1988).
cancer: Korb and Nicholson, "Bayesian Artificial Intelligence" (2004).
"""

# Network → variable → (its parents, P(yes) for every combination of theirs). A variable comes after its parents;
# in a combination "yn" the first parent is yes and the second no.
NETWORKS: dict[str, dict[str, tuple[list[str], dict[str, float]]]] = {
    "asia": {
        "asia": ([], {"": 0.01}),
        "smoke": ([], {"": 0.5}),
        "tub": (["asia"], {"y": 0.05, "n": 0.01}),
        "lung": (["smoke"], {"y": 0.1, "n": 0.01}),
        "bronc": (["smoke"], {"y": 0.6, "n": 0.3}),
        "either": (["lung", "tub"], {"yy": 1.0, "yn": 1.0, "ny": 1.0, "nn": 0.0}),
        "xray": (["either"], {"y": 0.98, "n": 0.05}),
        "dysp": (["bronc", "either"], {"yy": 0.9, "yn": 0.8, "ny": 0.7, "nn": 0.1}),
    },
    "cancer": {
        "Pollution": ([], {"": 0.1}),  # high
        "Smoker": ([], {"": 0.3}),
        "Cancer": (["Pollution", "Smoker"], {"yy": 0.05, "yn": 0.02, "ny": 0.03, "nn": 0.001}),
        "Xray": (["Cancer"], {"y": 0.9, "n": 0.2}),
        "Dyspnoea": (["Cancer"], {"y": 0.65, "n": 0.3}),
    },
}
