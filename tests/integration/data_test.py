"""Data of one's own: JSON lines, CSV and token files through transforms, packing and padding, trained, killed and
resumed on other numbers of ranks. SPDX-License-Identifier: Apache-2.0"""
import array
import gzip
import json
import random
import struct
import unittest

import harness

GPT = {"name": "gpt", "vocab_size": 257, "max_seq_len": 32, "d_model": 16, "n_layers": 1, "n_heads": 2}
BYTES = {"name": "bytes", "eos": True}


class DataTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()

    def documents(self, count=60):
        draw = random.Random(3)
        lines = [json.dumps({"text": "".join(draw.choices("abc de", k=draw.randint(1, 80))), "note": None})
                 for _ in range(count)]
        (self.data / "a.jsonl").write_text("\n".join(lines[:40]) + "\n")
        with gzip.open(self.data / "b.jsonl.gz", "wt") as file:
            file.write("\n".join(lines[40:]))
        return {"name": "jsonl", "path": f"{self.data}/*.jsonl*", "transforms": [{"tokenize": {}}],
                "pack": {"max_seq_len": 32}}

    def gpt(self, name, loader, **changes):
        return self.write_job(name, model=GPT, tokenizer=BYTES, train_dataloader=loader, global_train_batch_size=6,
                              eval_dataloader=[], schedulers=None, save_interval="4ba",
                              callbacks={"sample_recorder": None}, **dict({"max_duration": "20ba"}, **changes))

    def batches(self, name, ranks):
        batches = {}
        for rank in range(ranks):
            for line in (self.run_folder(name) / f"logs/samples-rank{rank}.jsonl").read_text().splitlines():
                record = json.loads(line)
                batches.setdefault(record["batch"], {})[rank] = record["sample_ids"]
        return {batch: sum((ids for _, ids in sorted(parts.items())), []) for batch, parts in batches.items()}

    def test_packed_documents_are_the_same_on_any_number_of_ranks(self):
        loader = self.documents()
        for ranks in (1, 2, 3):
            self.run_composer("-n", ranks, self.gpt(f"ranks-{ranks}", dict(loader, num_workers=ranks - 1)))
        one = self.batches("ranks-1", 1)
        self.assertEqual(len(one), 20)
        for ranks in (2, 3):
            self.assertEqual(self.batches(f"ranks-{ranks}", ranks), one)
            self.assert_same_losses(self.losses("ranks-1"), self.losses(f"ranks-{ranks}"))

    def test_a_killed_run_goes_on_exactly(self):
        loader = self.documents()
        self.run_composer("-n", 2, self.gpt("whole", loader, determinism="elastic"))
        self.run_composer("-n", 2, self.gpt("killed", loader, determinism="elastic"),
                          "callbacks.fail_at={rank: 1, batch: 14, how: kill}")
        self.assertEqual(self.losses("killed"), self.losses("whole"), "bit for bit")

    def test_stopped_on_two_ranks_and_resumed_on_others(self):
        loader = self.documents()
        self.run_composer("-n", 1, self.gpt("whole", loader, determinism="elastic", virtual_shards=4))
        name = "moved"
        for ranks, until in ((2, 7), (1, 9), (4, 15), (2, 20)):
            self.run_composer("-n", ranks, self.gpt(name, loader, determinism="elastic", virtual_shards=4),
                              f"max_duration={until}ba")
        self.assertEqual(self.losses(name), self.losses("whole"), "bit for bit")

    def test_shards_of_streaming_serve_each_sample_once_on_any_ranks(self):
        draw = random.Random(9)
        for name, count in (("web", 70), ("code", 31)):
            lines = [json.dumps({"tokens": [draw.randrange(256) for _ in range(33)], "source": name})
                     for _ in range(count)]
            (self.data / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
            out, _ = self.run_composer("data", "write", self.data / f"{name}.jsonl", self.data / "remote" / name,
                                       "--columns", "tokens:ndarray:uint16,source:str", "--hashes", "sha1",
                                       "--compression", "gz", "--size-limit", 1500)
            self.assertIn(f"{count} samples", out)
            self.assertIn("valid", self.run_composer("data", "verify", self.data / "remote" / name)[0])
        loader = {"name": "streaming", "num_canonical_nodes": 2, "cache_limit": 20000,
                  "streams": [{"local": f"{self.data}/cache/{name}", "remote": f"{self.data}/remote/{name}"}
                              for name in ("web", "code")],
                  "transforms": [{"keep": {"keys": ["tokens"]}}, {"rename": {"from": "tokens", "to": "inputs"}}, "shift"]}
        settings = dict(determinism="elastic", virtual_shards=4, max_duration="2ep")
        self.run_composer("-n", 1, self.gpt("whole", loader, **settings))
        batches = list(self.batches("whole", 1).values())
        self.assertEqual(sorted(sum(batches[:17], [])), list(range(101)), "one epoch, the tail included")
        self.assertEqual(sorted(sum(batches[17:], [])), list(range(101)))
        for ranks, until in ((2, 7), (1, 12), (4, 20), (2, 34)):
            self.run_composer("-n", ranks, self.gpt("moved", loader, **settings), f"max_duration={until}ba")
        self.assertEqual(self.losses("moved"), self.losses("whole"), "bit for bit")

    def test_parts_of_shards_are_fetched_by_range(self):
        draw = random.Random(10)
        lines = [json.dumps({"tokens": [draw.randrange(256) for _ in range(33)], "page": draw.randbytes(500).hex()})
                 for _ in range(101)]
        (self.data / "web.jsonl").write_text("\n".join(lines) + "\n")
        for name, compression in (("plain", ()), ("packed", ("--compression", "gz"))):
            self.run_composer("data", "write", self.data / "web.jsonl", self.data / name, "--columns",
                              "tokens:ndarray:uint16,page:str", "--hashes", "sha1", "--size-limit", 30000, *compression)

        def loader(cache, place="plain", **changes):
            return {"name": "streaming", "local": f"{self.data}/{cache}", "remote": f"{self.data}/{place}",
                    "num_canonical_nodes": 2, "range_bytes": 4096, "predownload": 12, "num_workers": 1,
                    "transforms": [{"keep": {"keys": ["tokens"]}}, {"rename": {"from": "tokens", "to": "inputs"}},
                                   "shift"]} | changes

        settings = dict(determinism="elastic", virtual_shards=4, max_duration="2ep")
        self.run_composer("-n", 1, self.gpt("whole", loader("cache-whole", range_bytes=None), **settings))
        for ranks, until in ((2, 7), (1, 12), (4, 20), (2, 34)):
            job = self.gpt("parts", loader("cache", cache_limit=60000), **settings)
            self.run_composer("-n", ranks, job, f"max_duration={until}ba")
        self.assertEqual(self.losses("parts"), self.losses("whole"), "bit for bit")
        kept = sum(path.stat().st_size for path in (self.data / "cache/composer-shards").iterdir())
        self.assertLessEqual(kept, 60000)
        mistakes = [(loader("c", place="packed"), "shard.00000.mds is compressed with gz; only MDS shards that are not"),
                    (loader("c", validate_hash="sha1"), "an index has the hashes of whole shards"),
                    (loader("c", remote=""), "range_bytes")]
        for number, (wrong, expected) in enumerate(mistakes):
            with self.subTest(expected):
                self.assertIn(expected, self.run_composer("-n", 1, self.gpt(f"wrong-{number}", wrong), code=64)[1])

    def test_csv_and_tokens_train(self):
        draw = random.Random(5)
        rows = [f"{draw.gauss(c, 1)},{draw.gauss(-c, 1)},{c}" for c in range(3) for _ in range(20)]
        (self.data / "t.csv").write_text("x,y,class\n" + "\n".join(rows) + "\n")
        self.run_composer("-n", 2, self.write_job(
            "csv", model={"name": "mlp", "sizes": [2, 16, 3]}, global_train_batch_size=10, max_duration="2ep",
            train_dataloader={"name": "csv", "path": f"{self.data}/t.csv", "features": ["x", "y"], "target": "class"},
            eval_dataloader=[{"name": "csv", "path": f"{self.data}/t.csv", "features": ["x", "y"], "target": "class"}]))
        self.assertEqual(len(self.losses("csv")), 12)
        (self.data / "t.bin").write_bytes(array.array("H", [draw.randrange(256) for _ in range(1000)]).tobytes())
        self.run_composer("-n", 2, self.gpt("tokens", {"name": "tokens", "path": f"{self.data}/t.bin",
                                                       "max_seq_len": 32, "predownload": 12}))
        self.assertEqual(len(self.losses("tokens")), 20)

    def test_fine_tuning_learns_responses_only(self):
        with open(self.data / "chats.jsonl", "w") as file:
            for i in range(24):
                file.write(json.dumps({"prompt": f"{i} and {i}?", "response": "a" * (i % 5 + 1)}) + "\n")
        loader = {"name": "jsonl", "path": f"{self.data}/chats.jsonl", "collate": {"name": "pad"},
                  "transforms": ["prompt_response", {"truncate": {"max_length": 32}}, "shift"]}
        self.run_composer("-n", 2, self.gpt("chats", loader, accumulate_train_batch_on_tokens=True))
        losses = self.losses("chats")
        self.assertLess(losses[-1], losses[0])

    def test_show_prints_what_the_model_gets(self):
        with open(self.data / "chats.jsonl", "w") as file:
            for i in range(24):
                file.write(json.dumps({"prompt": f"{i} and?", "response": "né" * (i % 5 + 1)}) + "\n")
        loader = {"name": "jsonl", "path": f"{self.data}/chats.jsonl", "collate": {"name": "pad"},
                  "transforms": ["prompt_response", {"truncate": {"max_length": 32}}, "shift"]}
        job = self.gpt("chats", loader, max_duration="1ba")
        self.run_composer("-n", 1, job)
        first = self.batches("chats", 1)[1]
        text = json.loads(job.read_text())
        job.write_text(json.dumps(dict(text, eval_dataloader=[dict(loader, label="held", batch_size=5)])))
        out, _ = self.run_composer("data", "show", job, "-n", 8)
        self.assertIn("train, epoch 0: 24 samples, 4 batches", out)
        self.assertEqual(out.count("the batch from sample"), 2, "8 samples are more than a batch of 6")
        self.assertIn(f"sample 0, id {first[0]}\n", out)
        self.assertIn(f'"{first[0]} and?' + "né" * (first[0] % 5 + 1), out)
        self.assertRegex(out, r"the loss counts \d+ of \d+\n +\"…né")
        self.assertIn("tokens, 0 of padding", out)
        held, _ = self.run_composer("data", "show", "--dataloader", "held", "--characters", 3, "-n1", job)
        self.assertIn("held, epoch 0: 24 samples, 5 batches", held)
        self.assertIn('"0 a" …', held)
        for words, expected in ((("-n", 0), "must be a whole number from 1"), (("--dataloader", "none"), "eval_dataloader has held"),
                                (("--png", "x.png"), "--png: the inputs are not pictures"),
                                (("~train_dataloader",), "train_dataloader: required"),
                                (("train_dataloader.path=none",), "train_dataloader.path: ")):
            with self.subTest(expected):
                self.assertIn(expected, self.run_composer("data", "show", job, *words, code=64)[1])
        (self.data / "chats.jsonl").unlink()
        packed = self.gpt("packed", self.documents())
        self.assertIn("a stream of samples", self.run_composer("data", "show", packed)[0])

    def test_tensors_train_from_arrays(self):
        def npy(name, kind, shape, numbers):
            header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
            (self.data / f"{name}.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header
                                                    + numbers.tobytes())
        draw = random.Random(5)
        targets = [i % 3 for i in range(60)]
        npy("inputs", "<f8", (60, 2), array.array("d", [draw.gauss(c * s, 1) for c in targets for s in (1, -1)]))
        npy("targets", "|u1", (60,), array.array("B", targets))
        loader = {"name": "tensors", "path": [f"{self.data}/inputs.npy", f"{self.data}/targets.npy"]}
        settings = dict(model={"name": "mlp", "sizes": [2, 16, 3]}, global_train_batch_size=12, train_dataloader=loader,
                        callbacks={"sample_recorder": None}, schedulers=None, determinism="elastic",
                        virtual_shards=2)
        self.run_composer("-n", 1, self.write_job("whole", max_duration="2ep", **settings))
        self.run_composer("-n", 2, self.write_job("moved", max_duration="7ba", **settings))
        self.run_composer("-n", 1, self.write_job("moved", max_duration="2ep", **settings))
        self.assertEqual(self.losses("moved"), self.losses("whole"), "bit for bit")
        batches = list(self.batches("whole", 1).values())
        self.assertEqual(sorted(sum(batches[:5], [])), list(range(60)))

    def test_chats_in_length_buckets_and_first_fit_rows(self):
        draw = random.Random(11)
        with open(self.data / "chats.jsonl", "w") as file:
            for i in range(40):
                messages = [{"role": role, "content": "".join(draw.choices("ab ", k=draw.randint(1, 9)))}
                            for role in ("user", "assistant") * draw.randint(1, 2)]
                file.write(json.dumps({"messages": messages}) + "\n")
        loader = {"name": "finetuning", "path": f"{self.data}/chats.jsonl", "max_seq_len": 32,
                  "turn_begin": "{role}:", "turn_end": ";"}
        settings = dict(determinism="elastic", virtual_shards=4)
        for name, keys in (("buckets", {"length_buckets": {"window": 20, "size": 6}}),
                           ("first-fit", {"pack": {"max_seq_len": 32, "method": "first_fit"}})):
            with self.subTest(name):
                job = dict(loader, **keys)
                self.run_composer("-n", 1, self.gpt(name, job, **settings))
                self.run_composer("-n", 2, self.gpt(f"{name}-2", job, **settings), "max_duration=7ba")
                self.run_composer("-n", 4, self.gpt(f"{name}-2", job, **settings))  # from the end of an epoch
                # Batches of buckets are padded to each rank's longest sample, so their sums have other roundings.
                for ours, one in zip(self.losses(f"{name}-2"), self.losses(name), strict=True):
                    self.assertAlmostEqual(ours, one, places=4 if name == "buckets" else 12)
        ids = sum(list(self.batches("buckets", 1).values())[:7], [])
        self.assertEqual(sorted(ids), list(range(40)))

    def test_a_mixture_changes_on_purpose_in_mid_epoch(self):
        for name, count in (("a", 30), ("b", 50)):
            (self.data / f"{name}.jsonl").write_text(
                "".join(json.dumps({"text": f"{name} {i} and more of it"}) + "\n" for i in range(count)))
        loader = {"name": "mix", "transforms": [{"tokenize": {}}, {"truncate": {"max_length": 12}}, "shift"],
                  "mix": [{"weight": weight, "source": {"name": "jsonl", "path": f"{self.data}/{name}.jsonl"}}
                          for name, weight in (("a", 3), ("b", 1))]}
        changed = dict(loader, changes=[{"at": 42, "weights": [1, 1]}])
        settings = dict(determinism="elastic", virtual_shards=4, max_duration="24ba")
        self.run_composer("-n", 1, self.gpt("whole", changed, **settings))
        self.run_composer("-n", 2, self.gpt("moved", loader, **settings), "max_duration=7ba")
        permit = ["train_dataloader.changes"]
        for ranks, until in ((4, 15), (1, 24)):
            self.run_composer("-n", ranks, self.gpt("moved", changed, resume_changes=permit, **settings),
                              f"max_duration={until}ba")
        self.assertEqual(self.losses("moved"), self.losses("whole"), "bit for bit")
        served = sum(self.batches("whole", 1).values(), [])
        first, second = [i for i in served if i < 30], [i for i in served if i >= 30]
        self.assertEqual(len(second), 10 + 49)  # of 42 samples a quarter, then of 98 half
        for own, size in ((first, 30), (second, 50)):
            for begin in range(0, len(own) - size + 1, size):
                self.assertEqual(len(set(own[begin:begin + size])), size, "each sample once a pass")
        mistakes = [(dict(loader, mix=[]), "required: a list of {weight, source}"),
                    (dict(loader, changes=[{"at": 5, "weights": [1]}]), "needs a number for each source"),
                    (dict(loader, mix=[{"weight": -1, "source": loader["mix"][0]["source"]}]), "weight")]
        for number, (wrong, expected) in enumerate(mistakes):
            with self.subTest(expected):
                self.assertIn(expected, self.run_composer("-n", 1, self.gpt(f"wrong-{number}", wrong), code=64)[1])

    def test_a_packed_mixture_goes_on_in_its_order(self):
        for name, count in (("a", 30), ("b", 50)):
            (self.data / f"{name}.jsonl").write_text(
                "".join(json.dumps({"text": f"{name} {i} " + "and more of it " * (i % 5)}) + "\n" for i in range(count)))
        loader = {"name": "mix", "transforms": [{"tokenize": {}}],
                  "mix": [{"weight": weight, "source": {"name": "jsonl", "path": f"{self.data}/{name}.jsonl"}}
                          for name, weight in (("a", 3), ("b", 1))]}
        settings = dict(determinism="elastic", virtual_shards=4, max_duration="40ba")
        for pack in ({"max_seq_len": 32}, {"max_seq_len": 32, "method": "first_fit"}):
            name = f"-{pack.get('method', 'concat')}"
            packed = dict(loader, pack=pack)
            self.run_composer("-n", 1, self.gpt("whole" + name, packed, **settings))
            for ranks, until in ((2, 7), (4, 15), (1, 27), (2, 40)):
                self.run_composer("-n", ranks, self.gpt("moved" + name, packed, **settings), f"max_duration={until}ba")
            self.assertEqual(self.losses("moved" + name), self.losses("whole" + name), "bit for bit")
        changed = dict(packed, changes=[{"at": 4, "weights": [1, 5]}])
        job = self.gpt("moved" + name, changed, resume_changes=["train_dataloader.changes"], **settings)
        self.assertIn("documents of the run, not rows", self.run_composer("-n", 1, job, "max_duration=50ba", code=64)[1])

    def test_mistakes_are_named_before_anything_is_trained(self):
        loader = self.documents()
        cases = [
            (dict(loader, path=f"{self.data}/none"), {}, "train_dataloader.path: "),
            (dict(loader, transforms=["tokenise"]), {}, "tokenise"),
            (dict(loader, transforms=[]), {}, "has no row of tokens `inputs`"),
            (loader, {"max_duration": "2ep"}, "the length of an epoch is not known"),
            (loader, {"tokenizer": None}, "tokenize: needs a tokenizer"),
            (dict(loader, pack=None), {}, "collate: pad"),
            (dict(loader, order={"name": "global"}), {}, "order"),
            ({"name": "text_bytes", "path": f"{self.data}/a.jsonl", "transforms": ["shift"]}, {}, "transforms"),
        ]
        for number, (wrong, changes, expected) in enumerate(cases):
            with self.subTest(expected):
                job = self.gpt(f"wrong-{number}", wrong)
                text = json.loads(job.read_text())
                text.update(changes)
                job.write_text(json.dumps({k: v for k, v in text.items() if v is not None}))
                _, err = self.run_composer("-n", 1, job, code=64)
                self.assertIn(expected, err)


if __name__ == "__main__":
    unittest.main()
