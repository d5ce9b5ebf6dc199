"""Bench `checkpoint`: a checkpoint is saved and loaded by us, torch.save, safetensors and torch's DCP, sync and async,
in turn.

There are two states: 128 MiB in 308 tensors, and 20,000 tensors of 10 KB. Every save is synced. Beside the saves the
disk alone is measured with as many bytes: `raw` (checkpoint_speed: writev from the same memory, synced) and dd with
conv=fsync, which first copies its source from another file. That source must be synced before: otherwise ext4 writes it
out with dd's own fsync, and dd seems slower than a save.
Stall is how long a save blocks training, beside one memcpy of the same bytes. Ranks: a sharded state is saved by 2
ranks, beside each one's torch.save of its shard, and loaded by 2 and by 3 ranks.
Our programs are checkpoint_speed, checkpoint_stall and checkpoint_ranks (benchmarks/); the peers' are
peers/checkpoint_*.py. The first repeat of each process is a warm-up and not counted, except DCP's, which has warmed up
on 100 tensors. DCP takes half a minute for the small state, so its two forms alternate from round to round. The folder
is below TMPDIR: a tmpfs there measures no disk.
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
STALLS = {"large": (128, 308), "small": (195, 20_000)}  # MiB, tensors
RANKS_MB, SAVED, LOADED = 256, 2, 3
REPEATS, LIMIT_S = 3, 900


def run_json(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def dd(folder, size):
    """Returns the seconds in which dd writes `size` random bytes, synced."""
    source, target = pathlib.Path(folder) / "random", pathlib.Path(folder) / "dd"
    if not source.exists() or source.stat().st_size != size:
        source.write_bytes(os.urandom(size))
        with source.open("rb") as file:
            os.fsync(file.fileno())
    began = time.perf_counter()
    subprocess.run(["dd", f"if={source}", f"of={target}", "bs=8M", "conv=fsync"], check=True, capture_output=True)
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


def add(samples, state, who, result, skipped=1):
    for phase in ("save", "load", "stall"):
        for kind in ("wall", "cpu"):
            values = [row[f"{kind}_s"] for row in result.get(phase, [])[skipped:] if f"{kind}_s" in row]
            if values:
                samples.setdefault(f"{state} {phase} {kind}: {who}", []).extend(values)


def measure_ours(samples, facts, speed, state, folder):
    if not speed:
        return
    tensors, each = STATES[state]
    result = run_json([speed, f"{folder}/ours", tensors, each, REPEATS + 1])
    add(samples, state, "ours", result)
    samples.setdefault(f"{state} save wall: raw", []).extend(row["wall_s"] for row in result["raw"][1:])
    facts[f"{state}, manifest bytes a tensor"] = round(result["manifest_bytes"] / tensors, 1)


def measure_peers(samples, options, state, turn, folder):
    tensors, each = STATES[state]
    for peer in PEERS:
        slow = state == "small" and peer.startswith("dcp")
        if slow and options.repeats > 1 and (peer == "dcp") != (turn % 2 == 0):
            continue
        repeats = 1 if slow else REPEATS
        result = run_json([options.programs.torch / "python", programs.SCRIPTS / "checkpoint_times.py", peer,
                           f"{folder}/{peer}", tensors, each, repeats])
        add(samples, state, peer, result, skipped=0 if slow else 1)


def measure_stalls(samples, stall, folder):
    for state, (megabytes, tensors) in STALLS.items() if stall else ():
        result = run_json([stall, megabytes, tensors, REPEATS + 1, folder])
        samples.setdefault(f"{state} stall wall: ours", []).append(result["stall"] / 1000)
        samples.setdefault(f"{state} stall wall: memcpy", []).append(result["memcpy"] / 1000)
        samples.setdefault(f"{state} stall cpu: ours", []).append(result["stall_cpu"] / 1000)
        samples.setdefault(f"{state} stall cpu: memcpy", []).append(result["memcpy_cpu"] / 1000)
        samples.setdefault(f"{state} total wall: ours", []).append(result["total"] / 1000)


def measure_ranks(samples, ranks, python, folder):
    if not ranks:
        return
    result = run_json([ranks, f"{folder}/ranks", RANKS_MB, SAVED, LOADED, 2 * REPEATS])
    for phase, name in {"save": f"save on {SAVED} ranks wall: ours", "same": f"load on {SAVED} ranks wall: ours",
                        "reshard": f"load on {LOADED} ranks wall: ours"}.items():
        samples.setdefault(name, []).extend(row["wall_s"] for row in result[phase][1:])
    result = run_json([python, programs.SCRIPTS / "checkpoint_shards.py", f"{folder}/shards", RANKS_MB, SAVED,
                       REPEATS + 1])
    samples.setdefault(f"save on {SAVED} ranks wall: torch_save of its shard", []).extend(
        row["wall_s"] for row in result["save"][1:])


def run(options):
    speed, stall, ranks = (options.programs.ours(f"checkpoint_{name}") for name in ("speed", "stall", "ranks"))
    samples, facts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.repeats):
            for state, (tensors, each) in STATES.items():
                measure_ours(samples, facts, speed, state, folder)
                measure_peers(samples, options, state, turn, folder)
                samples.setdefault(f"{state} save wall: dd", []).append(dd(folder, tensors * each))
            measure_stalls(samples, stall, folder)
            measure_ranks(samples, ranks, options.programs.torch / "python", folder)
            print(f"checkpoint: turn {turn + 1} of {options.repeats}", flush=True)
    return samples, facts


def grouped(summary):
    """Returns {"large save wall": {"ours": median, …}}."""
    groups = {}
    for name, row in summary.items():
        group, who = name.rsplit(": ", 1)
        groups.setdefault(group, {})[who] = row["median"]
    return groups


def table(summary):
    groups = grouped(summary)
    lines = ["| what | program | median s | of ours |", "|---|---|---|---|"]
    for group, by_program in groups.items():
        ours = by_program.get("ours")
        for who, median in by_program.items():
            ratio = f"{median / ours:.2f} ×" if ours else "-"
            lines.append(f"| {group} | {who} | {median:.4f} | {ratio} |")
    for state, (tensors, each) in STATES.items():
        saved = groups.get(f"{state} save wall", {})
        if {"ours", "raw", "dd"} <= saved.keys():
            lines.append(
                f"\n{state} ({tensors:,} tensors, {tensors * each / 1e6:.0f} MB): ours writes {tensors * each / saved['ours'] / 1e6:.0f} MB/s, "
                f"{100 * saved['raw'] / saved['ours']:.0f} % of what the disk takes from the same memory, {100 * saved['dd'] / saved['ours']:.0f} % of dd's.")
        stall = groups.get(f"{state} stall wall", {})
        if "memcpy" in stall:
            goal = 1.05 * stall["memcpy"] + 0.005
            lines.append(
                f"\n{state} stall: {1000 * stall['ours']:.1f} ms; one memcpy {1000 * stall['memcpy']:.1f} ms; goal 1.05 × memcpy + 5 ms = "
                f"{1000 * goal:.1f} ms: {'met' if stall['ours'] <= goal else 'missed'}.")
    same, other = (groups.get(f"load on {ranks} ranks wall", {}).get("ours") for ranks in (SAVED, LOADED))
    if same and other:
        lines.append(
            f"\nSaved by {SAVED} ranks, loaded by {LOADED}: {other / same:.2f} × of the load by {SAVED}; goal: at most 1.15.")
    return "\n".join(lines)
