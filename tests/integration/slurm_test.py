"""Tests under a real Slurm (slurm_cluster.py: two virtual nodes here): places, ranks, requeue with resume, kills.

Skipped, with the reason, where no slurmd can run."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import harness
import slurm_cluster

COMPOSER = harness.BIN / "composer"
SAY = 'echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK of $LOCAL_WORLD_SIZE node $NODE_RANK master $MASTER_ADDR"'
WHY_NOT = slurm_cluster.why_not()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class SlurmTest(harness.JobTest):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="composer-slurm-")
        cls.cluster = slurm_cluster.Cluster(cls.place, 2)
        try:
            cls.cluster.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        shutil.rmtree(cls.place)

    def srun(self, *words, check=True):
        return self.cluster.run("srun", "--kill-on-bad-exit=0", *words, check=check, cwd=self.folder)

    def said(self, text):
        """Returns what the ranks printed, without the prefixes of srun and the launcher."""
        return sorted(re.findall(r"rank \d+ of \d+ local \d+ of \d+ node \d+ master \S+", text))

    def test_one_launcher_a_node(self):
        done = self.srun("--nodes=2", "--ntasks-per-node=1", COMPOSER, "-n2", "--tee", "-c", "sh", "-c", SAY)
        lines = self.said(done.stdout + done.stderr)
        self.assertEqual([line.rsplit(" ", 2)[0] for line in lines],
                         [f"rank {r} of 4 local {r % 2} of 2 node {r // 2}" for r in range(4)],
                         done.stdout + done.stderr)
        self.assertEqual(len({line.rsplit(" ", 1)[1] for line in lines}), 1, "one master")

    def test_one_task_a_rank(self):
        done = self.srun("--nodes=2", "--ntasks-per-node=2", COMPOSER, "--tee", "-c", "sh", "-c", SAY)
        self.assertEqual([line.rsplit(" ", 4)[0] for line in self.said(done.stdout + done.stderr)],
                         [f"rank {r} of 4 local {r % 2} of 2" for r in range(4)], done.stdout + done.stderr)

    def test_explain_names_the_variables(self):
        done = self.srun("--nodes=2", "--ntasks-per-node=1", COMPOSER, "--explain", "-c", "true")
        self.assertRegex(done.stdout, r"(?m)^slurm rank +1 of 2 +environment SLURM_PROCID, SLURM_STEP_NUM_TASKS$")
        self.assertRegex(done.stdout, r"(?m)^nnodes +2 +Slurm$")
        self.assertRegex(done.stdout, r"(?m)^rendezvous +n0:6\d{4} +Slurm$")

    def test_node_lists_as_scontrol_reads_them(self):
        chance = random.Random(1)

        def number():
            return str(chance.randrange(120)).zfill(chance.choice([0, 0, 2, 3]))

        def part():
            text = "".join(chance.choice("abn-") for _ in range(chance.randrange(1, 4))).lstrip("-") + "x"
            for _ in range(chance.randrange(3)):
                ranges = []
                for _ in range(chance.randrange(1, 4)):
                    low = number()
                    ranges.append(low if chance.random() < 0.5 else f"{low}-{int(low) + chance.randrange(12)}")
                text += f"[{','.join(ranges)}]"
            return text
        for _ in range(25):
            text = ",".join(part() for _ in range(chance.randrange(1, 4)))
            names = self.cluster.run("scontrol", "show", "hostnames", text).stdout.split()
            for node in (0, len(names) - 1):
                environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0",
                               "SLURM_STEP_NODELIST": text, "SLURM_NODEID": str(node),
                               "SLURM_STEP_NUM_TASKS": str(len(names)),
                               "SLURM_STEP_TASKS_PER_NODE": f"1(x{len(names)})", "SLURM_PROCID": str(node),
                               "SLURM_LOCALID": "0"}
                done = subprocess.run([COMPOSER, "--explain", "-c", "true"], env=environment, capture_output=True,
                                      text=True, timeout=20)
                self.assertEqual(done.returncode, 0, f"{text}: {done.stderr}")
                self.assertIn(f"{len(names)}, first {names[0]} ", done.stdout, text)

    def test_a_batch_script_without_srun_is_told(self):
        out = self.folder / "bare.log"
        self.cluster.run("sbatch", "--wait", "--nodes=2", f"--output={out}", "--wrap", f"{COMPOSER} -c true",
                         cwd=self.folder)
        self.assertIn("this Slurm job has 2 nodes", out.read_text())

    def submit(self, script, *arguments, options=(), **variables):
        """Submits a script of deploy/slurm. Returns the job id and the path of its output."""
        environment = dict(self.cluster.environment, COMPOSER=str(COMPOSER), **variables)
        done = subprocess.run(["sbatch", "--parsable", f"--output={self.folder}/%j.log", *options,
                               str(harness.ROOT / "deploy/slurm" / script), *map(str, arguments)],
                              env=environment, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()

        def end():
            self.cluster.run("scancel", job, check=False)
            self.wait_for(lambda: self.cluster.job(job)["JobState"] not in ("RUNNING", "COMPLETING"), "the job's end",
                          40)
        self.addCleanup(end)
        return job, self.folder / f"{job}.log"

    def wait_for_state(self, job, state, log, timeout=150):
        deadline = time.monotonic() + timeout
        while self.cluster.job(job)["JobState"] != state:
            if time.monotonic() > deadline:
                self.fail(
                    f"job {job} is {self.cluster.job(job)['JobState']}, not {state}\n{log.read_text() if log.exists() else ''}\n{self.cluster.logs()}")
            time.sleep(0.05)

    def test_a_requeued_job_goes_on_from_its_checkpoint(self):
        """Sends Slurm's signal before the time limit by hand: all nodes save at one step, and Slurm runs the script
        again."""
        job_file = self.write_job("again", max_duration="60ba", callbacks={"throttle": {"seconds": 0.05}})
        job, log = self.submit("many_nodes.sbatch", job_file)
        self.wait_for_batch("again", 8, 60)
        self.cluster.run("scancel", "--signal=USR1", job)
        self.wait_for_state(job, "COMPLETED", log)
        text = log.read_text()
        self.assertIn("SIGUSR1: the workers checkpoint and stop", text)
        self.assertIn(f"Slurm job {job} is requeued (restart 1)", text)
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")
        batches = [m["time/batch"] for m in self.metrics("again") if "time/batch" in m]
        self.assertEqual(sorted(set(batches)), sorted(batches), "no step was done twice")
        summary = self.summary("again")
        self.assertEqual(summary["steps"], 60)
        self.assertGreaterEqual(summary["generations"][0]["start_step"], 8)
        self.assertEqual(summary["world_size"], 2)

    def test_a_cancelled_job_saves_and_stays_away(self):
        job_file = self.write_job("cancelled", max_duration="2000ba", callbacks={"throttle": {"seconds": 0.05}})
        job, log = self.submit("many_nodes.sbatch", job_file)
        self.wait_for_batch("cancelled", 3, 60)
        self.cluster.run("scancel", job)
        self.wait_for_state(job, "CANCELLED", log)
        self.assertEqual(self.cluster.job(job)["Restarts"], "0")
        self.wait_for(lambda: self.summary("cancelled")["exit_code"] == 75, "the summary", 10)
        self.assertGreaterEqual(self.summary("cancelled")["steps"], 3)

    def test_a_job_without_requeue_says_so(self):
        job_file = self.write_job("never", max_duration="2000ba", callbacks={"throttle": {"seconds": 0.05}})
        environment = dict(self.cluster.environment)
        process = subprocess.Popen(["srun", "--nodes=2", "--ntasks-per-node=1", str(COMPOSER), str(job_file)],
                                   env=environment, cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   text=True)
        self.addCleanup(process.kill)
        self.wait_for_batch("never", 3, 60)
        process.send_signal(signal.SIGUSR1)  # srun forwards it
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("is not a batch job and cannot be requeued", err)

    def test_a_file_announces_the_end(self):
        job_file = self.write_job("noticed", max_duration="2000ba", callbacks={"throttle": {"seconds": 0.05}})
        stop = self.folder / "stop"
        job, log = self.submit("one_node.sbatch", job_file, COMPOSER_PREEMPTION=f"file:{stop}",
                               COMPOSER_REQUEUE="false")
        self.wait_for_batch("noticed", 3, 60)
        stop.write_text("the rack is moved at noon\n")
        self.wait_for_state(job, "FAILED", log)  # Slurm's state for every exit code but 0
        self.assertEqual(self.cluster.job(job)["ExitCode"], "75:0")
        self.assertIn("the rack is moved at noon", log.read_text())

    def test_the_other_scripts(self):
        """Uses as many tasks as there are cores here; container.sbatch needs a cluster with pyxis."""
        for script, options, variables in (("task_per_gpu.sbatch", ["--ntasks-per-node=2"], {}),
                                           ("spot.sbatch", [], {"COMPOSER_PREEMPTION": "auto"})):
            name = script.split(".")[0]
            job, log = self.submit(script, self.write_job(name, max_duration="20ba"), options=options, **variables)
            self.wait_for_state(job, "COMPLETED", log)
            self.assertEqual(self.summary(name)["steps"], 20, log.read_text())

    def left(self, mark):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()}")
            except OSError:
                pass
        return found

    def test_sigkill_of_srun_leaves_nothing(self):
        mark = f"COMPOSER_TEST_MARK={self.folder}"
        ready = self.folder / "ready"
        program = f"setsid sleep 1000 & sleep 1000 & touch {ready}-$RANK; wait"
        process = subprocess.Popen(["srun", "--nodes=2", "--ntasks-per-node=1", str(COMPOSER), "-c", "sh", "-c",
                                    program],
                                   env=dict(self.cluster.environment, COMPOSER_TEST_MARK=str(self.folder)),
                                   cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: all(pathlib.Path(f"{ready}-{r}").exists() for r in (0, 1)), "two workers", 40)
        process.send_signal(signal.SIGKILL)
        process.wait()
        began = time.monotonic()
        own = {"slurmstepd", "srun"}
        self.wait_for(lambda: not [p for p in self.left(mark.encode()) if not own & set(re.split(r"[ /:]", p))],
                      f"the end of {self.left(mark.encode())}", 10)
        print(f"\nall gone {time.monotonic() - began:.2f} s after SIGKILL of srun")


if __name__ == "__main__":
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main()
