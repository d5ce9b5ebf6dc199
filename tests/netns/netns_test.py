"""Several hosts, each a network namespace with its own `composer`: nodes die, cables are cut, links are slow. Every run
must end in the right state and report the right cause. Prints the times beside the goals; only generous limits are
asserted, since the machine may be loaded.

All tests, or those named, run four at a time (`--jobs N`), each in a process of its own: they mostly wait.

COMPOSER_BIN is the folder with composer. FAKE_WORKER replaces composer_worker (default: ../tests/fake_worker, relative
to it). COMPOSER_WORKER is the real one (default: beside composer; its tests are skipped when it is not built).
SPDX-License-Identifier: Apache-2.0"""
import argparse
import concurrent.futures
import json
import os
import re
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import hosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("COMPOSER_BIN", ROOT / "build/release/bin"))
FAKE_WORKER = pathlib.Path(os.environ.get("FAKE_WORKER", BIN.parent / "tests/fake_worker"))
WHY_NOT = hosts.why_not()
CRASH_GOAL_S, SILENT_GOAL_S, LONELY_GOAL_S = 0.2, 3.0, 5.0
PATIENCE = 4  # a loaded machine may take this many times the goal

TINY_JOB = {
    "seed": 7,
    "model": {"name": "mlp", "sizes": [32, 64, 64, 10]},
    "train_dataloader": {"name": "gaussian_classification", "size": 250, "features": 32, "classes": 10},
    "global_train_batch_size": 16,
    "optimizers": {"name": "decoupled_adamw", "lr": 0.001, "weight_decay": 1e-5},
    "max_duration": "40ba",
    "save_interval": "10ba",
    "callbacks": {"throttle": {"seconds": 0.02}},
}


def for_fake_worker(setting):
    """Returns the setting in the form in which it reaches the fake worker: its words are not keys of a job, so they
    travel as variables."""
    return f"variables.{setting}" if re.match(
        r"(steps|step_ms|save|stubborn|die_\w+|linger_\w+)=", setting) else setting


@unittest.skipIf(WHY_NOT, WHY_NOT)
class NodesTest(unittest.TestCase):
    HOSTS = 2
    WORKER = FAKE_WORKER

    def setUp(self):
        self.assertTrue((BIN / "composer").exists(), f"{BIN}/composer: build it first")
        if not self.WORKER.exists():
            self.skipTest(f"{self.WORKER} is not built")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="composer-netns-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "bin").mkdir()
        shutil.copy(BIN / "composer", self.folder / "bin/composer")
        os.symlink(self.WORKER, self.folder / "bin/composer_worker")
        self.job = self.folder / "job.yaml"
        self.job.write_text(json.dumps({"run_name": "job", "run_folder": str(self.folder / "run"),
                                        "max_duration": "1ep", "global_train_batch_size": 1, "model": {"name": "mlp"},
                                        "train_dataloader": {"name": "gaussian_classification"}}))
        network = hosts.Network(self.HOSTS)
        self.hosts = network.__enter__()
        self.addCleanup(network.__exit__)
        self.nodes = []

    def where_to_meet(self):
        return ["--master_addr", self.hosts[0].address, "--master_port", 7501]

    def launch(self, number, *settings, nodes="2", flags=(), node_rank=None, environment=()):
        argv = [self.folder / "bin/composer", "-n", 1, "--nnodes", nodes, "--node_rank",
                number if node_rank is None else node_rank,
                *self.where_to_meet(), *flags, self.job, *map(for_fake_worker, settings)]
        drop = ("RANK", "WORLD_SIZE", "LOCAL_", "NODE_RANK", "MASTER_", "COMPOSER_", "TORCHELASTIC_", "SLURM_", "PET_")
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith(drop)}, **dict(environment)}
        environment["TMPDIR"] = str(self.folder)
        environment["COMPOSER_RUNTIME_DIR"] = str(self.folder / "runtime")
        process = self.hosts[number].run(argv, cwd=self.folder, env=environment)
        self.nodes.append(process)
        return process

    def launch_all(self, *settings, count=2, **options):
        return [self.launch(number, *settings, **options) for number in range(count)]

    def wait_for(self, condition, what, timeout=20.0):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.002)
        self.fail(f"{what}: not within {timeout} s\n{self.transcript()}")

    def transcript(self):
        return "\n".join(f"--- node {i}\n{p.text()}" for i, p in enumerate(self.nodes))

    def wait_for_step(self, step):
        """Waits until rank 0 has saved; its checkpoint holds the step."""
        path = self.folder / "run/fake-checkpoint"
        self.wait_for(lambda: path.exists() and int(path.read_text() or 0) >= step, f"step {step}")

    def expect_exit(self, process, code, timeout=30.0):
        self.assertEqual(process.exit_code(timeout), code, self.transcript())

    def expect_told(self, process, text, since, goal, what):
        at = self.wait_for(lambda: process.said(text, since), f"{what}: `{text}`", goal * PATIENCE + 2)
        print(f"  {what}: told after {1000 * (at - since):.0f} ms (goal {1000 * goal:.0f} ms)", flush=True)
        self.assertLess(at - since, goal * PATIENCE, self.transcript())
        return at

    def summary(self):
        path = self.folder / "run/summary.json"
        return json.loads(self.wait_for(lambda: path.exists() and path.read_text(), "summary.json"))

    def causes(self):
        return [g["cause"] for g in self.summary()["generations"]]

    def restarts(self):
        return self.summary()["restarts"]

    def expect_no_process_left(self, number):
        self.wait_for(lambda: not self.hosts[number].pids(), f"no process left on host {number}", 5)


