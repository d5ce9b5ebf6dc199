#!/usr/bin/env python3
"""CPU time of a step beside PyTorch 2.11 in every way that it has on a CPU: eager and compiled, fp32 and bf16, and with our settings
of malloc; and the time of a step of two ranks. The programs run in turns, a process each; a figure is the lowest block of the process,
a ratio that of medians over rounds.
  tools/peers_setup.sh torch211 && python3 benchmarks/cpu_peers.py [--rounds 5] [--only cnn,char_gpt,gpt2,sharding] [--write]
Each figure is kept in --state as soon as it is there: a call that was stopped, or that ended after --minutes, goes on with the next
call, in the same turns. --write: puts what is complete in place of its section of docs/results/cpu_peers.md.
A CPU without bf16 instructions runs the programs in fp32 alone, in sections of their own.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import sharding
from programs import REPOSITORY, SCRIPTS

PEERS = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers")) / "torch211/bin"
BIN = REPOSITORY / "build/release/bin"
RESULT = REPOSITORY / "docs/results/cpu_peers.md"
MALLOC = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=67108864"
# workload: threads, blocks and steps of a process, our programs, PyTorch's; "+malloc" runs with our settings of malloc
STEPS = {
    "cnn": (1, 20, 20, ("cnn trainer", "cnn trainer_channels_last", "cnn_bf16 trainer", "cnn_bf16 trainer_channels_last"),
            ("fp32 eager", "bf16 eager", "fp32 compile", "bf16 compile", "bf16 compile_channels_last", "fp32 compile_channels_last",
             "fp32 compile+malloc")),
    "char_gpt": (1, 5, 8, ("char_gpt trainer", "char_gpt_bf16 trainer", "char_gpt_bf16 trainer_in_backward"),
                 ("fp32 eager", "bf16 eager", "fp32 compile", "bf16 compile", "bf16 compile+malloc")),
    "gpt2": (2, 3, 1, ("gpt2 trainer", "gpt2_bf16 trainer", "gpt2_bf16 trainer_in_backward", "gpt2_bf16 trainer_bf16_state"),
             ("fp32 eager", "fp32 compile", "bf16 eager", "bf16 compile", "bf16 compile+malloc")),
}
SHARDED = (*sharding.SHAPES["10.9M"][:-1], 20)  # the larger model of benchmarks/sharding.py, and the steps of a process
HAS_BF16 = "_bf16" in pathlib.Path("/proc/cpuinfo").read_text()  # avx512_bf16, amx_bf16
GOALS = {"cnn": 0.7, "char_gpt": 0.62, "gpt2": 0.87, "ours DDP": 1.1, "ours FULL_SHARD": 1.2}


def environment(threads, malloc):
    result = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    if malloc:
        result["GLIBC_TUNABLES"] = MALLOC
    return result


def lowest_block(argv, threads, malloc):
    """Of all blocks but the first, which warms up."""
    done = subprocess.run([str(arg) for arg in argv], capture_output=True, text=True, env=environment(threads, malloc))
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return min(lines[-1]["cpu_blocks"][1:])


def ours(name, threads, blocks, steps, keeps):
    workload, program = name.split()
    return lowest_block([BIN / "step_overhead", blocks, steps, workload, program, threads], threads, keeps)


def theirs(name, workload, threads, blocks, steps):
    precision, mode = name.removesuffix("+malloc").split()
    return lowest_block([PEERS / "python", SCRIPTS / "torch_cpu.py", workload, blocks, steps, precision, mode, threads], threads,
                        name.endswith("+malloc"))


def programs_of_steps(workload):
    threads, blocks, steps, mine, peers = STEPS[workload]
    programs = {"ours " + name: lambda name=name: ours(name, threads, blocks, steps, keeps=True) for name in mine}
    for name in peers:
        programs["PyTorch " + name] = lambda name=name: theirs(name, workload, threads, blocks, steps)
    return {name: run for name, run in programs.items() if HAS_BF16 or "bf16" not in name}


def programs_of_ranks():
    """A figure is the quarter of a process's steps that is fastest: the slowest of them."""
    ours = {f"ours {name}": lambda strategy=sharding.OURS[name]: sharding.our_steps(BIN / "composer", strategy, SHARDED)
            for name in ("DDP", "FULL_SHARD")}
    theirs = {f"PyTorch {name}": lambda way=sharding.THEIRS[name]: sharding.their_steps(PEERS / "torchrun", way, SHARDED)
              for name in ("DDP", "fully_shard", "FSDP1")}
    return {name: lambda run=run: statistics.quantiles(run())[0] for name, run in (ours | theirs).items()}


