"""What only the outside world can fix is waited for without using up restarts: a full disk, no inodes, a world that a
setting cannot run on."""
import os
import signal
import subprocess
import time
import unittest

import growth_test
import harness

NEEDS_A_DISK = {"model": {"name": "mlp", "sizes": [32, 512, 512, 10]}}  # its checkpoint has 3.5 MB


class DiskTest(harness.JobTest):
    def disk(self, options):
        folder = self.folder / "runs"
        folder.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
                          capture_output=True).returncode != 0:
            self.skipTest("mounting a small tmpfs is not permitted here")
        self.addCleanup(subprocess.run, ["umount", "-l", folder])
        return folder

    def enlarge(self, folder, options):
        subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)

    def launch(self, job, *flags):
        """Returns (process, a function that returns its stderr so far)."""
        with open(self.folder / "err", "w") as err:
            process = subprocess.Popen([str(harness.BIN / "composer"), "-n", "2", *flags, str(job)], cwd=self.folder,
                                       env=self.environment(),
                                       stdout=subprocess.DEVNULL, stderr=err, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and (os.killpg(process.pid, signal.SIGKILL), process.wait()))
        return process, (self.folder / "err").read_text

    def wait_until_told(self, process, said):
        self.wait_for(lambda: "trying again, at no cost" in said() or process.poll() is not None, "the stall is told",
                      60)
        self.assertIsNone(process.poll(), said())

    def expect_done(self, process, said, name):
        self.assertEqual(process.wait(90), 0, said())
        self.assertEqual(said().count("trying again, at no cost"), 1, said())
        self.assertEqual(self.summary(name)["steps"], 40)

    def test_a_full_disk_is_waited_for(self):
        folder = self.disk("size=2m")
        job = self.write_job("full", **NEEDS_A_DISK)
        process, said = self.launch(job, "--max-restarts", "1")
        self.wait_until_told(process, said)
        self.assertRegex(said(), r"rank \d on .* exited with 70: .*No space left on device")
        time.sleep(6)  # longer than a budget of one lasted: restarts at 0, 1, 3 and 7 s
        self.assertIsNone(process.poll(), said())
        self.enlarge(folder, "size=64m")
        self.expect_done(process, said, "full")

    def test_a_disk_that_fills_in_the_middle(self):
        folder = self.disk("size=16m")
        job = self.write_job("fills", callbacks={"throttle": {"seconds": 0.05}}, max_duration="40ba",
                             save_interval="5ba", **NEEDS_A_DISK)
        process, said = self.launch(job)
        self.wait_for_batch("fills", 6)
        subprocess.run(["dd", "if=/dev/zero", f"of={folder}/fill", "bs=1M", "count=32"], capture_output=True)
        self.wait_until_told(process, said)
        time.sleep(4)
        (folder / "fill").unlink()
        self.enlarge(folder, "size=128m")
        self.expect_done(process, said, "fills")

    def test_no_inodes(self):
        folder = self.disk("size=64m,nr_inodes=14")
        job = self.write_job("inodes")
        process, said = self.launch(job)
        self.wait_until_told(process, said)
        self.assertIn("No space left on device", said())
        time.sleep(4)
        self.enlarge(folder, "nr_inodes=10000")
        self.expect_done(process, said, "inodes")

    def test_a_launch_onto_a_full_disk_waits_too(self):
        folder = self.disk("size=64m,nr_inodes=1")
        job = self.write_job("launch")
        process, said = self.launch(job)
        self.wait_for(lambda: "waiting until that has changed" in said() or process.poll() is not None, "it waits")
        self.enlarge(folder, "nr_inodes=10000")
        self.assertEqual(process.wait(60), 0, said())
        self.assertEqual(said().count("waiting until that has changed"), 1, said())

    def test_a_signal_ends_the_wait(self):
        self.disk("size=64m,nr_inodes=1")
        process, said = self.launch(self.write_job("ended"))
        self.wait_for(lambda: "waiting until that has changed" in said(), "it waits")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(10), 128 + signal.SIGTERM, said())


class WorldTest(growth_test.GrowthTest):
    def test_survivors_wait_for_the_node_without_which_they_cannot_train(self):
        job = self.write_job("twelve", determinism="elastic", virtual_shards=12, global_train_batch_size=24,
                             save_interval="5ba", max_duration="80ba", callbacks={"throttle": {"seconds": 0.1}})
        # The first world has all three nodes.
        nodes = [self.node(rank, "--last-call", 4, job, nodes="2:3") for rank in (0, 1, 2)]
        self.train_on("twelve", 3)
        nodes[2].kill()
        nodes[2].wait()
        generations = self.run_folder("twelve") / "logs"
        self.wait_for(lambda: len(list(generations.glob("gen-*"))) >= 4, "two ranks are rejected with 64, repeatedly", 60)
        self.assertEqual([node.poll() for node in nodes[:2]], [None, None])
        nodes[2] = self.node(2, "--last-call", 4, job, nodes="2:3")
        errors = [self.expect_done(node) for node in nodes]
        self.assertIn("the run has trained on 3 ranks and cannot on 2: waiting for more nodes", errors[0] + errors[1])
        self.assertEqual(self.summary("twelve")["steps"], 80)

    def test_a_first_world_that_cannot_run_is_refused(self):
        job = self.write_job("two", determinism="elastic", virtual_shards=12, global_train_batch_size=24)
        nodes = [self.node(rank, job, nodes="2:3") for rank in (0, 1)]
        for node in nodes:
            self.assertIn("virtual_shards: 12", self.expect_done(node, 64))


if __name__ == "__main__":
    unittest.main()