class FaultsTest(NodesTest):
    def test_start(self):
        began = time.monotonic()
        nodes = self.launch_all("steps=40")
        for rank, node in enumerate(nodes):
            self.expect_exit(node, 0)
        self.assertEqual(self.summary()["world_size"], 2)
        print(f"  start of 2 nodes: first rank after {1000 * (nodes[0].said('rank 0 starts') - began):.0f} ms")
        self.assertEqual(self.restarts(), 0)
        for number in range(2):
            self.expect_no_process_left(number)

    def test_a_worker_crashes_on_the_other_node(self):
        nodes = self.launch_all("steps=60", "save=1000", "die_rank=1", "die_step=14", "die_how=9")
        crashed = self.wait_for(lambda: nodes[1].said("rank 1 on "), "node 1 names its rank")
        self.expect_told(nodes[0], "rank 1 was killed by SIGKILL", crashed - 0.05, CRASH_GOAL_S, "remote crash")
        for node in nodes:
            self.expect_exit(node, 0)
        self.assertIn("rank 1 was killed by SIGKILL", self.causes()[0])
        self.assertEqual(self.restarts(), 1)

    def test_restarts_are_counted_for_the_job(self):
        """Crashes on either node in turn use up one budget."""
        nodes = self.launch_all("steps=40", "save=1000", "die_rank=1", "die_step=4", "die_how=70", "die_generations=99",
                                flags=("--max-restarts=2",))
        for node in nodes:
            self.expect_exit(node, 93)
        self.assertEqual(self.restarts(), 2)
        for node in nodes:
            self.assertTrue(node.said("restart 2 of 2"), self.transcript())
            self.assertTrue(node.said("giving up"), self.transcript())

    def test_a_user_error_on_one_node_ends_all(self):
        nodes = self.launch_all("steps=4000", "save=100000", "die_rank=1", "die_step=4", "die_how=64")
        for node in nodes:
            self.expect_exit(node, 64)
        self.assertIn("rank 1 exited with 64", nodes[0].text())

    def test_nodes_that_are_done_wait_for_the_others(self):
        """Node 0 is done long before rank 1 fails; the next generation still has both."""
        nodes = self.launch_all("steps=30", "step_ms=20", "die_rank=1", "die_step=29", "die_how=9", "die_delay_ms=600")
        for node in nodes:
            self.expect_exit(node, 0)
        self.assertEqual(self.restarts(), 1)
        self.assertIn("rank 1 was killed", self.causes()[0])
        self.assertEqual([e["role"] for e in self.summary()["generations"][0]["exits"]], ["done"])

    def test_the_launcher_of_a_node_is_killed(self):
        nodes = self.launch_all("steps=600", nodes="1:2")
        self.wait_for_step(10)
        at = time.monotonic()
        os.kill(self.hosts[1].pid_of("composer"), signal.SIGKILL)
        self.expect_told(nodes[0], "node 1", at, CRASH_GOAL_S, "launcher killed")
        self.expect_exit(nodes[1], -signal.SIGKILL)
        self.expect_no_process_left(1)
        self.expect_exit(nodes[0], 0)
        self.assertIn("was lost", self.causes()[0])

    def lose_node_1(self, how, what, nodes="1:2", flags=()):
        nodes = self.launch_all("steps=1500", nodes=nodes, flags=flags)
        self.wait_for_step(20)
        at = time.monotonic()
        how(self.hosts[1])
        self.expect_told(nodes[0], "was lost", at, SILENT_GOAL_S, what)
        return nodes

    def expect_node_0_goes_on_alone(self, nodes):
        self.wait_for(lambda: len(self.summary()["generations"]) >= 1
                      and self.summary()["generations"][0]["ended"] == "failed", "summary")
        self.assertIn("node 1", self.causes()[0])
        self.expect_exit(nodes[0], 0)
        self.assertEqual(self.summary()["world_size"], 1)
        self.assertEqual(self.summary()["steps"], 1500)

    def test_power_off(self):
        nodes = self.lose_node_1(lambda host: host.power_off(), "power off")
        self.expect_node_0_goes_on_alone(nodes)

    def test_power_off_in_a_large_job(self):
        """Its launchers are pinged every 10 s (rendezvous/worlds/timeouts.h); the kernels' keepalive detects the host's
        loss all the same."""
        nodes = self.lose_node_1(lambda host: host.power_off(), "power off, a job of at most 10,000 nodes",
                                 nodes="1:10000", flags=("--last-call", 3))
        self.expect_node_0_goes_on_alone(nodes)

    def expect_node_1_leaves(self, nodes, since):
        """The node has no rendezvous, and no list of others that could serve."""
        self.expect_exit(nodes[1], 69)
        print(f"  the lonely node left with 69 after {time.monotonic() - since:.1f} s (goal 5 s)")
        self.assertIn("rendezvous", nodes[1].text())
        self.expect_no_process_left(1)

    def test_cable_cut(self):
        at = time.monotonic()
        nodes = self.lose_node_1(lambda host: host.cut(), "cable cut, both ways")
        self.expect_node_1_leaves(nodes, at)
        self.expect_node_0_goes_on_alone(nodes)

    def test_cable_cut_towards_the_node(self):
        nodes = self.lose_node_1(lambda host: host.cut(outgoing=False), "cable cut, towards the node")
        self.expect_node_1_leaves(nodes, time.monotonic())
        self.expect_node_0_goes_on_alone(nodes)

    def test_cable_cut_from_the_node(self):
        nodes = self.lose_node_1(lambda host: host.cut(incoming=False), "cable cut, from the node")
        self.expect_node_1_leaves(nodes, time.monotonic())
        self.expect_node_0_goes_on_alone(nodes)

    def test_frozen_node(self):
        nodes = self.lose_node_1(lambda host: host.freeze(), "node frozen")
        self.hosts[1].thaw()
        self.expect_exit(nodes[0], 0)
        self.assertIn("node 1", self.causes()[0], json.dumps(self.summary()["generations"]) + self.transcript())
        self.assertIn(nodes[1].exit_code(15), (0, 69), "it joined again or left; it did not train on in the old world\n"
                      + self.transcript())
        self.assertIn("node 1", self.causes()[0], "a spare of a done job trains nothing\n" + self.transcript())
        self.expect_no_process_left(1)

    def test_slow_link(self):
        self.hosts[1].slow(delay_s=0.1, bytes_per_s=125_000)  # 100 ms each way, 1 Mbit/s
        began = time.monotonic()
        nodes = self.launch_all("steps=400")
        for node in nodes:
            self.expect_exit(node, 0)
        print(
            f"  slow link: first rank after {1000 * (nodes[0].said('rank 0 starts') - began):.0f} ms; no false alarm in {time.monotonic() - began:.1f} s")
        self.assertEqual(self.restarts(), 0)

    def test_a_short_interruption_is_no_loss(self):
        nodes = self.launch_all("steps=600")
        self.wait_for_step(10)
        self.hosts[1].cut()
        time.sleep(1.0)
        self.hosts[1].mend()
        for node in nodes:
            self.expect_exit(node, 0)
        self.assertEqual(self.restarts(), 0)

    def test_a_blip_of_the_way_to_the_rendezvous_ends_nothing(self):
        """Workers do not use it, and each launcher can reach the other one throughout."""
        nodes = self.launch_all("steps=2500")
        self.wait_for_step(20)
        at = time.monotonic()
        self.hosts[1].block(7501)
        self.wait_for(lambda: nodes[1].said("the rendezvous is away", at), "node 1 notices", 15)
        time.sleep(max(0, at + 7 - time.monotonic()))
        self.hosts[1].mend()
        self.wait_for(lambda: nodes[1].said("the rendezvous is back", at), "node 1 is back", 15)
        for node in nodes:
            self.expect_exit(node, 0, 60)
        self.assertEqual(self.restarts(), 0)
        self.assertEqual(len(self.causes()), 1, self.causes())

    def test_cut_off_from_the_rendezvous_for_too_long(self):
        nodes = self.launch_all("steps=2500", nodes="1:2", flags=("--rdzv-blip", 4))
        self.wait_for_step(20)
        self.hosts[1].block(7501)
        self.expect_exit(nodes[1], 69, 30)
        self.expect_no_process_left(1)
        self.expect_exit(nodes[0], 0, 60)
        self.assertIn("was not back within 4s", self.causes()[0])
        self.assertEqual(self.restarts(), 1)

    def test_coordinator_killed(self):
        nodes = self.launch_all("steps=1200")
        self.wait_for_step(20)
        os.kill(self.hosts[0].pid_of("composer-serve"), signal.SIGKILL)
        self.wait_for(lambda: nodes[0].said("starting it again"), "the rendezvous is started again")
        for node in nodes:
            self.expect_exit(node, 0)
        self.assertEqual(self.restarts(), 0, "no worker was disturbed")

    def test_coordinator_killed_and_then_a_crash(self):
        nodes = self.launch_all("steps=300", "die_rank=1", "die_step=200", "die_how=9")
        self.wait_for_step(20)
        os.kill(self.hosts[0].pid_of("composer-serve"), signal.SIGKILL)
        for node in nodes:
            self.expect_exit(node, 0)
        self.assertEqual(self.restarts(), 1)
        self.assertIn("rank 1 was killed", self.causes()[0])

    def test_a_master_that_is_not_there(self):
        node = self.launch(1, "steps=4", flags=("--join-timeout=3",))
        self.expect_exit(node, 69)
        for word in (self.hosts[0].address, "7501"):
            self.assertIn(word, node.text())


    def test_a_network_card_that_leads_nowhere(self):
        hosts.sh("ip", "-n", self.hosts[1].name, "link", "add", "eth1", "type", "veth", "peer", "name", "eth2")
        for words in (("link", "set", "eth1", "up"), ("link", "set", "eth2", "up"), ("address", "add", "10.78.0.2/24", "dev", "eth1")):
            hosts.sh("ip", "-n", self.hosts[1].name, *words)
        first = self.launch(0, "steps=4")
        self.wait_for(lambda: self.hosts[0].pid_of("composer"), "node 0")
        time.sleep(0.5)  # until it serves
        began = time.monotonic()
        node = self.launch(1, "steps=4", environment={"GLOO_SOCKET_IFNAME": "eth1"})
        self.expect_exit(node, 64)
        self.expect_told(node, "GLOO_SOCKET_IFNAME is `eth1`", began, 2, "a card that leads nowhere")
        for word in ("node 1 (", "eth0 (10.77.0.2)", "unset GLOO_SOCKET_IFNAME"):
            self.assertIn(word, node.text())
        right = self.launch(1, "steps=4", environment={"GLOO_SOCKET_IFNAME": "eth0"})
        for process in (first, right):
            self.expect_exit(process, 0)


