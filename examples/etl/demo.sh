#!/usr/bin/env bash
# Runs the example in a scratch copy with its own two servers, and explains each step. Fails if a result is not as
# expected.
#
#   make example-etl              in the top folder of the repository
#   bash demo.sh [SCRATCH]        with `whyrun[data,db]`, MariaDB, PostgreSQL and (for the last part) bubblewrap installed
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=${1:-$(mktemp -d)}
output=$(mktemp)
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
# planned ID…: check that the plan has exactly these jobs
planned() {
  local due got
  due=$(printf '%s\n' "$@" | sort)
  got=$(whyrun plan --json | python3 -c 'import json, sys
for layer in json.load(sys.stdin)["layers"]: print(*layer, sep="\n")' | sort)
  [ "$due" = "$got" ] || fail "the plan is not as expected: $(diff <(echo "$due") <(echo "$got"))"
  printf '(the plan has exactly the expected jobs: %s)\n' "$#"
}
fail() { printf '\nthe demo failed: %s\n' "$*" >&2; exit 1; }
shop() { MYSQL_PWD=$SHOP_PASSWORD mariadb --no-defaults -h 127.0.0.1 -P "$SHOP_PORT" -u etl --default-character-set=utf8mb4 shop "$@"; }
warehouse() { PGPASSWORD=$WAREHOUSE_PASSWORD psql -X -h 127.0.0.1 -p "$WAREHOUSE_PORT" -U etl -d warehouse -c "$1"; }

command -v whyrun >/dev/null || fail "there is no \`whyrun\` command; try \`make example-etl\`"
rm -rf "$scratch/etl" && mkdir -p "$scratch" && cp -r "$here" "$scratch/etl" || exit 1
cd "$scratch/etl" || exit 1
rm -rf .whyrun work results demo.sh
trap 'python3 "$here/servers.py" stop "$scratch"; rm -f "$output"' EXIT

say "Two servers, started for this: a shop's MariaDB and a warehouse, PostgreSQL. Their passwords are only in the environment."
started=$(python3 "$here/servers.py" start "$scratch") || fail "the servers do not start"
eval "$started"
shop <seed.sql || fail "the shop cannot be filled"
show 0 cat connections.yaml
show 0 whyrun connections test
expect "@mysql.shop          ok       MariaDB" "@postgres.warehouse  ok       PostgreSQL"

say "Ten steps: two extracts and a file of rates, checked, joined, summed up; into the warehouse, into a file, and read back."
show 0 whyrun plan
expect "10 of 10 jobs to run"
show 0 whyrun run
expect "r0001 succeeded" "10 executed"
show 0 head -n 4 results/monthly.csv
expect "country;month;orders;revenue_eur" "DE;01/2024;148;"
show 0 cat results/warehouse.csv
show 0 warehouse "SELECT country, orders, euros FROM monthly WHERE month = '2024-01-01' ORDER BY country"
expect "(6 rows)"

say "How many rows went where: counted by the steps themselves."
show 0 grep -h -o '"metric":"rows_[a-z]*","value":[0-9.]*,"unit":"rows","step_id":"Job:[A-Za-z]*"' .whyrun/shop-to-warehouse/runs/r0001/metrics.jsonl
expect '"metric":"rows_read","value":4377.0,"unit":"rows","step_id":"Job:Orders"' \
       '"metric":"rows_written","value":4377.0,"unit":"rows","step_id":"Job:LoadSales"'

say "Nothing has changed, so there is nothing to do."
show 0 whyrun run
expect "nothing to do"

say "A rate is corrected. Only the jobs that depend on the rates run again; no rows are extracted again."
sed -i 's/^2024-03;USD;.*/2024-03;USD;0.930000/' data/rates.csv
show 0 whyrun explain
expect "INPUT_CHANGED" "data ← Input:RateTable"
planned Job:{Rates,Check,Sales,Monthly,LoadSales,LoadMonthly,Export,ReadBack}
show 0 whyrun run
expect "r0002 succeeded" "8 executed"

say "Another month. Only the orders are extracted again; the customers are up to date."
sed -i 's/default: "2024-06-01"/default: "2024-07-01"/' workflow.yaml
show 0 whyrun explain
expect "INPUT_CHANGED" "2024-07-01"
planned Job:{Orders,Check,Sales,Monthly,LoadSales,LoadMonthly,Export,ReadBack}
show 0 whyrun run
expect "r0003 succeeded" "8 executed"

say "Whyrun does not watch servers: it sees that a customer moved when you force the extract. Then downstream jobs run."
shop -e "UPDATE customers SET country = 'US' WHERE id = 6"
show 0 whyrun run
expect "nothing to do"
show 0 whyrun run --force Job:Customers
expect "r0004 succeeded" "7 executed"

say "Forced once more: the same rows give the same bytes, so nothing after the extract runs."
show 0 whyrun run --force Job:Customers
expect "r0005 succeeded" "1 executed"

say "The old rate was right. Its results are reused, but the warehouse is loaded again, because it has other rows."
cp "$here/data/rates.csv" data/rates.csv
sed -i 's/default: "2024-07-01"/default: "2024-06-01"/' workflow.yaml
shop -e "UPDATE customers SET country = 'DE' WHERE id = 6"
show 0 whyrun run --force Job:Customers
expect "r0006 succeeded" "EXECUTES Job:LoadSales" "EXECUTES Job:LoadMonthly" "SKIPS Job:Sales → outputs:" "SKIPS Job:Export → outputs:" "reused from r0001"

say "A table that does not fit is refused as a whole: the warehouse still has what it had."
before=$(warehouse "SELECT count(*), sum(euros) FROM sales")
cp workflow.yaml ../workflow.kept
sed -i -e 's/mode: replace/mode: append/' -e '/keys: /d' workflow.yaml
show 1 whyrun run
expect "LoadFailed: \`sales\` was not loaded, and nothing was changed: duplicate key value violates unique constraint" "(SQLSTATE 23505)"
[ "$before" = "$(warehouse "SELECT count(*), sum(euros) FROM sales")" ] || fail "the warehouse has changed"
mv ../workflow.kept workflow.yaml

say "No file contains a password."
grep -rqF -e "$SHOP_PASSWORD" -e "$WAREHOUSE_PASSWORD" . && fail "a password is in a file"
show 0 grep -o '"password":{[^}]*}' .whyrun/shop-to-warehouse/runs/r0001/cfg/Orders.json
expect '"password":{"$secret":"@mysql.shop.password"}'

if command -v bwrap >/dev/null; then
  say "The same in a sandbox, from an empty state, and locally, to compare. Only steps that declare network access reach a server."
  show 0 whyrun run --backend sandbox --state "$scratch/sandboxed"
  expect "r0001 succeeded" "10 executed"
  show 0 whyrun run --state "$scratch/here"
  expect "r0001 succeeded" "10 executed"
  show 0 whyrun parity "$scratch/here/shop-to-warehouse/runs/r0001" "$scratch/sandboxed/shop-to-warehouse/runs/r0001"
  expect "are equal"
else
  say "(bubblewrap is not installed: the part in the sandbox is left out.)"
fi

say "The results: $scratch/etl/results/monthly.csv and warehouse.csv"
