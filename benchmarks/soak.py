"""Bench `soak`: kill -9 of a random worker at a random moment, repeatedly.

A small GPT runs on 2 ranks with a save every 20 steps. Ours is one job that is killed N times in a row; torchrun gets a
fresh job with all its 3 restarts for every kill, which favours it. Seconds are from the kill to the end of the first
step of the new world, as an outside observer sees it in the progress that the run writes (polled every 5 ms). Goal:
every kill recovered, one restart each, median at most 1 s.
SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import random
import signal
import statistics
import tempfile
import time

import programs
from bounded_job import BoundedJob, free_port, processes_with

NAME = "soak"
TITLE = "kill -9 of a random worker: seconds from the kill to the first new step (recovered kills only)"
UNIT, REFERENCE = "s", "torchrun"
KEPT_CHAPTER = "## Mixed faults"  # written by soak_mixed.py
RECOVERY_LIMIT_S = 40
START_LIMIT_S = 60
POLL_S = 0.005
# No world is up again this soon; a line within this time is the old world's last step.
OLD_WORLD_S = 0.1
# Maps name to (flags, environment). By default the workers of every attempt share the agent's store, which may still
# have the Gloo addresses of the previous attempt; the last form gives every attempt its own store.
TORCHRUN_FORMS = {
    "torchrun": ([], {}),
    "torchrun --standalone": (["--standalone"], {}),
    "torchrun --standalone, own store": (["--standalone"], {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}),
}

JOB = programs.REPOSITORY / "benchmarks" / "gpt_small.yaml"


def wait_for(condition, job, limit):
    """Returns the first true value of condition(), or None when the job ended or the limit passed."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        if not job.running():
            return None
        time.sleep(POLL_S)
    return None


def our_workers(run_folder):
    """Returns the pids of the composer_worker processes of the run, which have the run folder in their command line."""
    workers = []
    for pid in processes_with(str(run_folder).encode(), "cmdline"):
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "composer_worker":
                workers.append(pid)
        except OSError:
            pass  # it is gone meanwhile
    return workers


def kill_one_of_ours(job, log, run_folder, last_step, rng):
    """Kills once and returns the result: {"outcome", "seconds", "steps_repeated", "last_step"}."""
    end = time.monotonic() + rng.uniform(0.2, 2.0)
    while time.monotonic() < end:
        last_step = max([last_step, *log.new_steps()])
        time.sleep(POLL_S)
    victims = our_workers(run_folder)
    if not victims:
        return {"outcome": "no worker found", "last_step": last_step}
    os.kill(rng.choice(victims), signal.SIGKILL)
    killed = time.monotonic()
    while time.monotonic() < killed + OLD_WORLD_S:
        last_step = max([last_step, *log.new_steps()])
        time.sleep(POLL_S)
    steps = wait_for(log.new_steps, job, RECOVERY_LIMIT_S)
    if not steps:
        return {"outcome": "stuck" if job.running() else "gave up", "last_step": last_step}
    return {"outcome": "recovered", "seconds": time.monotonic() - killed,
            "steps_repeated": max(0, last_step - steps[0] + 1), "last_step": max(steps)}


def ours(binary, kills, rng):
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as folder:
        run_folder = pathlib.Path(folder) / "run"
        argv = [binary, "-n", 2, JOB, f"run_folder={run_folder}", "max_duration=10000000ba"]
        log, results = programs.StepLog(run_folder), []
        with BoundedJob(argv, cwd=programs.REPOSITORY) as job:
            steps = wait_for(log.new_steps, job, START_LIMIT_S)
            if not steps:
                raise RuntimeError(f"soak: ours made no step\n{job.output()}")
            last_step = max(steps)
            for number in range(kills):
                result = kill_one_of_ours(job, log, run_folder, last_step, rng)
                results.append(result)
                last_step = result["last_step"]
                if result["outcome"] != "recovered":
                    print(f"soak: kill {number + 1} of ours: {result['outcome']}\n{job.output()}")
                    break
                if (number + 1) % 10 == 0:
                    print(f"soak: ours, {number + 1} kills, step {last_step}")
            job.stop(grace=RECOVERY_LIMIT_S)
            facts = facts_of(results)
            facts["restarts_by_summary_json"] = programs.summary(run_folder).get("restarts")
            facts["exit_code_after_SIGTERM"] = job.process.returncode
    return results, facts


