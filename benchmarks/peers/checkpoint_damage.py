#!/usr/bin/env python3
"""Damages a small checkpoint in every way of one kind and loads it each time. Prints the outcomes as JSON.

    checkpoint_damage.py torch|dcp|safetensors|composer FOLDER [--every N] [--workers W]

Kinds: each single flipped bit of each file, and each file cut at each length. --every N takes one bit of every N,
evenly spread with a phase that changes from byte to byte, so that all eight positions of a byte occur. Outcomes of a
load:
  detected   it raised an exception
  wrong      it returned, and tensors or other state differ from what was saved
  wrong_rng  the same, but only of the random number generators' states (composer)
  harmless   it returned what was saved
  died       the process ended, or took more than 10 s of CPU, 2 min or 8 GB
W processes share the cases, each with its own copy of FOLDER (a tmpfs is fastest) and its own loop, so that no case
costs a process start. The state is reset before each load, so that a load that does nothing counts as wrong. composer
needs the `mosaic` environment of tools/peers_setup.sh, the others `torch211`.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import copy
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import warnings

import torch

LIMIT_CPU_S, LIMIT_S, LIMIT_BYTES = 10, 120, 8 << 30
KINDS = ("flip", "truncation")


def tensors():
    return {"w": torch.arange(4, dtype=torch.float32) + 2, "n": torch.tensor(2)}


class TorchSave:
    def save(self, folder):
        torch.save({**tensors(), "t": 2}, folder / "x.pt")

    def load(self, folder):
        return torch.load(folder / "x.pt", weights_only=True)


class Safetensors:
    def save(self, folder):
        from safetensors.torch import save_file
        save_file(tensors(), folder / "x.safetensors", metadata={"t": "2"})

    def load(self, folder):
        from safetensors import safe_open
        with safe_open(folder / "x.safetensors", "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()} | {"metadata": file.metadata()}


class Dcp:
    def save(self, folder):
        import torch.distributed.checkpoint as dcp
        dcp.save({**tensors(), "t": 2}, checkpoint_id=str(folder))

    def load(self, folder):
        import torch.distributed.checkpoint as dcp
        state = {"w": torch.zeros(4), "n": torch.tensor(0), "t": 0}
        dcp.load(state, checkpoint_id=str(folder))
        return state


class Composer:
    """The checkpoint of Composer's Trainer for Linear(2, 1) and SGD with momentum, loaded as the Trainer does for
    load_path."""

    def save(self, folder):
        from composer import Trainer
        from composer.models import ComposerModel
        from torch.utils.data import DataLoader, TensorDataset

        class Model(ComposerModel):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 1)

            def forward(self, batch):
                return self.fc(batch[0])

            def loss(self, outputs, batch):
                return outputs.square().mean()

        model = Model()
        data = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2)
        self.trainer = Trainer(model=model, train_dataloader=data, max_duration="2ba", device="cpu", progress_bar=False,
                               seed=1,
                               optimizers=torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), run_name="damage")
        self.trainer.fit()
        made = pathlib.Path(self.trainer.save_checkpoint(str(folder / "x.pt")) or folder / "x.pt")
        assert made.exists()

    def load(self, folder):
        from composer.core import Timestamp
        from composer.utils import checkpoint
        state = self.trainer.state
        with torch.no_grad():
            for parameter in state.model.parameters():
                parameter.zero_()
        state.optimizers[0].state.clear()
        state.timestamp = Timestamp()
        rng = checkpoint.load_checkpoint(str(folder / "x.pt"), state=state, logger=self.trainer.logger)
        optimizer = state.optimizers[0].state_dict()
        return {"model": dict(state.model.state_dict()), "optimizer": optimizer["state"],
                "groups": optimizer["param_groups"],
                "time": {k: str(v) for k, v in state.timestamp.state_dict().items()}, "rng": rng}


PEERS = {"torch": TorchSave, "safetensors": Safetensors, "dcp": Dcp, "composer": Composer}


def octets(tensor):
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def same(a, b):
    if torch.is_tensor(a) or torch.is_tensor(b):
        return torch.is_tensor(a) and torch.is_tensor(b) and a.dtype == b.dtype and a.shape == b.shape and torch.equal(
            octets(a), octets(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if {type(x) for x in a} == {int}:  # such as a generator's 624 words
            return a == b
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if hasattr(a, "tobytes"):
        return hasattr(b, "tobytes") and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


def cases(size, kind, every):
    """Returns what to damage in a file of `size` bytes: bits to flip, or lengths at which to cut it."""
    if kind == "truncation":
        return range(0, size, max(1, every // 8))
    return (bit for bit in range(8 * size) if (bit + bit // 8 * 3) % every == 0)


def damaged(content, kind, case):
    if kind == "truncation":
        return content[:case]
    return content[:case // 8] + bytes([content[case // 8] ^ (1 << case % 8)]) + content[case // 8 + 1:]


def outcome_of(peer, folder, good):
    signal.setitimer(signal.ITIMER_PROF, LIMIT_CPU_S)
    signal.alarm(LIMIT_S)
    try:
        loaded = peer.load(folder)
        if same(loaded, good):
            return "harmless"
        random_only = isinstance(loaded, dict) and "rng" in loaded and same({**loaded, "rng": 0}, {**good, "rng": 0})
        return "wrong_rng" if random_only else "wrong"
    except BaseException as error:  # including torch's CheckpointException
        return "detected " + type(error).__name__
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def try_all(peer, folder, path, kind, numbers, good):
    """Returns an outcome for each case. A child that dies is replaced, continuing after the case that killed it."""
    outcomes, content = [], path.read_bytes()
    while len(outcomes) < len(numbers):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(writer, "w", buffering=1) as out:
                for number in numbers[len(outcomes):]:
                    path.write_bytes(damaged(content, kind, number))
                    out.write(outcome_of(peer, folder, good) + "\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            outcomes += [line.strip() for line in lines if line.endswith("\n")]
        if os.waitpid(child, 0)[1] != 0 and len(outcomes) < len(numbers):
            outcomes.append("died")
    path.write_bytes(content)
    return outcomes


def share_of(peer, folder, index, options, good):
    """Returns [[kind, outcome, count]] of this worker's cases, in its own folder."""
    tempfile.tempdir = str(folder)
    own = folder / str(index)
    shutil.copytree(folder / "saved", own)
    counts = collections.Counter()
    for path in files_of(own):
        for kind in KINDS:
            numbers = list(itertools.islice(cases(path.stat().st_size, kind, options.every), index, None,
                                            options.workers))
            counts.update((kind, outcome) for outcome in try_all(peer, own, path, kind, numbers, good))
    return [[*key, count] for key, count in counts.items()]


