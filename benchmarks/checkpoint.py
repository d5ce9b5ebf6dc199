"""Bench `checkpoint`: a checkpoint saved and loaded by us, torch.save, safetensors and torch's DCP, sync and async, in turn.

Two states: 128 MiB in 308 tensors, and 20,000 tensors of 10 KB. Every save is synced. Beside the saves the disk alone: dd with
conv=fsync writes as many bytes. Stall: what a save holds training up for, beside one memcpy of the same bytes.
Ours are checkpoint_speed and checkpoint_stall (benchmarks/); the peers peers/checkpoint_times.py. The first repeat of each
process warms up and is not counted. The folder is below TMPDIR: a tmpfs there measures no disk.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time

import programs

NAME = "checkpoint"
TITLE = "A checkpoint saved, synced, and loaded; one rank, one thread"
UNIT, REFERENCE = "s", "ours"
STATES = {"large": (308, 435_768), "small": (20_000, 10_240)}  # tensors, bytes of each
PEERS = ("torch_save", "safetensors", "dcp", "dcp_async")
STALL_MB, STALL_TENSORS = 128, 308
REPEATS, LIMIT_S = 3, 900


def run_json(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def dd(folder, size):
    """Seconds in which the disk takes `size` random bytes, synced."""
    source, target = pathlib.Path(folder) / "random", pathlib.Path(folder) / "dd"
    if not source.exists() or source.stat().st_size != size:
        source.write_bytes(os.urandom(size))
    began = time.perf_counter()
    subprocess.run(["dd", f"if={source}", f"of={target}", "bs=8M", "conv=fsync"], check=True, capture_output=True)
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


def add(samples, state, who, result):
    for phase in ("save", "load", "stall"):
        for kind in ("wall", "cpu"):
            values = [row[f"{kind}_s"] for row in result.get(phase, [])[1:] if f"{kind}_s" in row]
            if values:
                samples.setdefault(f"{state} {phase} {kind}: {who}", []).extend(values)


def measure_stall(samples, ours, folder):
    if not ours:
        return
    result = run_json([ours, STALL_MB, STALL_TENSORS, REPEATS + 1, folder])
    for phase in ("stall", "memcpy", "total"):
        samples.setdefault(f"async {phase} wall: ours", []).append(result[phase] / 1000)


def run(options):
    speed, stall = options.programs.ours("checkpoint_speed"), options.programs.ours("checkpoint_stall")
    samples, facts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.repeats):
            for state, (tensors, each) in STATES.items():
                if speed:
                    result = run_json([speed, f"{folder}/ours", tensors, each, REPEATS])
                    add(samples, state, "ours", result)
                    facts[f"{state}, manifest bytes a tensor"] = round(result["manifest_bytes"] / tensors, 1)
                for peer in PEERS:
                    result = run_json([options.programs.torch / "python", programs.SCRIPTS / "checkpoint_times.py", peer,
                                       f"{folder}/{peer}", tensors, each, REPEATS])
                    add(samples, state, peer, result)
                samples.setdefault(f"{state} save wall: dd", []).append(dd(folder, tensors * each))
            measure_stall(samples, stall, folder)
            print(f"checkpoint: turn {turn + 1} of {options.repeats}", flush=True)
    return samples, facts


def grouped(summary):
    """{"large save wall": {"ours": median, …}}"""
    groups = {}
    for name, row in summary.items():
        group, who = name.rsplit(": ", 1)
        groups.setdefault(group, {})[who] = row["median"]
    return groups


def table(summary):
    groups = grouped(summary)
    async_ours = groups.get("async stall wall", {}).get("ours")
    if async_ours is not None and "large stall wall" in groups:
        groups["large stall wall"] = {"ours": async_ours, "memcpy": groups["async memcpy wall"]["ours"], **groups["large stall wall"]}
    lines = ["| what | program | median s | of ours |", "|---|---|---|---|"]
    for group, by_program in groups.items():
        if group.startswith("async"):
            continue
        ours = by_program.get("ours")
        for who, median in by_program.items():
            ratio = f"{median / ours:.2f} ×" if ours else "-"
            lines.append(f"| {group} | {who} | {median:.4f} | {ratio} |")
    for state, (tensors, each) in STATES.items():
        saved = groups.get(f"{state} save wall", {})
        if "ours" in saved and "dd" in saved:
            lines.append(f"\n{state} ({tensors:,} tensors, {tensors * each / 1e6:.0f} MB): ours writes "
                         f"{tensors * each / saved['ours'] / 1e6:.0f} MB/s, {100 * saved['dd'] / saved['ours']:.0f} % of what dd gets.")
    if async_ours is not None:
        copied = groups["async memcpy wall"]["ours"]
        lines.append(f"\nStall of {STALL_MB} MiB: {1000 * async_ours:.1f} ms; one memcpy {1000 * copied:.1f} ms; goal: 1.05 × memcpy + 5 ms.")
    return "\n".join(lines)
