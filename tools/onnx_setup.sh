#!/usr/bin/env bash
# onnxruntime into .deps/onnx (a virtual environment): what tests/trainer/export/onnx_export_test.cc compares with:
# COMPOSER_ONNXRUNTIME=.deps/onnx/bin/python build/release/tests/onnx_export_test
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
venv=.deps/onnx
[ -d "$venv/lib" ] && exit 0
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check 'onnxruntime==1.32.0'
