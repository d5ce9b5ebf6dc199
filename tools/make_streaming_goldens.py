#!/usr/bin/env python3
"""Sample orders of mosaicml-streaming 0.13 for tests/golden/streaming_orders.json, and as a library for the randomised
matrix (tests/data/streaming_matrix.py). Run it with a Python that has mosaicml-streaming==0.13.0:

    tools/peers_setup.sh streaming && /tmp/composer-peers/streaming/bin/python tools/make_streaming_goldens.py

An order depends on no file: the package's own generate_work runs on a data set that has only sizes. Each row holds a
configuration (nodes, ranks: the world; workers only changes what fills up the end) and the package's sequence: global
batches in the order of training, in each the ranks' parts one after the other, -1 where a rank gets no sample.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import random
import sys
import types
import warnings

# numpy sorts equal numbers in another order on machines with AVX2 or AVX-512; the portable order is the reference.
os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR")
import numpy as np  # noqa: E402

SEED = 17
SHUFFLES = ["none", "naive", "py1s", "py1br", "py1e", "py2s"]
BATCHINGS = ["random", "stratified", "per_stream", "device_per_stream"]


def draw_config(rng, big=False):
    """Returns a random configuration that the package may still refuse."""
    nodes, ranks, per_rank = rng.choice([1, 1, 2, 3, 4]), rng.choice([1, 1, 2, 3, 4, 8]), rng.choice([1, 2, 3, 5, 8])
    config = {
        "shuffle": rng.choice(SHUFFLES), "partition": rng.choice(["orig", "relaxed"]), "batching": rng.choice(BATCHINGS),
        "seed": rng.choice([0, 1, 9176, 2**32 - 1, 2**40 + 3, rng.randrange(10**6)]), "epoch": rng.randrange(4),
        "canonical_nodes": nodes * rng.choice([1, 1, 2, 4, 16]), "nodes": nodes, "ranks": ranks,
        "global_batch": nodes * ranks * per_rank, "workers": rng.choice([1, 1, 2, 5]),
        "sampling": rng.choice(["balanced", "balanced", "fixed"]), "granularity": rng.choice([1, 1, 3, 100]),
        "block_size": rng.choice([4, 16, 40, 100, 1000, 1 << 18]),
    }
    if config["partition"] == "relaxed" and rng.random() < 0.3:  # a run that began on other machines
        config["initial_nodes"] = rng.choice([1, 2, 3])
        config["canonical_nodes"] = config["initial_nodes"] * rng.choice([1, 2, 4])
    most, shards = (4000, 40) if big else (40, 6)
    config["streams"] = [{"shards": [rng.randint(1, most) for _ in range(rng.randint(1, shards))]} for _ in range(rng.choice([1, 2, 3, 5]))]
    weights = rng.choice(["none", "proportion", "absolute", "epoch_size"])
    for stream in config["streams"]:
        total = sum(stream["shards"])
        if weights == "proportion":
            stream["proportion"] = rng.choice([rng.random() + 0.1, 1.0])
        elif weights == "absolute":
            stream.update(rng.choice([{}, {"repeat": 0.1 + 2.5 * rng.random()}, {"choose": rng.randint(1, 3 * total)}]))
    if weights == "epoch_size" or (weights == "proportion" and rng.random() < 0.5):
        config["epoch_size"] = rng.randint(10, 10 + 2 * sum(sum(s["shards"]) for s in config["streams"]))
    return config


class Sizes(types.SimpleNamespace):
    """What generate_work reads of a StreamingDataset."""

    def resample_streams(self, epoch, stream_id=None):
        from streaming.base.dataset import StreamingDataset
        return StreamingDataset.resample_streams(self, epoch, stream_id)


def order(config):
    """Returns the package's sequence, or an exception's text."""
    from streaming.base.batching import generate_work
    from streaming.base.stream import Stream
    from streaming.base.world import World
    streams = [types.SimpleNamespace(**{k: v for k, v in s.items() if k != "shards"}) for s in config["streams"]]
    shards = [np.array(s["shards"], np.int64) for s in config["streams"]]
    per_shard = np.concatenate(shards)
    per_stream = np.array([s.sum() for s in shards])
    try:
        epoch_size = Stream.apply_weights(streams, per_stream, config.get("epoch_size"), config["seed"])
        shuffle = config["shuffle"] != "none"
        data = Sizes(
            streams=streams, num_streams=len(streams), epoch_size=epoch_size, batch_size=config["global_batch"] // (config["nodes"] * config["ranks"]),
            shuffle=shuffle, shuffle_algo=config["shuffle"], shuffle_seed=config["seed"], shuffle_block_size=config["block_size"],
            num_canonical_nodes=config["canonical_nodes"], partition_algo=config["partition"], initial_physical_nodes=config.get("initial_nodes"),
            sampling_method=config["sampling"], sampling_granularity=config["granularity"], epoch_seed_change=shuffle and config["sampling"] == "balanced",
            samples_per_shard=per_shard, sample_offset_per_shard=per_shard.cumsum() - per_shard,
            shards_per_stream=np.array([len(s) for s in shards]), shard_offset_per_stream=np.cumsum([0] + [len(s) for s in shards[:-1]]))
        world = World(config["nodes"], config["ranks"], config["workers"], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work = generate_work(config["batching"], data, world, config["epoch"], 0)
    except Exception as error:  # noqa: BLE001: whatever the package raises is its refusal
        return f"{type(error).__name__}: {error}"
    flat = work.transpose(3, 2, 0, 1, 4).reshape(-1, config["global_batch"])
    full = np.nonzero((flat >= 0).any(axis=1))[0]
    return flat[:full[-1] + 1 if len(full) else 0].flatten().tolist()


def main():
    import importlib.metadata
    rng, rows = random.Random(SEED), []
    wanted = [(s, b) for s in SHUFFLES for b in BATCHINGS] * 2  # 48 rows: each pair twice
    while len(rows) < len(wanted):
        config = draw_config(rng)
        config["shuffle"], config["batching"] = wanted[len(rows)]
        ids = order(config)
        if isinstance(ids, list) and 0 < len(ids) <= 600:
            rows.append({"config": config, "ids": ids})
    versions = {name: importlib.metadata.version(name) for name in ["mosaicml-streaming", "numpy"]}
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "streaming_orders.json"
    head = json.dumps({"note": "sample orders; tools/make_streaming_goldens.py", "versions": versions, "seed": SEED})[1:-1]
    path.write_text("{" + head + ', "rows": [\n' + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]}\n")
    print(f"{path}: {len(rows)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
