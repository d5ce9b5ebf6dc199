"""The share of a step that a job spends waiting for its next batch, as its own metric says, with 1 and 4 loader threads:
JPEG files of a folder, and the same as cached MDS shards. Part of the bench `data`.
SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import statistics
import subprocess

import programs
from bounded_job import run_to_exit

LIMIT_S, COUNT, SIDE, STEPS = 300, 512, 256, 120
MODEL = {"name": "resnet_small", "image_size": 32, "in_channels": 3, "num_classes": 4}


def job(loader, threads, run_folder):
    transforms = [{"decode_image": {"key": "image"}}, {"random_resized_crop": {"size": 32}}, "random_flip", "to_float"]
    return {"run_folder": str(run_folder), "model": MODEL, "optimizers": {"name": "sgd", "lr": 0.01},
            "train_dataloader": loader | {"transforms": transforms + loader.get("transforms", []),
                                          "num_workers": threads},
            "global_train_batch_size": 16, "max_duration": f"{STEPS}ba", "eval_interval": "0ba",
            "save_interval": "0ba"}


def share(composer, folder, name, loader, threads):
    """Returns the median over the steps of the second half."""
    run_folder = pathlib.Path(folder) / f"run-{name}-{threads}"
    settings = run_folder.with_suffix(".yaml")
    settings.write_text(json.dumps(job(loader, threads, run_folder)))  # JSON is YAML
    run_to_exit([composer, "-n", 1, settings], LIMIT_S, cwd=programs.REPOSITORY)
    rows = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    shares = [row["throughput/data_wait"] for row in rows if "throughput/data_wait" in row]
    return statistics.median(shares[len(shares) // 2:])


def facts(options, python, folder):
    """Returns {name: [share of a step]}."""
    composer = options.programs.ours("composer")
    if composer is None:
        return {}
    images, shards = f"{folder}/jpeg", f"{folder}/jpeg-mds"
    subprocess.run([str(python), str(programs.SCRIPTS / "write_jpegs.py"), images, str(COUNT), str(SIDE)], check=True)
    subprocess.run([str(composer), "data", "write", images, shards, "--format", "images"], check=True,
                   stdout=subprocess.DEVNULL)
    loaders = {"JPEG folder": {"name": "image_folder", "path": images},
               "cached MDS": {"name": "streaming", "local": shards,
                              "transforms": [{"rename": {"from": "label", "to": "targets"}}]}}
    found = {}
    for what, loader in loaders.items():
        for threads in (1, 4):
            value = share(composer, folder, what.split(" ", maxsplit=1)[0], loader, threads)
            found[f"ours, share of a step spent waiting for data, {what} of {SIDE} x {SIDE} JPEGs, {threads} "
                  f"thread{'s' if threads > 1 else ''}"] = [value]
    return found
