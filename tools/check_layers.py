#!/usr/bin/env python3
"""Who may include whom (docs/architecture.md). Fails on an include that goes up or sideways, and on torch, gRPC, glog, yaml or json where they do not belong."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_INCLUDE = {
    "base": {"base"},
    "proto": {"proto"},
    "config": {"base", "config"},
    "storage": {"base", "storage"},
    "rendezvous": {"base", "proto", "rendezvous"},
    "launcher": {"base", "proto", "config", "storage", "rendezvous", "launcher"},
    "checkpoint": {"base", "storage", "checkpoint"},
    "trainer": {"base", "storage", "checkpoint", "trainer"},
    "worker": {"base", "proto", "config", "storage", "rendezvous", "checkpoint", "trainer", "worker"},
}
# Inside trainer: a lower number never includes a higher one; equal numbers only their own folder.
TRAINER_LEVEL = {"core": 0, "data": 1, "loss": 1, "metrics": 1, "optim": 1, "parallel": 1, "models": 2,
                 "algorithms": 3, "callbacks": 3, "loggers": 3, "profiler": 3, "": 4}
# Headers that are pure interfaces and sit below their folder's level.
INTERFACES = {"trainer/data/batch.h", "trainer/data/dataset.h", "trainer/metrics/metric.h", "trainer/models/model.h", "trainer/optim/optimizer.h",
              "trainer/optim/scheduler.h", "trainer/loggers/logger.h", "trainer/torch_status.h", "trainer/loss/soft_cross_entropy.h"}
# Torch-free though it lies in the trainer: the launcher checks a job's times.
TIME = "trainer/core/time.h"
LIBRARIES = [
    (re.compile(r"^(torch|ATen|c10)/"), {"checkpoint", "trainer", "worker"}),
    (re.compile(r"^grpc"), {"rendezvous", "launcher", "worker"}),
    (re.compile(r"^glog/"), {"base"}),
    (re.compile(r"^yaml-cpp/"), {"config"}),
]
INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]')


def trainer_folder(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else ""


def violations(path, text):
    layer = path.split("/")[0]
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        top = target.split("/")[0]
        where = f"{path}:{number}: "
        if top in MAY_INCLUDE and "/" in target and top not in MAY_INCLUDE[layer] and (layer, target) != ("config", TIME):
            yield where + f"{layer} may not include {target}"
        if layer == "trainer" and top == "trainer" and target not in INTERFACES:
            own, other = trainer_folder(path), trainer_folder(target)
            if own != other and TRAINER_LEVEL[other] >= TRAINER_LEVEL[own]:
                yield where + f"trainer/{own} may not include {target}"
        for pattern, layers in LIBRARIES:
            if pattern.match(target) and layer not in layers:
                yield where + f"{layer} may not include <{target}>"
    if layer in {"base", "rendezvous", "launcher", "worker"} and (shell := re.search(r"(?<![\w.:>])(system|popen|wordexp|execlp|execvp)\s*\(", text)):
        yield f"{path}: {shell.group(1)} would run a shell or search the PATH with what may be remote input; use ProcessSpec"
    if path != "base/env.cc" and layer in MAY_INCLUDE and re.search(r"(?<!/)\b(getenv|environ)\b", text):
        yield f"{path}: only base/env.cc reads the environment"


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for path in files:
        if path.split("/")[0] in MAY_INCLUDE and (ROOT / path).exists():
            found += violations(path, (ROOT / path).read_text())
    print("\n".join(found) if found else f"layers: {len(files)} files, all as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
