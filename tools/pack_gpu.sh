#!/usr/bin/env bash
# Packs built programs and the shared libraries that they need, but torch's and libc's, into one folder, to run them on a
# machine with GPUs that has the same torch and nothing else:
#
#   tools/pack_gpu.sh [--build build/release] [--out build/gpu] [--limit-mb 60] [PROGRAM…]
#
# PROGRAM: a path below the build folder; default: the workers and all tests labelled `gpu` that are built. Debug
# information is stripped. There:  TORCH_LIB=/path/to/site-packages/torch/lib gpu/run bin/composer_worker --help
#                                  gpu/run gpu-tests          runs all packed tests
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

build=build/release out=build/gpu limit_mb=60
programs=()
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --limit-mb) limit_mb=$2; shift 2 ;;
    -*) echo "pack_gpu.sh: unknown option $1 (see the head of the script)" >&2; exit 64 ;;
    *) programs+=("$1"); shift ;;
  esac
done
if [ ${#programs[@]} = 0 ]; then
  programs=(bin/composer bin/composer_worker)
  for test in tests/nccl_test tests/cuda_loader_test tests/gpu_kernels_test tests/gpu_attention_test; do [ -x "$build/$test" ] && programs+=("$test"); done
fi
for program in "${programs[@]}"; do
  [ -x "$build/$program" ] || { echo "pack_gpu.sh: $build/$program is not built" >&2; exit 64; }
done
[ -f "$build/lib/composer_cuda.so" ] || { echo "pack_gpu.sh: $build/lib/composer_cuda.so is not built" >&2; exit 64; }

# name => path, of everything that is neither the kernel's, libc's, nor torch's (with the wheels it needs).
needed_libraries() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/torch/lib/|/nvidia/|/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' || true
}

# ICU's data are 30 MB of tables for tokenizers, which no check of a GPU uses; what is packed has a table of no items.
# The layout is that of unicode/udata.h and of a "ToCP" package.
empty_icu_data() {
  c++ -x c++ -shared -fPIC -o "$out/lib/$1" - <<CODE
#include <cstdint>
extern "C" {
extern const struct {
  uint16_t header_size;
  uint8_t magic[2];
  uint16_t info_size, reserved;
  uint8_t is_big_endian, charset_family, size_of_uchar, reserved_byte, format[4], format_version[4], data_version[4];
  char padding[8];
  uint32_t count;
} icudt${1##*.}_dat;
decltype(icudt${1##*.}_dat) icudt${1##*.}_dat = {
    32, {0xda, 0x27}, 20, 0, 0, 0, 2, 0, {'T', 'o', 'C', 'P'}, {1, 0, 0, 0}, {}, {}, 0};
}
CODE
}

rm -rf "$out"
mkdir -p "$out/bin" "$out/tests" "$out/lib"
for program in "${programs[@]}"; do
  strip -o "$out/$program" "$build/$program"
done
strip -o "$out/lib/composer_cuda.so" "$build/lib/composer_cuda.so"
needed_libraries "${programs[@]/#/$build/}" | while read -r library; do
  case $library in
    */libicudata.so.*) empty_icu_data "$(basename "$library")" ;;
    *) cp -L "$library" "$out/lib/$(basename "$library")" ;;
  esac
done

cat >"$out/run" <<'RUN'
#!/bin/sh
# run PROGRAM [ARGUMENT…], with the packed libraries and those of torch: $TORCH_LIB, or what python3 finds.
# run gpu-tests: all packed tests, one after the other.
here=$(dirname "$(readlink -f "$0")")
: "${TORCH_LIB:=$(python3 -c 'import importlib.util as u, os; print(os.path.join(os.path.dirname(u.find_spec("torch").origin), "lib"))' 2>/dev/null)}"
if [ ! -e "$TORCH_LIB/libtorch_cpu.so" ]; then
  echo "run: no libtorch_cpu.so in \"$TORCH_LIB\": set TORCH_LIB to site-packages/torch/lib" >&2
  exit 64
fi
export LD_LIBRARY_PATH="$here/lib:$TORCH_LIB"
if [ "$1" = gpu-tests ]; then
  failed=0
  for test in "$here"/tests/*; do "$test" || failed=1; done
  exit $failed
fi
program=$1
shift
case $program in /*) ;; *) program=$here/$program ;; esac
exec "$program" "$@"
RUN
chmod +x "$out/run"

kilobytes=$(du -sk "$out" | cut -f1)
echo "$out: $((kilobytes / 1024)) MB, $(find "$out/lib" -type f | wc -l) libraries, ${#programs[@]} programs"
if [ "$kilobytes" -gt $((limit_mb * 1024)) ]; then
  echo "pack_gpu.sh: more than $limit_mb MB" >&2
  exit 1
fi
