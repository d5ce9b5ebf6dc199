#!/usr/bin/env bash
# Everything that a machine with a GPU is to show, in one command each, here and there:
#
#   tools/gpu_day.sh pack [--build build/release] [--out build/gpu_day] [--limit-mb 60] [--sanitizer WHEEL]
#     here: the programs (tools/pack_gpu.sh), data, the peers' source and, if given, NVIDIA's wheel of compute-sanitizer
#     (14 MB; pip download --no-deps 'nvidia-cuda-sanitizer-api<13.1'). Nothing can be fetched there.
#   build/gpu_day/gpu_day.sh run [--results FOLDER] [--seconds 480] [--part NAME]… [--small]
#     there: the parts that have not run yet, in order of value, until the time is up; call it again for the rest.
#     tools/gpu_day.py says what the parts are. FOLDER gets gpu.md (for docs/results/), figures.tsv and logs.tar.gz.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

pack() {
  cd "$here/.."
  local build=build/release out=build/gpu_day limit_mb=60 sanitizer="" programs=(bin/composer bin/composer_worker)
  while [ $# -gt 0 ]; do
    case $1 in
      --build) build=$2; shift 2 ;;
      --out) out=$2; shift 2 ;;
      --limit-mb) limit_mb=$2; shift 2 ;;
      --sanitizer) sanitizer=$2; shift 2 ;;
      *) echo "gpu_day.sh: unknown option $1 (see the head of the script)" >&2; exit 64 ;;
    esac
  done
  for test in nccl_test cuda_loader_test gpu_kernels_test gpu_attention_test; do [ -x "$build/tests/$test" ] && programs+=("tests/$test"); done
  tools/pack_gpu.sh --build "$build" --out "$out" --limit-mb "$limit_mb" "${programs[@]}"
  mkdir -p "$out/data"
  cp tools/gpu_day.sh tools/gpu_day.py benchmarks/peers/torch_gpu_gpt.py "$out/"
  # A text of 1 MB is enough for a loss curve; the pictures are the 10,000 of the test set.
  if [ -f .deps/data/kjv.txt ]; then head -c 1000000 .deps/data/kjv.txt >"$out/data/text.txt"; fi
  for part in images-idx3 labels-idx1; do
    local file=/usr/share/datasets/fashion-mnist/t10k-$part-ubyte.gz
    [ -f "$file" ] || continue
    cp "$file" "$out/data/train-$part-ubyte.gz"
  done
  [ -z "$sanitizer" ] || cp "$sanitizer" "$out/"
  local kilobytes
  kilobytes=$(du -sk "$out" | cut -f1)
  echo "$out: $((kilobytes / 1024)) MB with data; there: $(basename "$out")/gpu_day.sh run"
  [ "$kilobytes" -le $((limit_mb * 1024)) ] || { echo "gpu_day.sh: more than $limit_mb MB" >&2; exit 1; }
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
  pack) pack "$@" ;;
  run) exec python3 "$here/gpu_day.py" "$@" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
esac
