"""Runs composer_worker without our launcher: ranks are started by torchrun, by srun or by a shell loop."""
import os
import pathlib
import random
import subprocess
import unittest

import harness

WORKER = harness.BIN / "composer_worker"
TORCHRUN = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers")) / "torch211/bin/torchrun"


class OtherLaunchersTest(harness.JobTest):
    def run_ranks(self, job, environments):
        """Runs one worker for each environment. Returns [(code, stderr)]."""
        processes = []
        for extra in environments:
            environment = dict(self.environment(), OMP_NUM_THREADS="1", **extra)
            processes.append(subprocess.Popen([str(WORKER), str(job)], cwd=self.folder, env=environment, text=True,
                                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        results = []
        for process in processes:
            try:
                _, err = process.communicate(timeout=90)
            finally:
                process.kill()
            results.append((process.returncode, err))
        return results

    def checkpoints(self, name):
        return sorted(p.name for p in (self.run_folder(name) / "checkpoints").iterdir()
                      if (p / "manifest.json").exists())

    def test_ranks_meet_at_the_master(self):
        job, port = self.write_job("bare"), harness.free_port()
        results = self.run_ranks(job,
                                 [{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                                   "LOCAL_WORLD_SIZE": "2",
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for rank in range(2)])
        self.assertEqual([code for code, _ in results], [0, 0], results)
        self.assertEqual(self.metrics("bare")[-1]["time/batch"], 40)
        # The same job under our own launcher ends in the same checkpoint.
        ours = self.write_job("ours")
        self.run_composer("-n", 2, ours)
        newest = [str(self.run_folder(name) / "checkpoints" / self.checkpoints(name)[-1]) for name in ("bare", "ours")]
        self.assert_same_state(*newest)

    def test_tasks_of_srun(self):
        job, step = self.write_job("slurm"), str(random.randrange(1, 700))
        results = self.run_ranks(job,
                                 [{"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": str(rank),
                                   "SLURM_NODEID": "0",
                                   "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost",
                                   "SLURM_JOB_ID": step}
                                  for rank in range(2)])
        self.assertEqual([code for code, _ in results], [0, 0], results)
        self.assertEqual(self.metrics("slurm")[-1]["time/batch"], 40)

    def test_a_master_that_is_not_there(self):
        job = self.write_job("lost", dist_timeout=2)
        [(code, err)] = self.run_ranks(job,
                                       [{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                         "MASTER_PORT": str(harness.free_port())}])
        self.assertEqual(code, 69, err)
        self.assertIn("rank 1 cannot reach the store at 127.0.0.1:", err)

    def test_nowhere_to_meet(self):
        [(code, err)] = self.run_ranks(self.write_job("nowhere"), [{"RANK": "0", "WORLD_SIZE": "2"}])
        self.assertEqual(code, 64, err)
        self.assertIn("neither COMPOSER_HUB nor MASTER_ADDR and MASTER_PORT are set", err)

    @unittest.skipUnless(TORCHRUN.exists(), "no torchrun here: tools/peers_setup.sh")
    def test_torchrun(self):
        # With c10d the store is the agent's, and with static the worker's own.
        for name, flags in (("elastic", ["--standalone"]), ("static", [f"--master-port={harness.free_port()}"])):
            environment = dict(self.environment(), OMP_NUM_THREADS="1")
            ran = subprocess.run([str(TORCHRUN), "--nproc-per-node=2", *flags, "--no-python", str(WORKER),
                                  str(self.write_job(name))],
                                 cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120,
                                 stdin=subprocess.DEVNULL)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(self.metrics(name)[-1]["time/batch"], 40)


if __name__ == "__main__":
    unittest.main()
