#!/usr/bin/env python3
"""Checks for false alarms: a job on sound nodes, beside as much other work as there are cores, must never restart.

    benchmarks/calm.py --minutes 30      what ./dev calm runs; writes docs/results/calm.{json,md}

Two launchers on this machine, as two nodes of one rank each (over loopback, so that stream and keepalive are watched as
between hosts), train with composer_worker while burners at normal priority hold every core. Every restart, every "was
lost" and every "hung" is a false positive, since nothing fails. Python 3.11, standard library only.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs
import report
from bounded_job import BoundedJob, free_port

ALARM = re.compile(r"was lost|hung|restart \d+ of|is away|was killed|collateral")
BURNER = "import os\nos.sched_yield()\nwhile True: sum(range(100000))"


def burners(count):
    return [BoundedJob([sys.executable, "-c", BURNER]) for _ in range(count)]


def start_node(stack, binary, rank, port, folder, job, minutes):
    argv = [binary, "-n", 1, "--nnodes", 2, "--node_rank", rank, "--master_addr", "127.0.0.1", "--master_port", port,
            job, f"run_folder={folder}/run", "max_duration=100000000ba"]
    return stack.enter_context(BoundedJob(argv, cwd=programs.REPOSITORY, env={"TMPDIR": str(folder)}))


def alarms(nodes):
    return [line for node in nodes for line in node.output(last=1 << 20).splitlines() if line.startswith("composer: ")
            and ALARM.search(line)]


def run(binary, minutes, extra):
    job = programs.REPOSITORY / "benchmarks" / "gpt_small.yaml"
    with tempfile.TemporaryDirectory(prefix="bench-calm-") as folder, contextlib.ExitStack() as stack:
        for burner in burners(extra):
            stack.enter_context(burner)
        port = free_port()
        nodes = [start_node(stack, binary, rank, port, folder, job, minutes) for rank in (0, 1)]
        log, steps, longest_wait, last = programs.StepLog(f"{folder}/run"), 0, 0.0, None
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(0.05)
            now = time.monotonic()
            new = len(log.new_steps())
            if new:
                longest_wait = max(longest_wait, now - last) if last else 0.0
                steps, last = steps + new, now
            dead = [i for i, node in enumerate(nodes) if not node.running()]
            if dead or (last is None and now > end - 60 * minutes + 120):
                raise RuntimeError(f"node {dead} ended, or no step came\n" + "\n".join(node.output() for node in nodes))
        found = alarms(nodes)
        load = os.getloadavg()[0]
        for node in nodes:
            node.process.terminate()
        codes = [node.process.wait(60) for node in nodes]
        summary = programs.summary(f"{folder}/run")
    return {"minutes": minutes, "burners": extra, "load_at_the_end": load, "steps": steps,
            "longest_wait_for_a_step_s": round(longest_wait, 2),
            "alarms": found, "restarts": summary.get("restarts"), "exit_codes_after_SIGTERM": codes}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--burners", type=int, default=os.cpu_count(), help="processes that hold a core each")
    parser.add_argument("--build", default=programs.REPOSITORY / "build" / "release", help="folder that holds bin/")
    parser.add_argument("--results", type=pathlib.Path, default=programs.REPOSITORY / "docs" / "results")
    options = parser.parse_args()
    binary = programs.Programs(options.build).ours("composer")
    if binary is None:
        return 1
    host = report.machine()
    facts = run(binary, options.minutes, options.burners)
    passed = not facts["alarms"] and facts["restarts"] == 0
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "calm.json").write_text(json.dumps({"machine": host, "facts": facts}, indent=1) + "\n")
    lines = [
        f"# No false alarms in {options.minutes:g} minutes with every core loaded: {'passed' if passed else 'FAILED'}",
        "",
        f"{host['date']}, commit {host['commit']}, {host['cores']} x {host['cpu']}. Made by `./dev calm --minutes {options.minutes:g}`.", ""]
    lines += [f"- {name}: {json.dumps(value)}" for name, value in facts.items()]
    (options.results / "calm.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
