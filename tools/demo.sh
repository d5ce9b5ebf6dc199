#!/usr/bin/env bash
# ./dev demo: trains Fashion-MNIST on two ranks, kills one of them with SIGKILL on the way, and lets the launcher recover.
set -euo pipefail
cd "$(dirname "$0")/.."
run=$PWD/runs/demo
rm -rf "$run"

# Once batch 300 is done, kill rank 1 as the kernel's OOM killer would.
kill_rank_1() {
  until [ -f "$run/metrics.jsonl" ] && [ "$(wc -l <"$run/metrics.jsonl")" -ge 300 ]; do sleep 0.1; done
  for pid in $(pgrep -f "composer_worker.*$run"); do
    if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx RANK=1; then
      printf '\n\n--- demo: kill -9 rank 1 (pid %s) ---\n' "$pid" >&2
      kill -9 "$pid"
      return
    fi
  done
}

kill_rank_1 &
killer=$!
trap 'kill $killer 2>/dev/null || true' EXIT
build/release/bin/composer -n 2 examples/fashion/train.yaml run_name=demo run_folder="$run"

cat >&2 <<TEXT

What to try next
  build/release/bin/composer checkpoint show runs/demo/checkpoints      what a checkpoint holds
  build/release/bin/composer checkpoint verify runs/demo/checkpoints    re-read every checksum
  build/release/bin/composer -n 2 examples/gpt-text/train.yaml          a small GPT on 4 MB of English
  build/release/bin/composer -n 2 examples/gpt-text/train.yaml max_duration=800ba     go on from where it ended
  less runs/demo/metrics.jsonl runs/demo/summary.json                   every step, and how the run went
TEXT
