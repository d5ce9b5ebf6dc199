#!/usr/bin/env python3
"""Saves and loads TENSORS float tensors like checkpoint_speed, but with torch's and Hugging Face's tools. Prints times
as JSON.

    checkpoint_times.py torch_save|safetensors|dcp|dcp_async FOLDER TENSORS BYTES_A_TENSOR REPEATS

Every save is synced to the disk. A save of dcp_async is timed twice: `stall` until async_save returns, `save` until its
future is done. Before the first repeat a hundred of the tensors are saved and loaded, uncounted. Loads go where the
library puts them by default: torch.load and safetensors make new tensors, DCP fills existing ones. Run it with the
`torch211` environment of tools/peers_setup.sh. One rank, one thread.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import resource
import shutil
import sys
import time
import warnings

import torch
import torch.distributed as dist


def synced(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


class TorchSave:
    def save(self, state, folder):
        folder.mkdir()
        torch.save(state, folder / "x.pt")
        synced(folder / "x.pt")

    def load(self, state, folder):
        return torch.load(folder / "x.pt", weights_only=True)


class Safetensors:
    def save(self, state, folder):
        from safetensors.torch import save_file
        folder.mkdir()
        save_file(state, folder / "x.safetensors")
        synced(folder / "x.safetensors")

    def load(self, state, folder):
        from safetensors.torch import load_file
        return {name: tensor.clone() for name, tensor in load_file(folder / "x.safetensors").items()}  # memory-mapped


class Dcp:
    def save(self, state, folder):
        import torch.distributed.checkpoint as dcp
        dcp.save(state, checkpoint_id=str(folder))  # syncs by itself

    def load(self, state, folder):
        import torch.distributed.checkpoint as dcp
        target = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        dcp.load(target, checkpoint_id=str(folder))
        return target


class DcpAsync(Dcp):
    stall = None

    def save(self, state, folder):
        import torch.distributed.checkpoint as dcp
        began = time.perf_counter()
        response = dcp.async_save(state, checkpoint_id=str(folder))
        self.stall = time.perf_counter() - began
        getattr(response, "upload_completion", response).result()


def main():
    kind, folder, count, each, repeats = sys.argv[1], pathlib.Path(sys.argv[2]), *map(int, sys.argv[3:6])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if kind.startswith("dcp"):
        dist.init_process_group("gloo", init_method=f"file://{folder}.rendezvous", rank=0, world_size=1)
    peer = {"torch_save": TorchSave, "safetensors": Safetensors, "dcp": Dcp, "dcp_async": DcpAsync}[kind]()
    torch.manual_seed(7)
    state = {f"model/layers.{i // 12}.block.{i % 12}.weight": torch.rand(each // 4) for i in range(count)}
    result = {"tensors": count, "bytes": count * (each // 4) * 4, "save": [], "load": []}

    def timed(phase, work):
        cpu, began = time.process_time(), time.perf_counter()
        value = work()
        result[phase].append({"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu})
        return value

    few = dict(list(state.items())[:100])
    shutil.rmtree(folder, ignore_errors=True)
    peer.save(few, folder)
    peer.load(few, folder)
    for _ in range(repeats):
        shutil.rmtree(folder, ignore_errors=True)
        timed("save", lambda: peer.save(state, folder))
        if kind == "dcp_async":
            result.setdefault("stall", []).append({"wall_s": peer.stall})
        loaded = timed("load", lambda: peer.load(state, folder))
        assert loaded.keys() == state.keys() and all(torch.equal(loaded[name], state[name]) for name in state)
        del loaded
    shutil.rmtree(folder)
    result["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if dist.is_initialized():
        dist.destroy_process_group()
        pathlib.Path(f"{folder}.rendezvous").unlink(missing_ok=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
