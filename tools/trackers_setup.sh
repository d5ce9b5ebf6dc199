#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the trackers that tests/integration/trackers_test.py compares with (900 MB) into FOLDER, which the test finds
# as COMPOSER_TRACKERS.   tools/trackers_setup.sh [FOLDER]
set -eu
folder=${1:-/tmp/composer-peers/trackers}
python3 -m venv "$folder"
"$folder/bin/pip" install -q mlflow==3.17.2 wandb==0.31.0 comet_ml==3.58.8
