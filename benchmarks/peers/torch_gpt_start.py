"""Run under torchrun: one optimizer step of the small GPT with DDP over Gloo, then writes the unix time to a file.

Each rank writes $BENCH_OUT/first_step.<rank>; the driver takes the latest rank.
SPDX-License-Identifier: Apache-2.0
"""

import os
import time

import torch
import torch.distributed as dist
from gpt import Gpt, loss_of, random_batch

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(Gpt())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
ids, targets = random_batch()
loss_of(model(ids), targets).backward()
optimizer.step()
with open(f"{os.environ['BENCH_OUT']}/first_step.{dist.get_rank()}", "w") as out:
    out.write(repr(time.time()))
dist.destroy_process_group()