class State:
    """The figures so far, {workload: {program: [milliseconds, a round each]}}, in a file; and when to stop."""

    def __init__(self, path, minutes):
        self.path, self.end = path, time.monotonic() + 60 * minutes
        self.samples = json.loads(path.read_text()) if path.exists() else {}

    def add(self, workload, program, value):
        self.samples.setdefault(workload, {}).setdefault(program, []).append(value)
        self.save()

    def forget(self, workload):
        self.samples.pop(workload, None)
        self.save()

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.samples, indent=1))
        part.replace(self.path)


def measure(workload, rounds, state):
    """Returns the figures of all rounds, or None when the time is over before."""
    programs = programs_of_ranks() if workload == "sharding" else programs_of_steps(workload)
    for round_ in range(rounds):
        for name, run in programs.items():
            if len(state.samples.get(workload, {}).get(name, [])) > round_:
                continue
            if time.monotonic() > state.end:
                return None
            state.add(workload, name, run())
            print(f"{workload}, round {round_ + 1}: {name} {state.samples[workload][name][-1]:.2f}", flush=True)
    return {name: state.samples[workload][name][:rounds] for name in programs}


def table(samples, what="CPU ms"):
    lines = [f"| program | {what} a step, median | lowest | highest | rounds |", "|---|---|---|---|---|"]
    for name, values in samples.items():
        lines.append(f"| {name} | {statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f} | {len(values)} |")
    return lines


def best(samples, whose, names=None, of=statistics.median):
    figures = {name: of(values) for name, values in samples.items()
               if name.startswith(whose) and not name.endswith("+malloc") and (names is None or name in names)}
    name = min(figures, key=figures.get)
    return name, figures[name]


def title(workload):
    return workload if HAS_BF16 or workload == "sharding" else f"{workload}, in fp32 on a CPU without bf16 instructions"


def section(workload, samples):
    rows = table(samples, "ms" if workload == "sharding" else "CPU ms")
    lines = [f"## {title(workload)}", "", f"{datetime.date.today()}, load {os.getloadavg()[0]:.0f} at the end.", "", *rows, ""]
    if workload == "sharding":
        lines[4:4] = [f"The 10.9M model on 2 ranks, wall time: of {SHARDED[-1]} steps of a process the lower quartile.", ""]
        for mine, peers in (("ours DDP", ["PyTorch DDP"]), ("ours FULL_SHARD", ["PyTorch fully_shard", "PyTorch FSDP1"])):
            peer, their_time = best(samples, "PyTorch", peers)
            lowest = best(samples, "PyTorch", peers, of=min)[1] / min(samples[mine])
            median = their_time / statistics.median(samples[mine])
            lines.append(f"- {peer} / {mine}: {median:.2f}, by the lowest figures {lowest:.2f}; goal {GOALS[mine]}")
    else:
        (mine, own), (peer, other) = best(samples, "ours"), best(samples, "PyTorch")
        lines.append(f"- {mine} takes {own / other:.2f} of the time of {peer}; goal {GOALS[workload]}")
        (mine, own), (peer, other) = best(samples, "ours", of=min), best(samples, "PyTorch", of=min)
        lines.append("- by the lowest figure of each, since a neighbour on the host may slow whole rounds:")
        lines.append(f"  {mine} {own / other:.2f} of {peer}")
    return "\n".join(lines) + "\n"


def with_section(page, workload, text):
    """The page with `text` in place of the section of that name, or at its end."""
    head, *sections = page.rstrip("\n").split("\n## ")
    names = [one.split("\n")[0] for one in sections]
    if workload not in names:
        return "\n## ".join([head, *sections]) + "\n\n" + text
    sections[names.index(workload)] = text.removeprefix("## ")
    return "\n## ".join([head, *sections]).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="cnn,char_gpt,gpt2,sharding")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=1e6, help="starts no program after that")
    parser.add_argument("--state", type=pathlib.Path, default=REPOSITORY / "build" / "cpu_peers.json")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    state = State(options.state, options.minutes)
    for workload in options.only.split(","):
        samples = measure(workload, options.rounds, state)
        if samples is None:
            print(f"{workload} is not complete: call again", flush=True)
            return 3
        text = section(workload, samples)
        print(text, flush=True)
        if options.write:
            RESULT.write_text(with_section(RESULT.read_text(), title(workload), text))
            state.forget(workload)
    return 0


if __name__ == "__main__":
    sys.exit(main())
