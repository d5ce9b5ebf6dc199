#!/usr/bin/env python3
"""Checks who may include whom (docs/architecture.md). Fails on an include that goes up or sideways, on a cycle of
rooms, on a room with more than 25 units, on more inner edges than agreed, and on torch, gRPC, glog or yaml where they do
not belong. --edges prints every edge."""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_UNITS = 25  # a unit: a .h/.cc pair
MAX_EDGES = {"launcher": 55, "trainer": 132}
MAY_INCLUDE = {
    "base": {"base"},
    "net": {"base", "net"},
    "contract": {"base", "contract"},
    "proto": {"proto"},
    "config": {"base", "contract", "config"},
    "storage": {"base", "net", "storage"},
    "data": {"base", "net", "storage", "data"},
    "fault": {"base", "storage", "checkpoint", "trainer", "fault"},
    "rendezvous": {"base", "net", "proto", "rendezvous"},
    "views": {"base", "contract", "config", "views"},
    "tracking": {"base", "net", "contract", "views", "tracking"},
    "launcher": {"base", "net", "contract", "proto", "config", "storage", "rendezvous", "views", "tracking", "launcher"},
    "checkpoint": {"base", "storage", "checkpoint"},
    "trainer": {"base", "net", "storage", "data", "checkpoint", "tracking", "trainer"},
    "job": {"base", "net", "contract", "config", "storage", "fault", "checkpoint", "tracking", "trainer", "job"},
    "worker": {"base", "net", "contract", "proto", "config", "storage", "data", "rendezvous", "checkpoint", "trainer", "job",
               "worker"},
}
# The rooms of each folder, from the ground up. A room includes only rooms of lower lines; "" is the folder itself.
LEVELS = {
    "rendezvous": ["worlds", "failover", "transport", "store", "membership", ""],
    "launcher": ["process peer_memory", "workers", "options", "platform rendezvous", "control doctor speedrun start", "supervise", ""],
    "base": ["format", ""],
    "config": ["keys", ""],
    "storage": ["identity", ""],
    "views": ["read", "draw", ""],
    "tracking": ["", "sync"],
    "data": ["order codec cache image text chat", "icl mds tables tokenizers/model tokenizers/normalize tokenizers/split", "tokenizers",
             "tokenizers/files", "tokenizers/train", "tools"],
    "checkpoint": ["exchange format", "folder torch_files", "load save", "tools"],
    "job": ["plugin", "algorithms compat data loggers models parallel plan", "", "run"],
    "worker": ["cuda/kernels", "cuda", ""],
    "trainer": [
        "kernels", "step loss layers", "core", "init options tokenizers export", "collectives", "parallel/activations optim/matrix optim/schedule",
        "data metrics memory optim algorithms/schedule algorithms/surgery loggers profiler",
        "algorithms parallel/fsdp parallel/ddp parallel/tensor elastic data/images data/tables", "parallel/norms models algorithms/augment",
        "models/text", "models/vision", "models/hf",
        "algorithms/optimisation callbacks/stops callbacks/monitors callbacks/memory", "callbacks/output", "resume", "loop", ""],
}
LIBRARIES = [
    (re.compile(r"^(torch|ATen|c10)/"), {"checkpoint", "trainer", "fault", "job", "worker"}),
    (re.compile(r"^grpc"), {"rendezvous", "launcher", "worker"}),
    (re.compile(r"^glog/"), {"base"}),
    (re.compile(r"^yaml-cpp/"), {"config"}),
]
INCLUDE = re.compile(r'^\s*#include\s+[<"]([^>"]+)[>"]')


def room_of(path):
    return str(pathlib.PurePosixPath(path).parent)


def level_of(room):
    """Returns the line of LEVELS that has the room, or None for folders without rooms."""
    top, _, inner = room.partition("/")
    for level, names in enumerate(LEVELS.get(top, [])):
        if inner in (names.split() or [""]):
            return level
    return None


def includes_of(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if match := INCLUDE.match(line):
            yield f"{path}:{number}: ", match.group(1)


def violations(path, text, edges):
    layer, room = path.split("/")[0], room_of(path)
    if layer in LEVELS and level_of(room) is None:
        yield f"{path}: {room} is not a room: add it to LEVELS"
    for where, target in includes_of(path, text):
        top, other = target.split("/")[0], room_of(target)
        if top in MAY_INCLUDE and "/" in target and top not in MAY_INCLUDE[layer]:
            yield where + f"{layer} may not include {target}"
        if top == layer and other != room:
            edges[layer][room, other] += 1
            if level_of(other) is not None and level_of(room) is not None and level_of(other) >= level_of(room):
                yield where + f"{room} may not include {target}"
        for pattern, layers in LIBRARIES:
            if pattern.match(target) and layer not in layers:
                yield where + f"{layer} may not include <{target}>"
    if layer in {"base", "rendezvous", "launcher",
                 "worker"} and (shell := re.search(r"(?<![\w.:>])(system|popen|wordexp|execlp|execvp)\s*\(", text)):
        yield f"{path}: {shell.group(1)} would run a shell or search the PATH with what may be remote input; use ProcessSpec"
    if path != "base/env.cc" and layer in MAY_INCLUDE and re.search(r"(?<!/)\b(getenv|environ)\b", text):
        yield f"{path}: only base/env.cc reads the environment"


def all_files():
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [path for path in files if (ROOT / path).exists()]


def whole_torch(path):
    """<torch/torch.h> costs a compilation two seconds of processor time: its module classes are made in each."""
    if path.startswith("examples/") or path == "tests/worker/test_plugin.cc":  # as users write
        return []
    return [f"{path}: include what it uses of LibTorch, such as <torch/types.h>, not <torch/torch.h>"
            for line in (ROOT / path).read_text().splitlines() if line == "#include <torch/torch.h>"]


def main():
    everything = all_files()
    files = [path for path in everything if path.split("/")[0] in MAY_INCLUDE]
    edges = collections.defaultdict(collections.Counter)
    found = [problem for path in everything for problem in whole_torch(path)]
    for path in files:
        found += violations(path, (ROOT / path).read_text(), edges)
    units = collections.Counter(room_of(unit) for unit in {str(pathlib.PurePosixPath(path).with_suffix(""))
                                                           for path in files})
    found += [f"{room}: {count} units, more than {MAX_UNITS}: give it rooms by idea"
              for room, count in sorted(units.items()) if count > MAX_UNITS]
    found += [f"{layer}: {len(edges[layer])} inner edges, more than {most}" for layer, most in MAX_EDGES.items()
              if len(edges[layer]) > most]
    if "--edges" in sys.argv:
        for layer in sorted(edges):
            for (room, other), count in sorted(edges[layer].items()):
                print(f"{room} -> {other} ({count})")
    print("\n".join(found) if found else f"layers: {len(files)} files in {len(units)} rooms, all as they should be")
    print("inner edges: " + ", ".join(f"{layer} {len(edges[layer])}" for layer in sorted(edges)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
