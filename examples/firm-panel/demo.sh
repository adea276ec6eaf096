#!/usr/bin/env bash
# Runs the example in a scratch copy and explains each step. Fails if a result is not as expected.
#
#   make example-panel            in the top folder of the repository
#   bash demo.sh [SCRATCH]        with `whyrun[data]` and requirements.txt installed
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=${1:-$(mktemp -d)}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold= dim= plain=; fi

say()  { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {  # show EXIT COMMAND…: print the command, run it, and check its exit status
  local expected=$1 got; shift
  printf '%s$ %s%s\n' "$dim" "$*" "$plain"
  "$@" >"$output" 2>&1; got=$?
  cat "$output"
  [ "$got" = "$expected" ] || fail "exit status $got instead of $expected"
  [ "$expected" = 0 ] || printf '(exit status %s)\n' "$got"
}
expect() { local text; for text; do grep -qF -- "$text" "$output" || fail "the output lacks: $text"; done; }
# planned ID…: check that the plan has exactly these jobs, for $plan
planned() {
  local due got
  due=$(printf '%s\n' "$@" | sort)
  got=$(whyrun plan "${plan[@]}" --json | python3 -c 'import json, sys
for layer in json.load(sys.stdin)["layers"]: print(*layer, sep="\n")' | sort)
  [ "$due" = "$got" ] || fail "the plan is not as expected: $(diff <(echo "$due") <(echo "$got"))"
  printf '(the plan has exactly the expected jobs: %s)\n' "$#"
}
fail() { printf '\nthe demo failed: %s\n' "$*" >&2; exit 1; }

command -v whyrun >/dev/null || fail "there is no \`whyrun\` command; try \`make example-panel\`"
rm -rf "$scratch/firm-panel" && mkdir -p "$scratch" && cp -r "$here" "$scratch/firm-panel" || exit 1
cd "$scratch/firm-panel" || exit 1
rm -rf .whyrun results demo.sh
manifest=(--manifest data/manifest.json)
plan=(firm-panel.json "${manifest[@]}")

say "400 firms over 10 years, controls in a second file, industries in a third, labels for the report."
show 0 python3 generate.py
show 0 head -n 3 data/panel.csv data/controls.csv data/industries.csv

say "The plan says which file goes where. It is checked before anything runs."
show 0 whyrun validate "${plan[@]}"
show 0 whyrun run "${plan[@]}"
expect "r0001 succeeded" "6 executed, 1 inactive"
show 0 cat results/table.md
expect "fixed effects, 3798 firm-years" "| Tobin's q | 0.0305 | (0.0010) |"
[ -s results/figure.png ] || fail "there is no results/figure.png"

say "How data moved: what each step read and wrote, how many rows matched, which branch ran and why."
show 0 whyrun show --composition r0001 "${plan[@]}"
expect "4000 rows and 3942 rows, 3912 matched, 88 and 30 unmatched, 4000 out" \
       "took Job:fixed_effects, skipped Job:pooled" "Artifact:diagnose.report.missing_share = 0.03625"

say "The same as a workflow file: one graph behind both. The results of the plan are up to date for it."
show 0 whyrun plan workflow.yaml
expect "firm-panel after r0001: nothing to do"

say "Changed labels affect only the table and the figure."
sed -i 's/Debt/Total debt/' data/labels.csv
show 0 whyrun explain "${plan[@]}"
expect "2 of 7 jobs to run" "INPUT_CHANGED" "auxiliary_data ← Input:labels"
planned Job:table Job:figure
show 0 whyrun run "${plan[@]}"
expect "r0002 succeeded" "2 executed"

say "An industry that no firm belongs to. The merge runs again with the same result, and nothing after it runs."
echo "6311,Life insurance" >>data/industries.csv
show 0 whyrun explain "${plan[@]}"
expect "secondary_dataset ← Input:industries"
planned Job:{add_industry,diagnose,fixed_effects,pooled,table,figure}
show 0 whyrun run "${plan[@]}"
expect "r0003 succeeded" "1 executed, 4 reused"

say "Two rows twice in the controls. The plan requires 1:1, so nothing is joined; the message has the counts and the keys."
cp data/controls.csv ../controls.kept
sed -n 2,3p data/controls.csv >>data/controls.csv
show 1 whyrun run "${plan[@]}"
expect "CardinalityViolated: \`cardinality: 1:1\` does not hold (found 1:m): 2 keys occur more than once in \`secondary_dataset\` (4 rows)" \
       "(firm_id=F0001, year=2014) 2 times" "1 failed, 6 blocked"
say "The summary of a failed run has everything that is known."
show 0 whyrun show --composition r0004 "${plan[@]}"
expect "Job:merge_controls  data/merge  failed" "4002 would be out: refused" "was not evaluated"

say "The old file is back: its results are reused, with their recorded decisions."
mv ../controls.kept data/controls.csv
show 0 whyrun run "${plan[@]}"
expect "r0005 succeeded" "1 reused, 1 inactive, 5 up to date"
show 0 whyrun show --composition r0005 "${plan[@]}"
expect "3912 matched, 88 and 30 unmatched, 4000 out (in r0001)"

say "Now the firms do not differ. The diagnostic detects this, and the other regression runs."
show 0 python3 generate.py --firm-effect 0
show 0 whyrun run "${plan[@]}"
expect "r0006 succeeded" "6 executed, 1 inactive" "SKIPS Job:fixed_effects → condition is false"
show 0 cat results/table.md
expect "pooled OLS, 3803 firm-years"

say "All four modes, on the same files."
for mode in sequential merge parallel conditional; do
  plan=("modes/$mode.json" "${manifest[@]}")
  show 0 whyrun run "${plan[@]}"
  expect "r0001 succeeded"
  show 0 whyrun show --composition r0001 "${plan[@]}"
  show 0 whyrun plan "${plan[@]}"
  expect "$mode after r0001: nothing to do"
done

say "The results: $scratch/firm-panel/results/table.md and figure.png"