class EndOfTheJobTest(NodesTest):
    """With a list, a node that has not heard of the end would serve, and wait for the others."""

    def where_to_meet(self):
        return ["--rdzv-endpoint", ",".join(f"{host.address}:7501" for host in self.hosts)]

    def test_the_rendezvous_stays_until_all_have_heard_of_the_end(self):
        nodes = self.launch_all("steps=40", "linger_rank=0", "linger_ms=1800")
        worker = lambda number: self.hosts[number].pid_of("composer_worker")
        self.wait_for(lambda: worker(0) and worker(1), "both ranks")
        self.wait_for(lambda: not worker(1), "rank 1 is done")
        time.sleep(0.3)  # its launcher waits for node 0
        self.hosts[1].block(7501)
        self.wait_for(lambda: not worker(0), "rank 0 is done")
        time.sleep(2.5)
        self.hosts[1].mend()
        for node in nodes:
            self.expect_exit(node, 0, 60)
        self.assertFalse(nodes[1].said("serving it here"), self.transcript())


class SpareHostTest(NodesTest):
    HOSTS = 3

    def test_a_replacement_takes_the_place_of_a_lost_node(self):
        nodes = self.launch_all("steps=800")
        self.wait_for_step(20)
        at = time.monotonic()
        self.hosts[1].power_off()
        self.expect_told(nodes[0], "was lost", at, SILENT_GOAL_S, "power off")
        spare = self.launch(2, "steps=800", node_rank=1)
        self.expect_exit(nodes[0], 0)
        self.expect_exit(spare, 0)
        self.assertEqual(self.summary()["world_size"], 2)
        self.assertEqual(self.restarts(), 1)