def progress_lines(folder):
    """Returns for each rank its [(step, unix time, pid, restart)], from torch_soak_worker.py's files."""
    rows = []
    for path in sorted(pathlib.Path(folder).glob("steps.*")):
        lines = [line.split() for line in path.read_text().split("\n")[:-1]]
        rows.append([(int(s), float(at), int(pid), int(restart)) for s, at, pid, restart in lines])
    return rows


def torchrun_once(torchrun, flags, env, rng):
    """Runs one fresh torchrun job with one kill, and returns the result."""
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as folder:
        argv = [torchrun, *flags, "--nproc-per-node", 2, "--max-restarts", 3, programs.SCRIPTS / "torch_soak_worker.py"]
        with BoundedJob(argv, env={"BENCH_OUT": folder, **env}) as job:
            at_step = rng.randint(5, 100)
            reached = lambda: len(rows := progress_lines(folder)) == 2 and all(r and r[-1][0] >= at_step for r in rows)
            if not wait_for(reached, job, START_LIMIT_S):
                raise RuntimeError(f"soak: torchrun made no step\n{job.output()}")
            time.sleep(rng.uniform(0, 0.5))
            last_step, _, _, restart = progress_lines(folder)[0][-1]
            os.kill(rng.choice([rank[-1][2] for rank in progress_lines(folder)]), signal.SIGKILL)
            killed = time.time()
            new = lambda: [row for row in progress_lines(folder)[0] if row[3] > restart]
            rows = wait_for(new, job, RECOVERY_LIMIT_S)
            if not rows:
                return {"outcome": "stuck" if job.running() else "gave up"}
            return {"outcome": "recovered", "seconds": rows[0][1] - killed, "restarts": rows[0][3] - restart,
                    "steps_repeated": max(0, last_step - rows[0][0] + 1)}


def facts_of(results):
    """Returns counts for the report."""
    recovered = [r for r in results if r["outcome"] == "recovered"]
    facts = {"kills": len(results), "recovered": len(recovered)}
    for outcome in ("stuck", "gave up"):
        facts[outcome] = sum(r["outcome"] == outcome for r in results)
    if recovered:
        facts["slowest_s"] = max(r["seconds"] for r in recovered)
        facts["steps_repeated_median"] = statistics.median(r["steps_repeated"] for r in recovered)
        facts["steps_repeated_most"] = max(r["steps_repeated"] for r in recovered)
        if "restarts" in recovered[0]:
            facts["needed_more_than_one_restart"] = sum(r["restarts"] > 1 for r in recovered)
    return facts


def run(options):
    rng = random.Random(options.seed)
    where = options.programs
    samples, facts = {}, {"seed": options.seed}
    binary = where.ours("composer")
    if binary:
        results, facts["ours"] = ours(binary, options.kills, rng)
        samples["ours"] = [r["seconds"] for r in results if "seconds" in r]
    results = {name: [] for name in TORCHRUN_FORMS}
    for number in range(options.peer_kills):
        for name, (flags, env) in TORCHRUN_FORMS.items():
            flags = [*flags, "--master-port", free_port()] if "--standalone" not in flags else flags
            results[name].append(torchrun_once(where.torch / "torchrun", flags, env, rng))
            print(f"soak: {name}, kill {number + 1}: {results[name][-1]}")
    for name in TORCHRUN_FORMS:
        samples[name] = [r["seconds"] for r in results[name] if "seconds" in r]
        facts[name] = facts_of(results[name])
    return samples, facts
