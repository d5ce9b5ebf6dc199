"""Run by torchrun, 2 ranks on one host over Gloo: steps of a GPT (that of gpt.py, of the given shape) under one of
torch's ways to train on several ranks, with fused AdamW and float32.

Prints one JSON line on rank 0: the slower rank's milliseconds of each step after the first 5.
    torchrun --nproc_per_node 2 torch_fsdp.py fully_shard 4 128 4 64 4 40
        # way, layers, width, heads, context, samples per rank, steps
SPDX-License-Identifier: Apache-2.0
"""

import json
import sys
import time

import gpt
import torch
import torch.distributed as dist

WAY = sys.argv[1]
gpt.LAYERS, gpt.WIDTH, gpt.HEADS, gpt.CONTEXT, gpt.RANK_BATCH, STEPS = map(int, sys.argv[2:8])
WARM_UP = 5


def wrapped(model):
    if WAY == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if WAY in ("fully_shard", "zero2"):
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block, reshard_after_forward=WAY == "fully_shard")
        return fully_shard(model)
    if WAY == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({gpt.Block}),
                                        device_id=torch.device("cpu"))
    raise SystemExit(f"no way to train is called {WAY}")


torch.set_num_threads(1)
torch.manual_seed(17)
dist.init_process_group("gloo")
model = wrapped(gpt.Gpt())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
times = []
for _ in range(STEPS + WARM_UP):
    inputs, targets = gpt.random_batch(gpt.RANK_BATCH)
    begin = time.perf_counter()
    gpt.loss_of(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
    times.append(1e3 * (time.perf_counter() - begin))
slower = torch.tensor(times[WARM_UP:], dtype=torch.float64)
dist.all_reduce(slower, op=dist.ReduceOp.MAX)
if dist.get_rank() == 0:
    print(json.dumps({"way": WAY, "ms": slower.tolist()}), flush=True)
dist.destroy_process_group()
