#!/usr/bin/env python3
"""Soak: a small FULL_SHARD GPT whose processes are killed and stopped 200 times must end bit-equal, and leave nothing.

    ./dev soak mixed                           200 faults, 3 ranks; at most 25 minutes
    ./dev soak mixed --faults 20 --seed 5      a short one
    ./dev soak mixed --folder /tmp/soak        continues a soak that was interrupted

First the same job runs undisturbed. Then faults come at steps spread over the run: one rank, two at once, all; the
spawner, the launcher, both; the rendezvous; everything at once; SIGSTOP of a worker (for good) and of the launcher (for
seconds). A fifth each strikes in a save, in an evaluation and in the start-up after the previous fault. Only the death
of the launcher may end a launch; the same command is then started again. The soak checks: progress after every fault,
nothing alive after a launcher's death, every step once in metrics.jsonl with the undisturbed loss, final checkpoint
bit-equal and valid, no process, no file in the temporary and runtime folders, /dev/shm and /tmp, no cgroup. It exits
with 0 only if all of it holds.
Python 3.11, standard library only. SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs
import report
import soak
from bounded_job import processes_with

STEPS_A_FAULT, SAVE, EVALUATE = 20, 10, 25
RECOVERY_LIMIT_S = 90  # a stopped worker is detected after 20 s
GONE_LIMIT_S = 5
SWEEP_AGE_S = 62  # a start removes what a dead launch has not touched for a minute (launcher/process/leftovers.h)
LEFT_LIMIT_S = 80  # by then, what another job has without naming it in a process is gone
MOST_FAILURES = 30
POLL_S = 0.005
# The weights are counts out of 200.
KINDS = {"rank": 62, "two ranks": 24, "all ranks": 14, "spawner": 22, "launcher": 22, "launcher and spawner": 8,
         "rendezvous": 24, "stop worker": 8, "stop launcher": 10, "everything": 6}
MOMENTS = {"step": 80, "save": 40, "evaluation": 40, "start-up": 40}
PLACES = ("/dev/shm/composer*", "/tmp/composer-??????", "/sys/fs/cgroup/**/composer-*")


def spread(weights, count, rng):
    """Returns `count` names in random order, as often as their weights say."""
    total, names = sum(weights.values()), []
    for name, weight in weights.items():
        names += [name] * max(1, round(weight * count / total))
    rng.shuffle(names)
    while len(names) < count:
        names.append(rng.choice(list(weights)))
    return names[:count]


def things():
    """Returns {path} of what our programs keep where it must not outlive them."""
    found = set()
    for pattern in PLACES:
        found |= {str(path) for path in pathlib.Path("/").glob(pattern[1:])}
    return found


class Run:
    """The job, launched as often as necessary. It finds its processes by a tag in their environment."""

    def __init__(self, options, folder, name, max_duration):
        self.folder, self.run_folder = folder, folder / name
        self.tag = f"SOAK_TAG={folder}"
        for sub in ("run", "tmp"):
            (folder / sub).mkdir(mode=0o700, exist_ok=True)
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", "COMPOSER_RUNTIME_DIR": str(folder / "run"),
                    "TMPDIR": str(folder / "tmp")}
        self.env.update([self.tag.split("=")])
        self.argv = [options.bin / "composer", "-n", options.ranks, "--max-restarts", 1000,
                     programs.REPOSITORY / "benchmarks" / "gpt_small.yaml",
                     f"run_folder={self.run_folder}", f"run_name={name}", f"max_duration={max_duration}ba",
                     f"save_interval={SAVE}ba",
                     f"eval_interval={EVALUATE}ba", "model.n_layers=2", "model.d_model=32", "model.max_seq_len=32",
                     "train_dataloader.max_seq_len=32",
                     f"global_train_batch_size={2 * options.ranks}", "+fsdp_config={sharding_strategy: FULL_SHARD}",
                     "+save_memory_interval=5ba", "+algorithms={ema: {half_life: 50ba}}",
                     "+eval_dataloader={name: text_bytes, path: .deps/data/kjv.txt, split: test, max_seq_len: 32, batch_size: 4}",
                     "+eval_subset_num_batches=20"]
        self.argv = [str(argument) for argument in self.argv]
        self.process, self.launches, self.expected_death = None, 0, False

    def launch(self):
        self.launches += 1
        self.expected_death = False
        with (self.folder / "output.log").open("ab") as log:
            self.process = subprocess.Popen(self.argv, env=self.env, cwd=programs.REPOSITORY, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def tagged(self):
        return processes_with(self.tag.encode(), "environ")

    def people(self):
        """Returns {"launcher": [pid], "workers": [...], "spawner": [...], "rendezvous": [...]} of the live ones."""
        found = {"launcher": [self.process.pid] if self.process.poll() is None else [], "workers": [], "spawner": [],
                 "rendezvous": []}
        parents = set()
        for pid in self.tagged():
            try:
                argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            name, parent = re.search(r"Name:\t(.*)", status)[1], int(re.search(r"PPid:\t(\d+)", status)[1])
            if argv[0].endswith(b"composer_worker"):
                found["workers"].append(pid)
                parents.add(parent)
            elif re.search("spawn", name):
                found["spawner"].append(pid)
            elif b"serve" in argv or "serve" in name:
                found["rendezvous"].append(pid)
        found["spawner"] = sorted((parents - {self.process.pid}) or found["spawner"])
        return found

    def last_record(self):
        """Returns (time/batch, wall) of the newest line of metrics.jsonl, (0, 0) without one."""
        try:
            with (self.run_folder / "metrics.jsonl").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
                lines = log.read().split(b"\n")
            record = json.loads(lines[-2])
            return record["time/batch"], record["wall"]
        except (OSError, ValueError, IndexError, KeyError):
            return 0, 0

    def tail(self, count=15):
        text = (self.folder / "output.log").read_bytes()[-20000:].decode(errors="replace")
        return "\n".join("    | " + line[-200:] for line in re.split(r"[\r\n]+", text)[-count:])

    def end_all(self):
        for _ in range(200):
            pids = self.tagged()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process and self.process.poll()
            if not pids:
                return
            time.sleep(0.02)


class Soak:
    def __init__(self, options):
        self.options = options
        self.folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="soak-", dir="/tmp"))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.state_file = self.folder / "state.json"
        self.state = {"seed": options.seed, "faults": options.faults, "ranks": options.ranks, "done": [],
                      "failures": [], "seconds": 0, "launches": 0, "before": sorted(things())}
        if self.state_file.exists():
            self.state = json.loads(self.state_file.read_text())
            options.ranks = self.state["ranks"]
            print(f"going on in {self.folder}: {len(self.state['done'])} of {self.state['faults']} faults are done")
        rng = random.Random(self.state["seed"])
        count = self.state["faults"]
        self.plan = list(zip(spread(KINDS, count, rng), spread(MOMENTS, count, rng)))
        self.steps = STEPS_A_FAULT * (count + 4)
        self.run = Run(options, self.folder, "disturbed", self.steps)
        self.began = time.monotonic()

    def save(self):
        self.state["seconds"] += time.monotonic() - self.began
        self.began = time.monotonic()
        self.state["launches"] += self.run.launches
        self.run.launches = 0
        temporary = self.state_file.with_suffix(".new")
        temporary.write_text(json.dumps(self.state, indent=1))
        temporary.rename(self.state_file)

    def fail(self, what, tail=""):
        print(f"FAILED after {len(self.state['done'])} faults: {what}\n{tail}")
        self.state["failures"].append(what)
        if len(self.state["failures"]) >= MOST_FAILURES:
            self.save()
            raise SystemExit(f"soak: {MOST_FAILURES} failures, given up; {self.folder} is kept")

    def reference(self):
        undisturbed = Run(self.options, self.folder, "undisturbed", self.steps)
        if programs.summary(undisturbed.run_folder).get("exit_reason") == "done":
            return undisturbed
        undisturbed.launch()
        code = undisturbed.process.wait()
        if code != 0:
            raise SystemExit(f"soak: the undisturbed run ended with {code}\n{undisturbed.tail()}")
        print(f"undisturbed: {self.steps} steps")
        return undisturbed

    def keep_alive(self):
        """Starts the job when it is not running. Returns False when it is complete."""
        code = self.run.process.poll() if self.run.process else None
        if self.run.process and code is None:
            return True
        if code == 0:
            return False
        if self.run.process and not self.run.expected_death:
            self.fail(f"the launcher ended with {code} by itself, after {self.state['done'][-1:]}", self.run.tail())
        deadline = time.monotonic() + GONE_LIMIT_S
        while (left := self.run.tagged()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if left:
            names = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()[:80]
                     for pid in left if pathlib.Path(f"/proc/{pid}").exists()]
            self.fail(f"alive {GONE_LIMIT_S} s after the launcher: {names}")
            self.run.end_all()
        self.run.launch()
        return True

    def wait_until(self, condition):
        """Returns True once condition() is; False when the run is complete or no record came for RECOVERY_LIMIT_S
        (reported as a failure)."""
        newest, heard = self.run.last_record(), time.monotonic()
        while self.keep_alive():
            record = self.run.last_record()
            if record != newest:
                newest, heard = record, time.monotonic()
            if condition(record):
                return True
            if time.monotonic() > heard + RECOVERY_LIMIT_S:
                self.fail(
                    f"no step for {RECOVERY_LIMIT_S} s after {self.state['done'][-1:]}; living: {self.run.people()}",
                    self.run.tail())
                self.run.end_all()
                self.run.expected_death, heard = True, time.monotonic()
            time.sleep(POLL_S)
        return False

    def come_to(self, number, moment, rng):
        """Waits for the moment of a fault. Returns False when the run is complete."""
        if moment == "start-up":
            self.keep_alive()
            time.sleep(rng.uniform(0, 1))
            return self.keep_alive()
        after = time.time()
        target = STEPS_A_FAULT * (number + 1)
        every = {"step": 1, "save": SAVE, "evaluation": EVALUATE}[moment]
        target = max(target, self.run.last_record()[0] + 1)
        target += -target % every  # the next save or evaluation
        if not self.wait_until(lambda record: record[0] >= target and record[1] > after):
            return False
        time.sleep(rng.uniform(0, 0.2 if moment == "step" else 0.06))
        return True

    def strike(self, kind, rng):
        """Sends the signals, and returns what was hit."""
        people = self.run.people()
        workers = people["workers"]
        victims = {"rank": lambda: rng.sample(workers, min(1, len(workers))),
                   "two ranks": lambda: rng.sample(workers, min(2, len(workers))),
                   "all ranks": lambda: workers, "spawner": lambda: people["spawner"],
                   "launcher": lambda: people["launcher"],
                   "launcher and spawner": lambda: people["launcher"] + people["spawner"],
                   "rendezvous": lambda: people["rendezvous"],
                   "stop worker": lambda: rng.sample(workers, min(1, len(workers))),
                   "stop launcher": lambda: people["launcher"], "everything": self.run.tagged}[kind]()
        if self.run.process.pid in victims and kind != "stop launcher":
            self.run.expected_death = True
        for pid in victims:
            try:
                os.kill(pid, signal.SIGSTOP if kind.startswith("stop") else signal.SIGKILL)
            except ProcessLookupError:
                pass
        if kind == "stop launcher" and victims:
            time.sleep(rng.uniform(1, 4))
            if self.run.process.poll() is None:
                os.kill(victims[0], signal.SIGCONT)
        return len(victims)

    def disturb(self):
        deadline = time.monotonic() + 60 * self.options.minutes
        while len(self.state["done"]) < len(self.plan) and time.monotonic() < deadline:
            number = len(self.state["done"])
            kind, moment = self.plan[number]
            rng = random.Random(f"{self.state['seed']}-{number}")
            if not self.come_to(number, moment, rng):
                break
            writing = any(not (folder / "manifest.json").exists()
                          for folder in (self.run.run_folder / "checkpoints").glob("ep*"))
            hit = self.strike(kind, rng)
            self.state["done"].append({"fault": kind, "moment": moment, "step": self.run.last_record()[0], "hit": hit,
                                       "while_saving": writing})
            self.save()
            if (number + 1) % 10 == 0:
                print(
                    f"{number + 1} faults, step {self.run.last_record()[0]} of {self.steps}, {self.state['seconds']:.0f} s, {len(self.state['failures'])} failures")
        self.complete = len(self.state["done"]) == len(self.plan)

    def finish(self, undisturbed):
        if not self.complete:
            ended = self.run.process is not None and self.run.process.poll() == 0
            print(
                f"{'the run ended' if ended else 'out of time'} after {len(self.state['done'])} faults: --folder {self.folder} goes on")
            self.run.end_all()
            self.save()
            return False
        self.wait_until(lambda record: False)  # until it is complete
        self.compare(undisturbed)
        time.sleep(1)
        self.look_for_leftovers()
        self.save()
        return not self.state["failures"]

    def compare(self, undisturbed):
        composer = self.options.bin / "composer"
        newest = [programs.summary(run.run_folder).get("last_checkpoint", "") for run in (undisturbed, self.run)]
        for command in (["diff", *newest], ["verify", str(self.run.run_folder / "checkpoints")]):
            done = subprocess.run([composer, "checkpoint", *command], capture_output=True, text=True,
                                  cwd=programs.REPOSITORY)
            if done.returncode != 0:
                self.fail(f"checkpoint {' '.join(command)}: {done.stdout[-500:]}{done.stderr[-500:]}")
        losses = []
        for run in (undisturbed, self.run):
            rows = [json.loads(line) for line in (run.run_folder / "metrics.jsonl").read_text().splitlines()]
            losses.append([(row["time/batch"], row["loss/train/total"]) for row in rows if "loss/train/total" in row])
        if [step for step, _ in losses[1]] != list(range(1, self.steps + 1)):
            self.fail(f"metrics.jsonl has {len(losses[1])} training lines, not each of {self.steps} steps once")
        elif losses[0] != losses[1]:
            self.fail("the losses differ from the undisturbed run's")

    def look_for_leftovers(self):
        if left := self.run.tagged():
            self.fail(f"processes are left: {left}")
        for sub in ("run", "tmp"):
            if left := [str(path) for path in (self.folder / sub).rglob("*")]:
                self.fail(f"files are left: {left[:10]}")
        for second in range(LEFT_LIMIT_S):  # other jobs on this machine come and go
            if second == SWEEP_AGE_S:  # what a launch left that died with its spawner, the next start removes
                subprocess.run([self.options.bin / "composer", "-n", "1", "-c", "true"], env=self.run.env, check=True)
            left = sorted(path for path in things() - set(self.state["before"]) if not self.in_use(path))
            if not left:
                break
            time.sleep(1)
        if left:
            self.fail(f"left: {left[:10]}")
        if left := [str(path) for path in self.run.run_folder.rglob("*") if ".tmp-" in path.name
                    or path.name.endswith(".new")]:
            self.fail(f"left in the run folder: {left[:10]}")

    @staticmethod
    def in_use(path):
        """Returns whether another job on this machine uses it."""
        if path.startswith("/sys/"):
            return bool(pathlib.Path(path, "cgroup.procs").read_text().strip()) if pathlib.Path(
                path, "cgroup.procs").exists() else True
        return any(processes_with(path.encode(), where) for where in ("environ", "cmdline", "maps"))

    def row(self, good):
        state, host = self.state, report.machine()
        hits = {moment: sum(1 for fault in state["done"] if fault["moment"] == moment) for moment in MOMENTS}
        totals = programs.summary(self.run.run_folder).get("all_launches", {})
        kinds = ", ".join(f"{kind} {sum(1 for fault in state['done'] if fault['fault'] == kind)}" for kind in KINDS)
        return (
            f"| {host['date']} | {host['commit']} | {state['seed']} | {len(state['done'])} | {kinds} | {', '.join(f'{k} {v}' for k, v in hits.items())}; "
            f"while a checkpoint was written {sum(fault['while_saving'] for fault in state['done'])} | {self.steps} steps, {state['launches']} launches, "
            f"{totals.get('restarts', '?')} restarts, {state['seconds'] / 60:.1f} min | {'bit-equal, nothing left' if good else '; '.join(state['failures'])[:400]} |")

    def write(self, good):
        """Adds a row to docs/results/soak.md, below what run_all.py has written there."""
        page = self.options.results / "soak.md"
        text = page.read_text() if page.exists() else ""
        if soak.KEPT_CHAPTER not in text:
            text = text.rstrip("\n") + f"\n\n{soak.KEPT_CHAPTER}\nA small GPT, FULL_SHARD on {self.options.ranks} CPU ranks with EMA and memory snapshots; made by " \
                "`./dev soak mixed`.\n\n| date | commit | seed | faults | kinds | moments | run | result |\n|---|---|---|---|---|---|---|---|\n"
        page.write_text(text + self.row(good) + "\n")


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--minutes", type=float, default=25, help="no fault after these; --folder goes on")
    parser.add_argument("--folder", type=lambda text: pathlib.Path(text).resolve(),
                        help="short; kept; default: a new one in /tmp")
    parser.add_argument("--bin", type=lambda text: pathlib.Path(text).resolve(),
                        default=programs.REPOSITORY / "build/release/bin")
    parser.add_argument("--results", type=pathlib.Path, default=programs.REPOSITORY / "docs" / "results",
                        help="folder whose soak.md gets a row")
    parser.add_argument("--no-row", action="store_true", help="leave soak.md alone")
    options = parser.parse_args()
    mixed = Soak(options)
    print(f"seed {mixed.state['seed']}, {mixed.state['faults']} faults, folder {mixed.folder}")
    good = False
    try:
        undisturbed = mixed.reference()
        mixed.disturb()
        good = mixed.finish(undisturbed)
        if mixed.complete and not options.no_row:
            mixed.write(good)
        print(mixed.row(good))
    finally:
        mixed.run.end_all()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
