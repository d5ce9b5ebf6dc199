"""`composer plan` says what a run will cost: of the published configurations, whose sizes are known, and of a job that also
runs, whose memory plan it must equal. SPDX-License-Identifier: Apache-2.0"""
import re
import unittest

import harness

PUBLISHED, RECIPES = harness.ROOT / "examples/published", harness.ROOT / "examples/recipes"
# Parameters as transformers and diffusers count them.
SIZES = {"bert-base": 109_514_298, "gpt2-124m": 124_439_808, "llama-3.2-1b": 1_235_814_400, "mpt-125m": 123_636_480,
         "mpt-1b": 1_311_213_568, "mpt-7b": 6_649_286_656}
# The full-size recipes.
RECIPE_SIZES = {"resnet-mild": 25_557_032, "resnet-medium": 25_557_032, "resnet-hot": 25_557_032, "sd2": 865_910_724}


class PlanTest(harness.JobTest):
    def plan(self, *words, code=0):
        return self.run_composer("plan", *words, code=code, timeout=120)

    def test_published_configurations(self):
        self.assertEqual({path.stem for path in PUBLISHED.glob("*.yaml")}, set(SIZES))
        for name, parameters in SIZES.items():
            with self.subTest(name):
                out, _ = self.plan(PUBLISHED / f"{name}.yaml", "-n", 8, "--gpu", "h100-80")
                sharded = "not sharded" if name == "bert-base" else "sharded"
                self.assertIn(f"{parameters} parameters, {parameters} of them trained; 8 ranks, {sharded}\n", out)
                self.assertIn("activations are not counted: the data cannot be opened", out)
                self.assertIn("are left for activations", out)
                self.assertRegex(out, r"operations: .* FLOP a sample")
                self.assertRegex(out, r"(?m)^ +512 ")
                # Nothing is published of BERT that would be counted in the same way.
                time = r"time: no training" if name == "bert-base" else r"time: .* a step, .* tokens/s; .* for .* steps"
                self.assertRegex(out, time)

    def test_recipes(self):
        for recipe in sorted(RECIPES.glob("*.yaml")):
            name = recipe.stem
            if name.endswith("-twin"):
                continue
            with self.subTest(name):
                out, _ = self.plan(recipe, "-n", 8, "--gpu", "a100-80")
                self.assertIn(f"{RECIPE_SIZES[name]} parameters, " if name in RECIPE_SIZES else " parameters, ", out)
                self.assertIn("are left for activations", out)

    def test_resnet_50_on_imagenet(self):
        out, _ = self.plan(harness.ROOT / "examples/resnet-images/resnet50-imagenet.yaml", "-n", 8, "--gpu", "h100-80")
        self.assertIn("25557032 parameters, 25557032 of them trained; 8 ranks, not sharded\n", out)  # as torchvision counts them
        self.assertRegex(out, r"(?m)^ +512 ")

    def test_a_model_that_does_not_fit_and_what_to_change(self):
        out, _ = self.plan(PUBLISHED / "mpt-7b.yaml", "-n", 8, "--gpu", "a100-40", "fsdp_config.sharding_strategy=NO_SHARD")
        self.assertRegex(out, r"does not fit: .* more than .*a100-40.*FULL_SHARD")

    def test_the_plan_is_that_of_the_run(self):
        job = self.write_job("planned", max_duration="2ba", fsdp_config={"sharding_strategy": "FULL_SHARD", "verbose": True},
                             model={"name": "mlp", "sizes": [32, 512, 512, 10]})
        out, _ = self.plan(job, "-n", 2)
        _, err = self.run_composer("-n", 2, job)
        for cause in ("parameters", "gradients", "optimizer"):
            planned = re.search(rf"(?m)^  {cause} +([\d.]+ [KMG]?B)", out).group(1)
            self.assertRegex(err, rf"{cause} {re.escape(planned)}", cause)
        self.assertIn("activations and batches", out)

    def test_mistakes(self):
        job = self.write_job("wrong")
        _, err = self.plan(job, "--gpu", "h100", code=64)
        self.assertIn("unknown GPU `h100`", err)
        _, err = self.plan(job, "-n", 0, code=64)
        self.assertIn("-n", err)
        _, err = self.plan(job, "model.sizes=[32]", code=64)
        self.assertIn("sizes", err)


if __name__ == "__main__":
    unittest.main()
