"""Bench `data`: CPU time of a cached 1-KiB sample out of MDS shards, ours, mosaicml-streaming's and (from an array in
memory) torch's DataLoader's and Grain's; the order of an epoch (py1e) and writing, beside the package's, in one run;
and the share of a step that a job waits for data (data_wait.py).
SPDX-License-Identifier: Apache-2.0
"""

import json
import re
import statistics
import subprocess
import tempfile

import data_wait
import programs

NAME = "data"
TITLE = "A cached sample of 1 KiB (nanoseconds of CPU time)"
UNIT, REFERENCE = "ns", "streaming, by index, ns"
LIMIT_S = 900
SAMPLES, ORDER_SAMPLES, LARGE_ORDER_SAMPLES = 100_000, 20_000_000, 100_000_000


def lines_of(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-500:]}")
    return done.stdout


def add_orders(text, facts):
    """Adds what `print_orders time` says of py1e and of the rest, first batch, resume, whole epoch."""
    for line in text.splitlines():
        name, nodes = re.match(r"(\w+), (\d+) canonical", line).groups()
        for what in ("first batch", "resume", "whole"):
            used = re.search(what + r" \S+ s \(CPU (\S+) s\)", line).group(1)
            facts.setdefault(f"ours, {name}, {nodes} canonical nodes, {what}, s of CPU", []).append(float(used))


def add_global_order(text, facts):
    for name, used in re.findall(r"(.*): (\S+) ms", text):
        facts.setdefault(f"ours, shuffle: global over 10^9, {name}, ms", []).append(float(used))


def run(options):
    where = options.programs
    reading, orders = where.bin / "mds_read", where.bin.parent / "tests" / "print_orders"
    peers = where.mosaic.parent.parent
    python, grain = peers / "streaming" / "bin" / "python", peers / "grain" / "bin" / "python"
    if not (reading.exists() and orders.exists() and python.exists()):
        raise RuntimeError(f"needs {reading}, {orders} and {python} (tools/peers_setup.sh streaming)")
    samples, facts, large = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            text = lines_of([reading, f"{folder}/set", SAMPLES])
            for order in ("in order", "py1e"):
                used = re.search(order + r", cached: (\S+) ns", text).group(1)
                samples.setdefault(f"ours, {order}, ns", []).append(float(used))
            facts.setdefault("ours, writing, MB a CPU second", []).append(
                float(re.search(r"(\S+) MB a CPU second", text).group(1)))
            add_orders(lines_of([orders, "time", ORDER_SAMPLES]), facts)
            add_orders(lines_of([orders, "time", LARGE_ORDER_SAMPLES, "py1e"]), large)
            add_global_order(lines_of([where.bin / "global_order"]), facts)
            measured = json.loads(lines_of([python, programs.SCRIPTS / "streaming_data.py", f"{folder}/set", SAMPLES,
                                            ORDER_SAMPLES]).splitlines()[-1])
            if grain.exists():
                measured |= json.loads(lines_of([grain, programs.SCRIPTS / "grain_data.py", SAMPLES]).splitlines()[-1])
            for name, value in measured.items():
                (samples if name.endswith(", ns") else facts).setdefault(name, []).append(value)
        facts |= data_wait.facts(options, python, folder)
    named = {f"{name} ({ORDER_SAMPLES:,} samples)" if "canonical" in name else name: values
             for name, values in facts.items()}
    named |= {f"{name} ({LARGE_ORDER_SAMPLES:,} samples)": values for name, values in large.items()}
    return samples, {name: round(statistics.median(values), 4) for name, values in named.items()}
