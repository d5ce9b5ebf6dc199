"""Random schedules of kill -9: launchers and ranks are killed at random moments, also while they fetch, decompress and
evict shards or fetch parts of them by range, what is cached is damaged between starts, and each start has another number of ranks. What each rank
recorded must be its share of an undisturbed run's batches, an epoch must have each sample once, and every second run,
with determinism: elastic, must have the undisturbed run's losses bit for bit. `data write` is killed as well.
Run with --schedules N [--seed N]; each schedule is one run with up to MOST_KILLS moments of killing.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import harness

COUNTS = {"web": 800, "code": 401}
BATCH, BATCHES, MOST_KILLS = 12, 101, 2
CACHE_LIMIT = 3000000  # of 10 MB of shards
RANGE_BYTES = 20000
GPT = {"name": "gpt", "vocab_size": 257, "max_seq_len": 32, "d_model": 8, "n_layers": 1, "n_heads": 1}
PARTS = "*/composer-shards/*.part"  # what a shard is while it is stored
OPTIONS = {"schedules": 3, "seed": 1}


def processes_with(text):
    """Returns the pids of processes that have `text` in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if text.encode() in file.read() and int(name) != os.getpid():
                    found.append(int(name))
        except OSError:
            pass
    return found


class DataKillsTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        draw = random.Random(9)
        for name, count in COUNTS.items():
            lines = [json.dumps({"tokens": [draw.randrange(256) for _ in range(33)], "page": draw.randbytes(4000).hex()})
                     for _ in range(count)]
            (self.data / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    def write_arguments(self, name, place, compression=("--compression", "zstd")):
        return ("data", "write", self.data / f"{name}.jsonl", place, "--columns", "tokens:ndarray:uint16,page:str",
                "--hashes", "xxh64", *compression, "--size-limit", 100000)

    def write_shards(self):
        for name in COUNTS:
            self.run_composer(*self.write_arguments(name, self.data / "remote" / name))
            self.run_composer(*self.write_arguments(name, self.data / "plain" / name, compression=()))

    def job(self, name, cache, by_range=False, **changes):
        remote = self.data / ("plain" if by_range else "remote")
        streams = [{"local": f"{cache}/{stream}", "remote": f"{remote}/{stream}"} for stream in COUNTS]
        loader = ({"range_bytes": RANGE_BYTES} if by_range else {}) | {"name": "streaming", "num_canonical_nodes": 2, "cache_limit": CACHE_LIMIT, "streams": streams,
                  "predownload": 40, "num_workers": 1, "transforms": [{"keep": {"keys": ["tokens"]}}, {"rename": {"from": "tokens", "to": "inputs"}}, "shift"]}
        return self.write_job(name, **{**dict(
            model=GPT, train_dataloader=loader, global_train_batch_size=BATCH, schedulers=None, max_duration="1ep",
            save_interval="9ba", save_num_checkpoints_to_keep=2, determinism="elastic", virtual_shards=4,
            callbacks={"sample_recorder": None}), **changes})

    def kill_everything(self, process, name):
        process.kill()
        for pid in processes_with(f"{self.folder}/{name}.yaml") + processes_with(str(self.run_folder(name))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def recorded(self, name):
        """Returns the last batch that rank 0 has recorded; 0: none since the start."""
        try:
            with open(self.run_folder(name) / "logs/samples-rank0.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, 2) - 400))
                lines = file.read().split(b"\n")[:-1]
                return json.loads(lines[-1])["batch"] if lines else 0
        except (FileNotFoundError, ValueError):
            return 0

    def wait_for_moment(self, draw, process, name, begin, stored):
        """Waits for a random batch from `begin` on, or a random time in the start; every second time also until a shard
        is being stored."""
        batch = draw.randint(min(begin + 1, BATCHES - 1), BATCHES - 1) if draw.random() < 0.8 else 0
        deadline = time.monotonic() + (120 if batch else draw.uniform(0, self.start_seconds))
        while time.monotonic() < deadline and process.poll() is None and not (batch and self.recorded(name) >= batch):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        deadline = time.monotonic() + (0.5 if draw.random() < 0.5 else 0)
        while time.monotonic() < deadline and process.poll() is None and not any(stored.glob(PARTS)):
            pass

    def damage(self, draw, cache):
        shards = sorted(cache.glob("*/composer-shards/*.shard"))
        for path in draw.sample(shards, min(len(shards), draw.randrange(3))):
            body = bytearray(path.read_bytes())
            kind = draw.randrange(3)
            if kind == 0:
                body = body[:draw.randrange(len(body))]
            elif kind == 1:
                body[draw.randrange(len(body))] ^= 0x40
            else:
                body = draw.choice(shards).read_bytes()[:len(body)]
            path.write_bytes(body)
            self.damaged += 1

    def schedule(self, name, draw, reference):
        cache = self.data / f"cache-{name}"
        seen, begin, kills, elastic, by_range = {}, 0, draw.randint(1, MOST_KILLS), draw.random() < 0.5, draw.random() < 0.5
        self.by_range += by_range
        for start in range(kills + 1):
            ranks = draw.choice((1, 2, 4)) if elastic else draw.randint(1, 4)
            job = self.job(name, cache, by_range, **({} if elastic else {"determinism": None, "virtual_shards": None}))
            process = self.start("-n", ranks, "--max-restarts", 20, job)
            how = draw.choice(("all", "launcher", "rank"))
            if start < kills:
                self.wait_for_moment(draw, process, name, begin, cache)
                workers = list(self.workers(name).values())
                if how == "rank" and workers:
                    try:
                        os.kill(draw.choice(workers), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    self.killed["rank"] += 1
                    self.wait_for_moment(draw, process, name, self.recorded(name), cache)
                if process.poll() is None:
                    self.killed["launcher" if how == "launcher" else "all"] += 1
                if how == "launcher":
                    process.kill()
                else:
                    self.kill_everything(process, name)
                process.wait()
                self.wait_for(lambda: not self.workers(name), "the ranks of a killed launcher end")
            else:
                out, err = process.communicate(timeout=600)
                self.assertEqual(process.returncode, 0, f"{name}\n{out}\n{err}")
            for batch, ids in self.take_records(name, ranks).items():
                self.assertEqual(ids, reference[batch], f"{name}: batch {batch} on {ranks} ranks, start {start}")
                seen[batch] = ids
                begin = min(BATCHES - 2, max(begin, batch))
            if start < kills:
                self.stores_hit += len(list(cache.glob(PARTS)))
                self.damage(draw, cache)
        self.assertEqual(sorted(seen), list(range(1, BATCHES + 1)))
        served = sum((seen[batch] for batch in sorted(seen)), [])
        self.assertEqual(sorted(served), list(range(sum(COUNTS.values()))), "one epoch, each sample once")
        for stream in cache.iterdir():
            used = sum(path.stat().st_size for path in (stream / "composer-shards").iterdir())
            self.assertLessEqual(used, CACHE_LIMIT, stream)
        if elastic:
            self.assertEqual(self.losses(name), self.whole_losses, "bit for bit")

    def test_every_epoch_is_exactly_each_sample_once(self):
        self.write_shards()
        self.killed, self.stores_hit, self.damaged = {"rank": 0, "launcher": 0, "all": 0}, 0, 0
        self.by_range = 0
        self.run_composer("-n", 1, self.job("whole", self.data / "cache-whole"), timeout=240)
        self.start_seconds = self.summary("whole")["generations"][0]["first_step_seconds"]
        reference = self.take_records("whole", 1)
        self.assertEqual(len(reference), BATCHES)
        self.whole_losses = self.losses("whole")
        for number in range(OPTIONS["schedules"]):
            seed = OPTIONS["seed"] * 1000 + number
            with self.subTest(seed=seed):
                self.schedule(f"run-{number}", random.Random(seed), reference)
            print(f"schedule {number + 1} (seed {seed}): kills {self.killed}, {self.stores_hit} shards half stored, "
                  f"{self.damaged} cached shards damaged, {self.by_range} by range", file=sys.stderr, flush=True)

    def test_a_killed_write_goes_on_to_the_same_bytes(self):
        calm = self.data / "calm"
        begin = time.monotonic()
        self.run_composer(*self.write_arguments("web", calm))
        duration = time.monotonic() - begin
        wanted = {path.name: path.read_bytes() for path in calm.iterdir()}
        draw = random.Random(OPTIONS["seed"])
        journals = 0
        for number in range(min(10, OPTIONS["schedules"])):
            place = self.data / f"write-{number}"
            for limit in [draw.uniform(0.1, 1) * duration for _ in range(3)]:
                process = subprocess.Popen([str(harness.BIN / "composer"), *map(str, self.write_arguments("web", place))],
                                           env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    process.wait(limit)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                journals += (place / "composer-write.json").exists()
            complete = (place / "index.json").exists() and not (place / "composer-write.json").exists()
            if not complete:  # else the last kill came when only the exit was left to do
                self.run_composer(*self.write_arguments("web", place))
            found = {path.name: path.read_bytes() for path in place.iterdir() if not path.name.startswith(".")}
            self.assertEqual(found.keys(), wanted.keys())
            self.assertEqual(found, wanted)
        print(f"{journals} of {3 * min(10, OPTIONS['schedules'])} writes were killed between shards", file=sys.stderr)


if __name__ == "__main__":
    for option in OPTIONS:
        if f"--{option}" in sys.argv:
            at = sys.argv.index(f"--{option}")
            OPTIONS[option] = int(sys.argv[at + 1])
            del sys.argv[at:at + 2]
    unittest.main()
