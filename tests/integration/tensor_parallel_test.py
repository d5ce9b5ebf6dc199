"""Runs the real binaries with tensor parallelism: the GPT example on a mesh of ranks trains as on one rank, and resumes
with another degree. A model or a mesh that cannot be split is a user error."""
import json
import unittest

import harness
from fsdp_test import GPT_JOB


class TensorParallelTest(harness.JobTest):
    def job(self, name, tp=1, fsdp=None, **changes):
        text = self.folder / "text.txt"
        text.write_text("In the beginning was the word, and the word was split over many ranks. " * 100)
        job = dict(GPT_JOB, parallelism_config={"tp": {"tensor_parallel_degree": tp}}, **changes)
        if fsdp is not None:
            job["parallelism_config"]["fsdp"] = fsdp
        job["train_dataloader"] = dict(job["train_dataloader"], path=str(text))
        job["model"] = dict(GPT_JOB["model"], **changes.get("model", {}))
        return self.write_job(name, **job)

    def test_meshes_train_as_one_process_and_go_on_as_others(self):
        recorded = {"callbacks": {"sample_recorder": None}}
        self.run_composer("-n", 1, self.job("one"))
        one = self.losses("one")
        self.assertEqual(len(one), 12)
        # One half runs on one mesh, the other half on another.
        for name, first, then in [("pair", (2, 2, None), (1, 1, None)),
                                  ("mesh", (4, 2, {"verbose": True}), (4, 1, {}))]:
            with self.subTest(name):
                ranks, tp, fsdp = first
                _, err = self.run_composer("-n", ranks, self.job(name, tp, fsdp, max_duration="6ba", **recorded))
                if fsdp:
                    self.assertIn("FULL_SHARD over 2 ranks x 1 replica, 4 units", err)
                    self.assertIn("activations: not counted, because tensor parallelism has no dry run", err)
                samples = {path.name: path.read_text()
                           for path in (self.run_folder(name) / "logs").glob("samples-rank*")}
                self.assertEqual(sorted(samples), [f"samples-rank{rank}.jsonl" for rank in range(0, ranks, tp)])
                ids = [i for text in samples.values() for line in text.splitlines()
                       for i in json.loads(line)["sample_ids"]]
                self.assertEqual((len(ids), len(set(ids))), (6 * 12, 6 * 12), "every sample once")
                ranks, tp, fsdp = then
                self.run_composer("-n", ranks, self.job(name, tp, fsdp))
                self.assert_same_losses(self.losses(name), one)

    def test_dropout_goes_on_bit_for_bit(self):
        model = {"dropout": 0.2}
        self.run_composer("-n", 2, self.job("through", 2, model=model))
        self.run_composer("-n", 2, self.job("in_two", 2, model=model, max_duration="6ba"))
        self.run_composer("-n", 2, self.job("in_two", 2, model=model))
        self.assertEqual(self.losses("in_two"), self.losses("through"))
        self.assert_same_state(self.newest_checkpoint("through"), self.newest_checkpoint("in_two"))

    def test_a_plan_splits_a_model_that_knows_nothing_of_it(self):
        def job(name, tp, plan=None, fsdp=None, **changes):
            parallel = {"tp": {"tensor_parallel_degree": tp, **({"layer_plan": plan} if plan else {})}}
            if fsdp is not None:
                parallel["fsdp"] = fsdp
            return self.write_job(name, parallelism_config=parallel, schedulers=None,
                                  **{"model": {"name": "mlp", "sizes": [32, 32, 24, 10]}, "max_duration": "12ba",
                                     **changes})

        plan = {"layers.0": "ColwiseParallel", "layers.1": "RowwiseParallel"}
        self.run_composer("-n", 1, job("one", 1))
        one = self.losses("one")
        for name, ranks, tp, fsdp in [("pair", 2, 2, None), ("mesh", 4, 2, {"auto_wrap": ["layers.*"]})]:
            with self.subTest(name):
                self.run_composer("-n", ranks, job(name, tp, plan, fsdp, max_duration="6ba"))
                self.run_composer("-n", ranks, job(name, tp, plan, fsdp))
                self.assert_same_losses(self.losses(name), one)
        _, err = self.run_composer("-n", 2, job("lost", 2, {"layers.0": "ColwiseParallel"}), code=64)
        self.assertIn("layer layers.1 would get a part of the 32 features of layers.0", err)
        _, err = self.run_composer("-n", 2, job("typo", 2, {"layer.0": "ColwiseParallel"}), code=64)
        self.assertIn("`layer.0` chooses no layer of Mlp (did you mean `layers.0`?)", err)
        _, err = self.run_composer("-n", 2, job("style", 2, {"layers.0": "ColumnParallel"}), code=64)
        self.assertIn("did you mean `ColwiseParallel`?", err)
        _, err = self.run_composer("-n", 1, job("fp32", 1, precision="amp_bf16", keep_in_fp32=["Linera"]), code=64)
        self.assertIn("keep_in_fp32: `Linera` chooses no layer of Mlp (did you mean `Linear`?)", err)

    def test_mistakes_are_user_errors(self):
        def error(*args, **changes):
            return self.run_composer("-n", 2, self.job("wrong", *args, **changes), code=64)[1]

        self.assertIn("tensor_parallel_degree: 3 does not divide the number of ranks, 2", error(3))
        self.assertIn("heads 3 do not split over tensor_parallel_degree 2",
                      error(2, model={"n_heads": 3, "d_model": 33}))
        self.assertIn("auto does not go with tensor_parallel_degree", error(2, device_train_microbatch_size="auto"))
        path = self.write_job("mlp",
                              parallelism_config={"tp": {"tensor_parallel_degree": 2, "layer_plan": None,
                                                         "device_mesh": "x"}})
        _, err = self.run_composer("-n", 2, path, code=64)  # reported by the launcher, which knows the keys
        self.assertIn("the mesh follows from the degrees", err)
        path = self.write_job("mlp", parallelism_config={"tp": {"tensor_parallel_degree": 2}})
        _, err = self.run_composer("-n", 2, path, code=64)
        self.assertIn("`mlp` cannot be split over ranks: parallelism_config.tp needs one of gpt", err)


if __name__ == "__main__":
    unittest.main()