class LostHost0Test(NodesTest):
    """Host 0 serves the rendezvous, and is lost completely."""
    HOSTS = 3

    def lose_host_0(self, how, **options):
        nodes = self.launch_all("steps=3000", count=3, **options)
        self.wait_for_step(20)
        at = time.monotonic()
        how(self.hosts[0])
        return nodes, at

    def expect_all_leave(self, nodes, since):
        """There is no list of others that could serve."""
        for number in (1, 2):
            self.expect_exit(nodes[number], 69)
            print(
                f"  host 0 lost, no list: node {number} left with 69 after {time.monotonic() - since:.1f} s (goal {LONELY_GOAL_S:.0f} s)")
            self.assertLess(time.monotonic() - since, LONELY_GOAL_S * PATIENCE)
            for word in ("rendezvous", self.hosts[0].address, "lost or cut off", "--rdzv-endpoint"):
                self.assertIn(word, nodes[number].text())
            self.expect_no_process_left(number)

    def test_no_list_power_off(self):
        self.expect_all_leave(*self.lose_host_0(lambda host: host.power_off(), nodes="2:3"))

    def test_no_list_cable_cut(self):
        self.expect_all_leave(*self.lose_host_0(lambda host: host.cut(), nodes="2:3"))


class SuccessionTest(LostHost0Test):
    """The same with a list of those that may serve."""

    def where_to_meet(self):
        return ["--rdzv-endpoint", ",".join(f"{host.address}:7501" for host in self.hosts)]

    test_no_list_power_off = test_no_list_cable_cut = None

    def expect_takeover(self, nodes, since):
        at = self.wait_for(lambda: nodes[1].said("serving it here from now on", since), "node 1 takes over", 30)
        again = self.wait_for(lambda: nodes[1].said("starts", at), "the next generation", 30)
        print(f"  host 0 lost: the next serves after {at - since:.1f} s, workers run again after {again - since:.1f} s")
        for number in (1, 2):
            self.expect_exit(nodes[number], 0)
            self.expect_no_process_left(number)
        self.assertEqual(self.summary()["world_size"], 2)
        self.assertEqual(self.summary()["steps"], 3000)

    def test_a_blip_is_no_reason_to_take_over(self):
        nodes = self.launch_all("steps=2500", nodes="3", count=3)
        self.wait_for_step(20)
        at = time.monotonic()
        self.hosts[1].block(7501)
        time.sleep(7)
        self.hosts[1].mend()
        for node in nodes:
            self.expect_exit(node, 0, 60)
            self.assertFalse(node.said("serving it here", at), self.transcript())
        self.assertEqual(self.restarts(), 0)

    def test_power_off(self):
        nodes, at = self.lose_host_0(lambda host: host.power_off(), nodes="2:3")
        self.expect_takeover(nodes, at)

    def test_killed(self):
        nodes, at = self.lose_host_0(lambda host: host.signal_all(signal.SIGKILL), nodes="2:3")
        self.expect_takeover(nodes, at)

    def test_cable_cut(self):
        """Host 0 lives on alone: it has no majority, and leaves."""
        nodes, at = self.lose_host_0(lambda host: host.cut(), nodes="2:3")
        self.expect_takeover(nodes, at)
        self.expect_exit(nodes[0], 69, 90)
        self.expect_no_process_left(0)


