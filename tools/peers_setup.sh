#!/usr/bin/env bash
# Installs the Python peers that benchmarks/ measures beside us, each in its own throw-away virtual environment outside
# the repository:
#   $COMPOSER_PEERS/torch211   torch 2.11.0 (torchrun), numpy, safetensors          4.6 GB; alone with the argument `torch211`
#   $COMPOSER_PEERS/mosaic     mosaicml 0.32.1 with the torch 2.7 it asks for       5.2 GB
#   $COMPOSER_PEERS/tokenizers   tokenizers, tiktoken, sentencepiece, gigatoken, only with the argument `tokenizers`, and then alone
#   $COMPOSER_PEERS/streaming, grain  mosaicml-streaming 0.13.0 and Grain, only with the argument `streaming`, and then alone
# The default of COMPOSER_PEERS is /tmp/composer-peers. Nothing of ours needs them to build, run or pass its tests.
# Safe to repeat: an environment whose stamp matches is left alone. About 80 s each; `import torch` needs the CUDA
# libraries of its wheel on a CPU machine too, so the full set is taken.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

readonly peers="${COMPOSER_PEERS:-/tmp/composer-peers}"
# torch's wheel is the same file as LibTorch's (tools/libtorch.txt), which is built for CPython 3.11.
readonly python="${PYTHON:-python3}"

fail() {
  echo "peers_setup: $*" >&2
  exit 1
}

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
  fail "$python is not Python 3.11; set PYTHON to one that is"
[[ "$(df --output=avail -BG "$(dirname "$peers")" | tail -1 | tr -dc 0-9)" -ge 12 ]] || [[ -d "$peers/mosaic" ]] ||
  fail "needs 12 GB of disk at $(dirname "$peers"); set COMPOSER_PEERS to a roomier folder"

# install NAME PACKAGE...: makes the environment unless its stamp says that it holds these packages.
install() {
  local name="$1"; shift
  local root="$peers/$name"
  if [[ "$(cat "$root/.stamp" 2>/dev/null)" == "$*" ]]; then
    echo "peers_setup: $name is there: $*"
    return
  fi
  local start=$SECONDS
  rm -f "$root/.stamp"
  [[ -x "$root/bin/pip" ]] || "$python" -m venv --clear "$root"
  "$root/bin/pip" install --quiet --disable-pip-version-check "$@"
  # Peers start with their byte code in place, whatever PIP_NO_COMPILE or PYTHONDONTWRITEBYTECODE say here: else every
  # start compiles again and we would flatter ourselves. (A few files of test data do not compile.)
  env -u PYTHONDONTWRITEBYTECODE "$root/bin/python" -m compileall -q -j 0 "$root/lib" >/dev/null 2>&1 || true
  echo "$*" >"$root/.stamp"
  echo "peers_setup: $name installed in $((SECONDS - start)) s: $*"
}

mkdir -p "$peers"
if [[ "${1:-}" == streaming ]]; then
  install streaming mosaicml-streaming==0.13.0 numpy==2.1.3
  install grain grain==0.2.18 numpy==2.4.6
  exit
fi
if [[ "${1:-}" == tokenizers ]]; then
  install tokenizers tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3 gigatoken==0.10.0
  exit
fi
install torch211 torch==2.11.0 numpy==2.2.6 safetensors==0.6.2 packaging==26.3
[[ "${1:-}" == torch211 ]] && exit
install mosaic mosaicml==0.32.1 numpy==2.2.6
"$peers/torch211/bin/python" -c '
import torch
assert torch.distributed.is_gloo_available()
print("peers_setup: torch", torch.__version__)'
"$peers/mosaic/bin/python" -c '
import composer, torch
print("peers_setup: mosaicml", composer.__version__, "torch", torch.__version__)' 2>/dev/null
