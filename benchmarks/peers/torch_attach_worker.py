"""Run under torchrun: reports that it is attached (its pid, in $BENCH_OUT/attached.<attempt>.<rank>), and waits to be
killed.
SPDX-License-Identifier: Apache-2.0
"""

import os
import time

import torch.distributed  # noqa: F401  what every such script starts with

path = f"{os.environ['BENCH_OUT']}/attached.{os.environ['TORCHELASTIC_RESTART_COUNT']}.{os.environ['RANK']}"
with open(path + ".tmp", "w") as out:
    out.write(str(os.getpid()))
os.rename(path + ".tmp", path)
time.sleep(1000)