class RealWorkersTest(NodesTest):
    """The same with composer_worker and Gloo between hosts: a peer's death must not leave a rank in a collective."""
    WORKER = pathlib.Path(os.environ.get("COMPOSER_WORKER", BIN / "composer_worker"))

    def setUp(self):
        super().setUp()
        self.job.write_text(json.dumps(dict(TINY_JOB, run_name="job", run_folder=str(self.folder / "run"))))

    def wait_for_step(self, step):
        path = self.folder / "run/metrics.jsonl"
        self.wait_for(lambda: path.exists() and f'"time/batch":{step},' in path.read_text().replace(" ", ""),
                      f"step {step}", 60)

    def test_train_on_two_hosts(self):
        for node in self.launch_all():
            self.expect_exit(node, 0, 120)
        self.assertEqual(self.summary()["steps"], 40)
        self.assertEqual(self.summary()["world_size"], 2)

    def test_a_worker_is_killed(self):
        nodes = self.launch_all("max_duration=60ba")
        self.wait_for_step(12)
        worker = self.hosts[1].pid_of("composer_worker")
        at = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        self.expect_told(nodes[0], "rank 1 was killed by SIGKILL", at, CRASH_GOAL_S, "remote crash")
        for node in nodes:
            self.expect_exit(node, 0, 120)
        self.assertEqual(self.restarts(), 1)
        self.assertEqual(self.summary()["steps"], 60)
        self.expect_left_at_the_word()

    def test_power_off(self):
        nodes = self.launch_all("max_duration=80ba", nodes="1:2")
        self.wait_for_step(12)
        at = time.monotonic()
        self.hosts[1].power_off()
        self.expect_told(nodes[0], "was lost", at, SILENT_GOAL_S, "power off")
        self.expect_exit(nodes[0], 0, 120)
        self.assertEqual(self.summary()["steps"], 80)
        self.assertEqual(self.summary()["world_size"], 1)
        self.expect_left_at_the_word()  # its peer's sockets never closed: Gloo alone would wait 30 minutes

    def test_host_0_is_killed_without_a_list(self):
        """Its kernel closes its connections: rank 1 knows at once, and its launcher that nobody is left to meet."""
        nodes = self.launch_all("max_duration=4000ba", nodes="1:2")
        self.wait_for_step(12)
        at = time.monotonic()
        self.hosts[0].signal_all(signal.SIGKILL)
        self.expect_exit(nodes[1], 69)
        print(
            f"  host 0 killed, no list: node 1 left with 69 after {time.monotonic() - at:.1f} s (goal {LONELY_GOAL_S:.0f} s)")
        self.assertLess(time.monotonic() - at, LONELY_GOAL_S * PATIENCE)
        self.assertIn("refuses connections", nodes[1].text())
        self.expect_no_process_left(1)

    def expect_left_at_the_word(self):
        """Rank 0, blocked in a collective, exited by itself and was not killed."""
        exits = self.summary()["generations"][0]["exits"]
        self.assertEqual([e["how"] for e in exits], ["exited with 69"], exits)
        self.assertIn("collateral", exits[0]["role"])