def run_shares(peer, folder, options, good):
    """Sums the shares of all workers, each a forked process."""
    pipes = []
    for index in range(options.workers):
        reader, writer = os.pipe()
        if os.fork() == 0:
            with os.fdopen(writer, "w") as out:
                out.write(json.dumps(share_of(peer, folder, index, options, good)))
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    counts = collections.Counter()
    for reader in pipes:
        with os.fdopen(reader) as answer:
            for kind, outcome, count in json.loads(answer.read()):
                counts[kind, outcome] += count
    return counts


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    shutil.rmtree(options.folder, ignore_errors=True)
    saved = options.folder / "saved"
    saved.mkdir(parents=True)
    peer = PEERS[options.peer]()
    peer.save(saved)
    good = copy.deepcopy(peer.load(saved))
    assert same(peer.load(saved), good)
    result = {"peer": options.peer, "every": options.every, "bytes": sum(p.stat().st_size for p in files_of(saved)),
              "files": [p.name for p in files_of(saved)]}
    outcomes = run_shares(peer, options.folder, options, good)
    for kind in KINDS:
        counts, errors = collections.Counter(), collections.Counter()
        for (of, outcome), count in outcomes.items():
            if of != kind:
                continue
            word, _, error = outcome.partition(" ")
            counts[word] += count
            if error:
                errors[error] += count
        result[kind] = {"cases": sum(counts.values()), **counts, "errors": dict(errors.most_common(6))}
    shutil.rmtree(options.folder, ignore_errors=True)
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
