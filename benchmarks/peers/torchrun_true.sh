#!/usr/bin/env bash
# torchrun_true.sh {torchrun|composer} N: starts N times `true` with a Python launcher; the driver times exec to exit.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
readonly peers="${COMPOSER_PEERS:-/tmp/composer-peers}"
readonly port="${BENCH_PORT:-29500}"
case "$1" in
  torchrun) exec "$peers/torch211/bin/torchrun" --master-port "$port" --nproc-per-node "$2" --no-python true ;;
  composer) exec "$peers/mosaic/bin/composer" --master_port "$port" -n "$2" -c true ;;
  *) echo "torchrun_true.sh: unknown launcher '$1' (torchrun or composer)" >&2; exit 64 ;;
esac