class RealSuccessionTest(RealWorkersTest):
    """Host 0 is lost completely; all can read the checkpoints, and the world continues without it."""
    HOSTS = 3

    def where_to_meet(self):
        return ["--rdzv-endpoint", ",".join(f"{host.address}:7501" for host in self.hosts)]

    test_train_on_two_hosts = test_a_worker_is_killed = test_power_off = test_host_0_is_killed_without_a_list = None

    def test_host_0_is_lost(self):
        nodes = self.launch_all("max_duration=60ba", nodes="2:3", count=3)
        self.wait_for_step(12)
        at = time.monotonic()
        self.hosts[0].power_off()
        self.wait_for(lambda: nodes[1].said("serving it here from now on", at), "node 1 takes over", 30)
        for number in (1, 2):
            self.expect_exit(nodes[number], 0, 120)
            self.expect_no_process_left(number)
        print(f"  host 0 lost, real workers: done {time.monotonic() - at:.1f} s later")
        self.assertEqual(self.summary()["steps"], 60)
        self.assertEqual(self.summary()["world_size"], 2)
        batches = [json.loads(line).get("time/batch")
                   for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(sorted({b for b in batches if b}), list(range(1, 61)), "every step was done")


def all_names(suite):
    return [name for part in suite for name in (all_names(part) if isinstance(part, unittest.TestSuite)
                                                else [part.id().removeprefix("__main__.")])]


def run_alone(name):
    """Runs one test in a process of its own. Returns whether it passed, and what it printed."""
    done = subprocess.run([sys.executable, "-B", __file__, "--alone", name], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="CLASS or CLASS.TEST; all without")
    parser.add_argument("--jobs", type=int, default=4, help="so many tests at a time")
    parser.add_argument("--alone", action="store_true", help="in this process")
    parser.add_argument("-v", action="store_true", help="also what passing tests print")
    asked = parser.parse_args()
    if asked.alone:
        unittest.main(argv=[sys.argv[0], *asked.names])
    loader, this = unittest.defaultTestLoader, sys.modules[__name__]
    names = all_names(loader.loadTestsFromNames(asked.names, this) if asked.names else loader.loadTestsFromModule(this))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for name, (passed, output) in zip(names, pool.map(run_alone, names)):
            failed += not passed
            notes = [line for line in output.splitlines() if line.startswith("  ")]
            print(f"{'ok  ' if passed else 'FAIL'} {name}", *(notes if passed and not asked.v else [output]), sep="\n")
    print(f"{len(names) - failed} of {len(names)} passed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
