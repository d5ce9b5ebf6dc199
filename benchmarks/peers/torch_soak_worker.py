"""Run under torchrun: trains the small GPT until killed, saves every 20 steps, resumes from the newest save.

It has the usual shape of such a script: rank 0 writes with torch.save to a temporary name, fsyncs and renames; every
rank loads the file after a restart. Each rank appends "step unix_time pid restart" to $BENCH_OUT/steps.<rank> after
every step.
SPDX-License-Identifier: Apache-2.0
"""

import os
import time

import torch
import torch.distributed as dist
from gpt import Gpt, loss_of, random_batch

SAVE_INTERVAL = 20
FOLDER = os.environ["BENCH_OUT"]
CHECKPOINT = f"{FOLDER}/checkpoint.pt"


def save(step, model, optimizer):
    with open(f"{CHECKPOINT}.tmp", "wb") as out:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, out)
        out.flush()
        os.fsync(out.fileno())
    os.rename(f"{CHECKPOINT}.tmp", CHECKPOINT)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    step = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
    with open(f"{FOLDER}/steps.{dist.get_rank()}", "a", buffering=1) as progress:
        while True:
            ids, targets = random_batch()
            optimizer.zero_grad()
            loss_of(model(ids), targets).backward()
            optimizer.step()
            step += 1
            progress.write(f"{step} {time.time()!r} {os.getpid()} {restart}\n")
            if step % SAVE_INTERVAL == 0 and dist.get_rank() == 0:
                save(step, model, optimizer)


main()
