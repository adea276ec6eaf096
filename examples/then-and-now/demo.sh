#!/usr/bin/env bash
# Runs the example in a scratch copy and explains each step. Fails if a result is not as expected.
#
#   make demo                     in the top folder of the repository
#   bash demo.sh [SCRATCH]        with `whyrun` and Pillow installed
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=${1:-$(mktemp -d)}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold= dim= plain=; fi

say()  { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {  # show EXIT COMMAND…: print the command, run it, and check its exit status
  local expected=$1 got word line='$'; shift
  for word; do case $word in *[][*\ ]*) line+=" '$word'" ;; *) line+=" $word" ;; esac; done
  printf '%s%s%s\n' "$dim" "$line" "$plain"
  "$@" >"$output" 2>&1; got=$?
  cat "$output"
  [ "$got" = "$expected" ] || fail "exit status $got instead of $expected"
  [ "$expected" = 0 ] || printf '(exit status %s)\n' "$got"
}
expect()   { local text; for text; do grep -qF -- "$text" "$output" || fail "the output lacks: $text"; done; }
expect_no() { local text; for text; do ! grep -qF -- "$text" "$output" || fail "the output has: $text"; done; }
# lines N STATUS: exactly N lines are about a step with this status
lines()    { local n; n=$(grep -cE "^[0-9-]+ [0-9:]+ \[[^]]*\] $2 " "$output"); [ "$n" = "$1" ] || fail "$n × $2 instead of $1"; }
fail()     { printf '\nthe demo failed: %s\n' "$*" >&2; exit 1; }

command -v whyrun >/dev/null || fail "there is no \`whyrun\` command; try \`make demo\`"
rm -rf "$scratch/then-and-now" && mkdir -p "$scratch" && cp -r "$here" "$scratch/then-and-now" || exit 1
cd "$scratch/then-and-now" || exit 1
rm -rf .whyrun out demo.sh

say "Three photos, eight jobs: a script, one sepia print a photo, up to three film frames, one montage."
show 0 ls photos
show 0 whyrun plan
expect "then-and-now before its first run: 8 of 8 jobs to run"

say "Run it. The script asks for no transition in segment 1, so that frame is skipped."
show 0 whyrun run
expect "r0001 succeeded" "7 executed, 1 inactive"
lines 7 EXECUTES
lines 1 SKIPS
[ -s out/montage.png ] || fail "there is no out/montage.png"

say "Run it again: nothing to do."
show 0 whyrun run
expect "then-and-now after r0001: nothing to do"
[ ! -e .whyrun/then-and-now/runs/r0002 ] || fail "a run with nothing to do left a run folder"

say "A newer photo of Cleo. What runs again? Her print, and the montage that it is part of. Why?"
cp photos/cleo.png cleo-before.png
show 0 cp spare/cleo-later.png photos/cleo.png
show 0 whyrun explain
expect "2 of 8 jobs to run" "INPUT_CHANGED" "SourceImages[0] ← Input:ThenImages[2]" "UPSTREAM_DIRTY" "Job:ThenImage[2]"
expect_no "Job:ThenImage[0] " "Job:ThenImage[1] "
show 0 whyrun run
expect "r0002 succeeded" "2 executed" "Job:ThenImage[2]" "Job:Montage"
lines 2 EXECUTES

say "Ben's photo is damaged. His print fails, the montage is blocked, and the exit status says so."
printf 'not a photo\n' > photos/ben.png
printf '%s$ %s%s\n' "$dim" "printf 'not a photo\\n' > photos/ben.png" "$plain"
show 1 whyrun run
expect "FAILED Job:ThenImage[1]" "UnidentifiedImageError" "blocked by Job:ThenImage[1]" "r0003 failed"

say "Ben is scanned again. The plan retries the failed print, and runs the jobs that wait for it."
show 0 cp spare/ben-rescanned.png photos/ben.png
show 0 whyrun explain
expect "RETRY_PREVIOUS_FAILURE" "r0003 attempt 1: UnidentifiedImageError" "UPSTREAM_FAILED" "2 of 8 jobs to run"
show 0 whyrun run
expect "r0004 succeeded" "2 executed"
lines 2 EXECUTES

say "Cleo's first photo comes back. Her print was made in r0001, so it is reused."
show 0 cp cleo-before.png photos/cleo.png
show 0 whyrun run
expect "reused from r0001" "r0005 succeeded" "1 executed, 1 reused"
lines 1 EXECUTES

say "The log has a record of all this."
show 0 whyrun runs
expect r0001 r0002 r0003 r0004 r0005
show 0 whyrun why 'Job:ThenImage[1]' --at r0004
expect "RETRY_PREVIOUS_FAILURE"

say "Everything above, to look at: one file that opens in any browser, without a network."
show 0 whyrun report
[ -s report.html ] || fail "there is no report.html"

say "The montage: $scratch/then-and-now/out/montage.png"
say "The report:  $scratch/then-and-now/report.html"
