#!/usr/bin/env bash
# ./dev fuzz [SECONDS]: every libFuzzer target, each for a minute or SECONDS, from the seeds in tests/fuzz/seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset asan -B build/fuzz -DCOMPOSER_FUZZ=ON >/dev/null
targets=$(cd tests/fuzz && ls ./*_fuzz.cc | sed 's|./||; s|\.cc$||')
if ! ninja -C build/fuzz -t query table_fuzz >/dev/null 2>&1; then
  echo "== table_fuzz: left out, there is no Apache Arrow (./dev setup)"
  targets=${targets//table_fuzz/}
fi
# shellcheck disable=SC2086
ninja -C build/fuzz $targets
failed=
for target in $targets; do
  echo "== $target, $seconds s"
  corpus=$(mktemp -d)
  seeds=tests/fuzz/seeds/${target%_fuzz}
  if [ -d "$seeds" ]; then cp "$seeds"/* "$corpus"; fi
  "build/fuzz/fuzz/$target" -max_total_time="$seconds" -print_final_stats=1 "$corpus" >"$corpus.log" 2>&1 || failed="$failed $target"
  grep -E '==ERROR|SUMMARY|Test unit written|stat::number_of_executed_units|Done' "$corpus.log" || tail "$corpus.log"
  rm -rf "$corpus" "$corpus.log"
done
[ -z "$failed" ] || { echo "found something:$failed" >&2; exit 1; }
