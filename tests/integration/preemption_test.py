"""Sends a notice of each kind to the real programs: they save a durable checkpoint, exit with 75, and resume; when
other nodes are left, the world shrinks."""
import os
import signal
import subprocess
import time
import unittest

import fake_clouds
import harness


class PreemptionTest(harness.JobTest):
    SLOW = {"callbacks": {"throttle": {"seconds": 0.02}}}

    def cloud(self, kind):
        cloud = kind()
        self.addCleanup(cloud.stop)
        return cloud

    def start_job(self, name, *flags, **changes):
        return self.start(*flags, self.write_job(name, **{**self.SLOW, "max_duration": "5000ba", **changes}))

    def assert_saved_and_left(self, process, name, what):
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn(what, err)
        self.assertIn("the workers checkpoint and stop", err)
        self.assertNotIn("gives no answer", err)
        summary = self.summary(name)
        self.assertEqual(summary["exit_reason"], "preempted")
        out, _ = self.run_composer("checkpoint", "verify", summary["last_checkpoint"])
        return time.monotonic() - began

    def check_cloud(self, kind, word, what):
        cloud = self.cloud(kind)
        name = word.replace("-", "_")
        process = self.start_job(name, "-n", 2, "--preemption", f"{word}=http://{cloud.address}")
        self.wait_for_batch(name, 3)
        self.wait_for(lambda: cloud.asked >= 2, "requests", 20)
        self.assertIsNone(process.poll(), "nothing is announced yet")
        cloud.announce()
        self.assert_saved_and_left(process, name, what)
        self.assertEqual(cloud.refused, [])
        return cloud

    def test_aws(self):
        self.check_cloud(fake_clouds.Aws, "aws", "AWS will terminate this spot instance in 11")

    def test_aws_rebalance(self):
        self.check_cloud(fake_clouds.AwsRebalance, "aws-rebalance", "rebalance recommendation")

    def test_gcp(self):
        self.check_cloud(fake_clouds.Gcp, "gcp", "GCP preempts this instance in ")

    def test_gcp_maintenance(self):
        self.check_cloud(fake_clouds.GcpMaintenance, "gcp", "for maintenance of its host in ")

    def test_azure_is_acknowledged_after_the_checkpoint(self):
        cloud = self.check_cloud(fake_clouds.Azure, "azure", "Azure event Preempt for this machine in ")
        self.assertEqual(cloud.acknowledged, ["602d9444"])

    def test_a_file_and_then_the_same_command_goes_on(self):
        stop = self.folder / "stop"
        process = self.start_job("file", "-n", 2, "--preemption", f"file:{stop}")
        self.wait_for_batch("file", 3)
        stop.write_text("maintenance at noon\n")
        self.assert_saved_and_left(process, "file", "maintenance at noon (file ")
        stopped_at = self.summary("file")["steps"]
        # The file still exists, but its notice is old.
        self.run_composer("-n", 2, "--preemption", f"file:{stop}", self.folder / "file.yaml",
                          f"max_duration={stopped_at + 5}ba")
        self.assertEqual(self.summary("file")["generations"][0]["start_step"], stopped_at)

    def test_the_clouds_sigterm_does_not_cut_the_checkpoint_short(self):
        stop = self.folder / "stop"
        process = self.start_job("both", "-n", 2, "--preemption", f"file:{stop}")
        self.wait_for_batch("both", 3)
        stop.write_text("")
        self.wait_for(lambda: self.heard(process, "the workers checkpoint"), "the notice", 20)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)

    def heard(self, process, text):
        """Returns whether stderr contains it so far; afterwards the pipe is left without a reader."""
        os.set_blocking(process.stderr.fileno(), False)
        self.said = getattr(self, "said", "") + (os.read(process.stderr.fileno(), 65536).decode()
                                                 if self.readable(process) else "")
        return text in self.said

    def readable(self, process):
        import select
        return bool(select.select([process.stderr], [], [], 0)[0])

    def test_a_service_that_is_not_there_is_told_once(self):
        job = self.write_job("alone", **self.SLOW, max_duration="400ba")
        _, err = self.run_composer("-n", 1, "--preemption", f"aws=http://127.0.0.1:{harness.free_port()}", job, timeout=90)
        self.assertEqual(err.count("--preemption: aws at http://127.0.0.1:"), 1, err)

    def test_a_wrong_word_is_a_user_error(self):
        _, err = self.run_composer("--preemption", "awz", self.write_job("wrong"), code=64)
        self.assertIn("did you mean `aws`", err)

    def test_a_program_gets_sigterm(self):
        stop = self.folder / "stop"
        process = self.start("-n", 1, "--preemption", f"file:{stop}", "-c", "sh", "-c",
                             f"touch {self.folder}/up; exec sleep 100")
        self.wait_for((self.folder / "up").exists, "the program")
        stop.write_text("")
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 143, err)
        self.assertIn("the workers get SIGTERM", err)

    def node(self, job, rank, port, *flags):
        return self.start("-n", 1, "--nnodes", "1:2", "--node_rank", rank, "--master_addr", "127.0.0.1",
                          "--master_port", port, *flags, job)

    def test_the_other_node_goes_on(self):
        """Two launchers on this machine are two nodes, of which the second is to be taken away."""
        port, stop = harness.free_port(), self.folder / "stop"
        job = self.write_job("shrinks", **self.SLOW, max_duration="150ba")
        first = self.node(job, 0, port, "--last-call", 5)
        second = self.node(job, 1, port, "--preemption", f"file:{stop}")
        self.wait_for_batch("shrinks", 8, 60)
        stop.write_text("the second node goes\n")
        _, err = second.communicate(timeout=60)
        self.assertEqual(second.returncode, 75, err)
        _, err = first.communicate(timeout=90)
        self.assertEqual(first.returncode, 0, err)
        summary = self.summary("shrinks")
        self.assertEqual(summary["steps"], 150)
        first_turn, second_turn = summary["generations"][0], summary["generations"][-1]
        self.assertEqual((len(summary["generations"]), summary["world_size"]), (2, 1), summary)
        self.assertEqual(second_turn["start_step"], first_turn["end_step"], "no step is lost")
        self.assertIn("going on with the nodes that are left", err)


if __name__ == "__main__":
    unittest.main()
