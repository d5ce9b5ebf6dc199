"""With snapshots in memory, a crashed worker and a lost node cost no more than the steps since the last snapshot, and
the end is bit-equal."""
import os
import pathlib
import signal
import socket
import unittest

import harness


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class PeerMemoryTest(harness.JobTest):
    def undisturbed(self):
        self.run_composer("-n", 2, self.write_job("calm", save_interval="40ba"))
        return self.newest_checkpoint("calm")

    def leftovers(self):
        return {p.name for p in pathlib.Path("/dev/shm").glob("composer-*")}

    def test_a_crashed_worker_starts_from_the_snapshot(self):
        calm = self.undisturbed()
        before = self.leftovers()
        for rank in (0, 1):
            name = f"crash-{rank}"
            job = self.write_job(name, save_interval="40ba", save_memory_interval="5ba",
                                 callbacks={"fail_at": {"rank": rank, "batch": 23}, "throttle": {"seconds": 0.02}})
            _, err = self.run_composer("-n", 2, job)
            summary = self.summary(name)
            self.assertEqual(summary["restarts"], 1, err)
            self.assertEqual(summary["generations"][1]["start_step"], 20, err)
            self.assert_same_state(calm, self.newest_checkpoint(name))
        self.assertEqual(self.leftovers() - before, set(), "snapshots go with the launcher")

    def test_a_newer_checkpoint_wins(self):
        job = self.write_job("both", save_interval="11ba", save_async=False, save_memory_interval="5ba",
                             callbacks={"fail_at": {"rank": 1, "batch": 24}, "throttle": {"seconds": 0.02}})
        _, err = self.run_composer("-n", 2, job)
        self.assertEqual(self.summary("both")["generations"][1]["start_step"], 22, err)

    def test_a_killed_launcher_leaves_no_snapshots(self):
        before = self.leftovers()
        process = self.start("-n", 2, self.write_job("murdered", save_memory_interval="5ba",
                                                     callbacks={"throttle": {"seconds": 0.05}}))
        self.wait_for_batch("murdered", 12)
        self.assertNotEqual(self.leftovers() - before, set())
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.wait_for(lambda: self.leftovers() <= before, "the snapshots of a killed launcher are gone", 10)

    def test_a_lost_node_starts_from_its_neighbours_copy(self):
        calm = self.undisturbed()
        port = harness.free_port()
        job = self.write_job("nodes", save_interval="40ba", save_memory_interval="5ba",
                             callbacks={"throttle": {"seconds": 0.1}})
        token = dict(self.environment(), COMPOSER_TOKEN="a-token-for-this-test-of-32-characters")
        nodes = []
        for rank in range(3):
            nodes.append(self.start("-n", 1, "--nnodes", "2:3", "--node_rank", rank, "--rdzv-endpoint",
                                    f"127.0.0.1:{port}", "--last-call", 1, job, env=token))
            if rank == 0:  # on one host any of them might serve, and node 2 will be killed
                self.wait_for(lambda: listens(port), "the rendezvous of node 0")
        self.wait_for_batch("nodes", 13)
        os.kill(nodes[2].pid, signal.SIGKILL)
        outputs = [node.communicate(timeout=60) for node in nodes]
        self.assertEqual([node.returncode for node in nodes[:2]], [0, 0], outputs)
        generations = self.summary("nodes")["generations"]
        self.assertEqual(len(generations), 2, outputs)
        self.assertGreaterEqual(generations[1]["start_step"], 10, outputs[0][1])
        self.assertEqual(generations[1]["start_step"] % 5, 0)
        self.assertLessEqual(generations[1]["recomputed_steps"], 6)
        self.assertEqual(self.summary("nodes")["steps"], 40)
        del calm  # three ranks, then two: another order of sums


if __name__ == "__main__":
    unittest.main()
