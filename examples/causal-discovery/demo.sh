#!/usr/bin/env bash
# Runs the example in a scratch copy and explains each step. Fails if a result is not as expected.
#
#   make example-causal           in the top folder of the repository
#   bash demo.sh [SCRATCH]        with `whyrun` and requirements.txt installed
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=${1:-$(mktemp -d)}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold= dim= plain=; fi

say()  { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {  # show EXIT COMMAND…: print the command, run it, and check its exit status; long output is shown in part
  local expected=$1 got word line='$'; shift
  for word; do case $word in *[][*\ ]*) line+=" '$word'" ;; *) line+=" $word" ;; esac; done
  printf '%s%s%s\n' "$dim" "$line" "$plain"
  "$@" >"$output" 2>&1; got=$?
  if [ "$(wc -l <"$output")" -le 16 ]; then cat "$output"; else
    head -n 6 "$output"; printf '%s… %s lines …%s\n' "$dim" "$(($(wc -l <"$output") - 12))" "$plain"; tail -n 6 "$output"; fi
  [ "$got" = "$expected" ] || { tail -n 20 "$output" >&2; fail "exit status $got instead of $expected"; }
  [ "$expected" = 0 ] || printf '(exit status %s)\n' "$got"
}
edit() {  # edit FILE OLD NEW: replace a text that occurs once
  printf '%s$ edit %s: %s → %s%s\n' "$dim" "$1" "$2" "$3" "$plain"
  [ "$(grep -cF -- "$2" "$1")" = 1 ] || fail "$1 does not have this line once: $2"
  local text; text=$(<"$1"); printf '%s\n' "${text/"$2"/"$3"}" >"$1"
}
expect() { local text; for text; do grep -qF -- "$text" "$output" || fail "the output lacks: $text"; done; }
# lines N STATUS: exactly N lines are about a step with this status
lines()  { local n; n=$(grep -cE "^[0-9-]+ [0-9:]+ \[[^]]*\] $2 " "$output"); [ "$n" = "$1" ] || fail "$n × $2 instead of $1"; }
# planned ID…: check that the plan has exactly these jobs
planned() {
  local due got
  due=$(printf '%s\n' "$@" | sort)
  got=$(whyrun plan --json | python3 -c 'import json, sys
for layer in json.load(sys.stdin)["layers"]: print(*layer, sep="\n")' | sort)
  [ "$due" = "$got" ] || fail "the plan is not as expected: $(diff <(echo "$due") <(echo "$got"))"
  printf '(the plan has exactly the expected jobs: %s)\n' "$#"
}
fail()   { printf '\nthe demo failed: %s\n' "$*" >&2; exit 1; }

command -v whyrun >/dev/null || fail "there is no \`whyrun\` command; try \`make example-causal\`"
rm -rf "$scratch/causal-discovery" && mkdir -p "$scratch" && cp -r "$here" "$scratch/causal-discovery" || exit 1
cd "$scratch/causal-discovery" || exit 1
rm -rf .whyrun data results demo.sh

say "2 networks × 3 algorithms × 2 sample sizes × 5 seeds, in one file: 158 jobs."
show 0 whyrun plan
expect "causal-discovery before its first run: 158 of 158 jobs to run"
show 0 whyrun run
expect "r0001 succeeded" "158 executed"
show 0 cat results/summary.csv
[ -s results/summary.png ] || fail "there is no results/summary.png"

say "Again: nothing to do."
show 0 whyrun run
expect "causal-discovery after r0001: nothing to do"

say "One more seed. Only its jobs run, and the jobs that read all seeds; no graph is learned twice."
edit workflow.yaml "default: [0, 1, 2, 3, 4]}" "default: [0, 1, 2, 3, 4, 5]}"
show 0 whyrun explain
expect "44 of 186 jobs to run"
planned Job:sample[{asia,cancer}][{100,1000}][5] \
        Job:{learn,evaluate}[{asia,cancer}][{pc,hc,miic}][{100,1000}][5] \
        Job:merge[{asia,cancer}][{pc,hc,miic}][{100,1000}] Job:best[{asia,cancer}] Job:summary Job:plot
show 0 whyrun run
expect "r0002 succeeded" "44 executed"

say "A stricter level for PC. The other algorithms do not read it."
edit workflow.yaml "default: 0.05" "default: 0.01"
show 0 whyrun explain
expect "56 of 186 jobs to run" "INPUT_CHANGED" "0.05 → 0.01" "Input:learn[asia][pc][100][0].with.alpha"
planned Job:{learn,evaluate}[{asia,cancer}][pc][{100,1000}][{0..5}] \
        Job:merge[{asia,cancer}][pc][{100,1000}] Job:best[{asia,cancer}] Job:summary Job:plot
say "If a graph is the same as before, the jobs that depend on it do not run again."
show 0 whyrun run
expect "r0003 succeeded" "reused"
show 0 whyrun plan
expect "nothing to do"

say "An invalid level is refused before anything runs."
show 2 whyrun run --set Alpha=1.5
expect "error[INVALID_PARAMETER]" "\`alpha\` is 1.5; it takes a number > 0 and < 1"

say "All 72 evaluations share one file, each with its own section. We delete one section."
section="evaluate[asia][miic][1000][3]"
show 0 python3 -c "import json, pathlib
file = pathlib.Path('results/metadata.json')
sections = json.loads(file.read_text())
print(len(sections), 'sections; this one goes:', sections.pop('$section'))
file.write_text(json.dumps(sections))"
expect "72 sections; this one goes: {'added': "
show 0 whyrun explain
expect "MISSING_OUTPUT" "results/metadata.json"
planned "Job:$section"
show 0 whyrun run
expect "reused from r0001" "1 reused"

say "A new release of a library has another default: PC tests independence differently. Which edges change?"
edit actions/learn.py 'INDEPENDENCE_TEST = "chi2"' 'INDEPENDENCE_TEST = "g2"'
show 1 whyrun compare 'Job:learn[*][*][*][*]'
lines 64 IDENTICAL
lines 8 DIFFERENT
printf '\n'; grep DIFFERENT "$output"
expect "edge changes)" "edge added: " "edge removed: "
say "Comparing changed nothing. With the old test, everything is up to date."
edit actions/learn.py 'INDEPENDENCE_TEST = "g2"' 'INDEPENDENCE_TEST = "chi2"'
show 0 whyrun plan
expect "nothing to do, 186 of 186 jobs up to date"

say "The results: $scratch/causal-discovery/results/summary.csv and summary.png"
