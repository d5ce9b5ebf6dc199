"""Every program and job in examples/ that does not need its own data runs unchanged."""
import io
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

import harness

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class ExamplesTest(harness.JobTest):
    def run_example(self, name, *args):
        ran = subprocess.run([harness.BIN / name, *map(str, args)], cwd=self.folder, capture_output=True, text=True,
                             timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("InitGoogleLogging", ran.stderr)
        return ran.stdout

    def accuracy(self, out):
        return float([line.split()[1] for line in out.splitlines() if "Accuracy" in line][0])

    def test_a_model_and_a_dataset_of_ones_own(self):
        out = self.run_example("train_mlp", self.folder / "run")
        self.assertIn("600 steps", out)
        self.assertGreater(self.accuracy(out), 0.9)
        self.assertEqual(self.run_example("train_mlp", self.folder / "run"), out,
                         "started again it loads the end and evaluates")

    def test_algorithm_callback_logger_and_scheduler(self):
        out = self.run_example("custom_algorithm_callback")
        batches = [int(line.split()[1]) for line in out.splitlines()]
        self.assertTrue(batches and all(batch % 10 == 0 for batch in batches), out)
        self.assertLess(batches[-1], 8 * 16, "the callback ends it early")
        self.assertIn("input_noise/deviation 0.3", out)

    def test_fit_eval_predict_and_save(self):
        out = self.run_example("fit_predict", self.folder / "run")
        self.assertGreater(self.accuracy(out.replace("loaded ", "")), 0.8, "weights of the first run")
        self.assertIn("after 1ep more: batch 16", out)
        self.assertIn("after 20ba more: batch 36", out)
        self.assertIn("64 predictions", out)
        self.assertTrue(list((self.folder / "run/tensorboard").rglob("*tfevents*")), out)

    def check_ranks(self, code, out, err, ranks):
        self.assertEqual(code, 0, err)
        self.assertIn(f"{ranks} ranks, 48 steps", out)
        self.assertNotIn("InitGoogleLogging", err)
        [loss] = [line.split()[1] for line in out.splitlines() if "CrossEntropy" in line]
        return float(loss)

    def test_several_ranks_under_any_launcher(self):
        program = harness.BIN / "several_ranks"
        alone = subprocess.run([program, self.folder / "alone"], env=self.environment(), cwd=self.folder,
                               capture_output=True, text=True, timeout=120)
        expected = self.check_ranks(alone.returncode, alone.stdout, alone.stderr, ranks=1)

        out, err = self.run_composer("-n", 2, program, self.folder / "ours", timeout=120)
        self.assertAlmostEqual(self.check_ranks(0, out, err, ranks=2), expected, places=4)
        self.assertEqual(err.strip(), "", "nothing is said that the program did not say")
        # Both left their checkpoints; the launcher that runs the program again finds the end of training there.
        self.assertTrue(list((self.folder / "ours/checkpoints").glob("*/manifest.json")))
        again, err = self.run_composer("-n", 2, program, self.folder / "ours", timeout=120)
        self.assertEqual(again, out, err)

        # As torchrun sets them, and Open MPI; rank 0 serves the store.
        def torchrun(rank):
            return {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "False"}

        def mpirun(rank):
            return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2",
                    "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}

        for launcher in (torchrun, mpirun):
            port = {"MASTER_PORT": str(harness.free_port()), "OMP_NUM_THREADS": "1"}
            folder = self.folder / launcher.__name__
            processes = [subprocess.Popen([program, folder], env={**self.environment(), **launcher(rank), **port},
                                          cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                         for rank in range(2)]
            try:
                ended = [process.communicate(timeout=120) for process in processes]
            finally:
                for process in processes:
                    process.kill()
            self.assertEqual([process.returncode for process in processes], [0, 0], ended)
            self.assertAlmostEqual(self.check_ranks(0, *ended[0], ranks=2), expected, places=4)
            self.assertEqual(ended[1][0], "", "only rank 0 prints")

    def test_a_rank_that_fails_holds_up_nobody(self):
        # Rank 1 never comes; the launcher ends rank 0, which waits for it.
        program = harness.BIN / "several_ranks"
        out, err = self.run_composer("-n", 2, "-c", "sh", "-c",
                                     f'test $RANK = 1 && exit 3; exec {program}', code=3, timeout=60)
        self.assertIn("rank 1", err)
        self.assertEqual(out, "")

    def test_diffusion(self):
        shutil.copytree(EXAMPLES / "diffusion", self.folder, dirs_exist_ok=True)
        subprocess.run([sys.executable, "make_pictures.py", "pictures", "64"], cwd=self.folder, check=True)
        # Two batches of 32 an epoch, as two ranks with sharded parameters.
        short = ["global_train_batch_size=32", "callbacks.log_diffusion_images.num_inference_steps=2",
                 "parallelism_config={fsdp: {sharding_strategy: FULL_SHARD}}", "schedulers.t_warmup=0ba", "max_duration=4ba"]
        self.run_composer("-n", 2, "train.yaml", *short, timeout=120)
        picture = (self.run_folder("diffusion") / "images/sampled-ba4.png").read_bytes()
        self.assertEqual(struct.unpack(">II", picture[16:24]), (3 * 16, 3 * 16), "nine pictures in rows")
        losses = self.losses("diffusion")
        self.assertLess(losses[-1], losses[0])
        # Stopped and resumed, it draws what one that was not stopped draws, and paints the same.
        for until in (1, 4):
            self.run_composer("-n", 2, "train.yaml", *short[:-1], "run_name=resumed", f"max_duration={until}ba",
                              timeout=120)
        self.assertEqual(self.losses("resumed")[1:], losses[1:])
        self.assertEqual((self.run_folder("resumed") / "images/sampled-ba4.png").read_bytes(), picture)
        # A complete run paints again.
        (self.run_folder("diffusion") / "images/sampled-ba4.png").unlink()
        self.run_composer("-n", 1, "train.yaml", *short, timeout=120)
        again = (self.run_folder("diffusion") / "images/sampled-ba4.png").read_bytes()
        self.assertEqual(struct.unpack(">II", again[16:24]), (3 * 16, 3 * 16))

    def test_stable_diffusion_with_its_autoencoder(self):
        shutil.copytree(EXAMPLES / "stable-diffusion", self.folder, dirs_exist_ok=True)
        subprocess.run([sys.executable, "make_folder.py", "sd", "64"], cwd=self.folder, check=True)
        short = ["schedulers.t_warmup=0ba", "global_train_batch_size=16"]
        self.run_composer("-n", 1, "autoencoder.yaml", *short, "max_duration=4ba", timeout=120)
        self.run_composer("checkpoint", "export", "runs/sd-autoencoder/checkpoints", "sd/vae/diffusion_pytorch_model.safetensors")
        self.run_composer("-n", 2, "train.yaml", *short, "max_duration=4ba", "algorithms.ema.half_life=1ba",
                          "callbacks.log_diffusion_images.num_inference_steps=2",
                          "parallelism_config={fsdp: {sharding_strategy: FULL_SHARD}}", timeout=180)
        self.assertEqual(len(self.losses("sd")), 4)
        picture = (self.run_folder("sd") / "images/sampled-ba4.png").read_bytes()
        self.assertEqual(struct.unpack(">II", picture[16:24]), (3 * 16, 3 * 16), "eight pictures, decoded")

    def captioned_pictures(self, count):
        """A tar file of red pictures, 20 x 16, each with a caption."""
        def chunk(kind, body):
            return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        with tarfile.open(self.folder / "pictures.tar", "w") as tar:
            for number in range(count):
                rows = (b"\0" + bytes([200, 5 * number, 30]) * 20) * 16
                png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 20, 16, 8, 2, 0, 0, 0))
                       + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
                for ending, content in (("png", png), ("txt", b"A red square, on black"), ("cls", b"0")):
                    info = tarfile.TarInfo(f"{number:04}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))

    def test_stable_diffusion_from_pictures_and_captions(self):
        self.captioned_pictures(16)
        folder = harness.ROOT / "tests/golden/diffusion/pipeline"
        pictures = [{"decode_image": {"key": "png"}}, {"center_crop": {"size": 16}}, "to_float",
                    {"normalize": {"mean": [0.5] * 3, "std": [0.5] * 3}}]
        text = {"tokenize": {"key": "txt", "to": "input_ids", "to_length": 9}}
        data = {"name": "webdataset", "path": "pictures.tar", "transforms": [*pictures, text]}
        job = self.write_job("sd2", model={"name": "stable_diffusion_2", "path": str(folder), "conditioning_dropout": 0.1},
                             tokenizer={"name": "hf", "path": str(folder / "tokenizer")}, train_dataloader=data,
                             eval_dataloader=None, global_train_batch_size=4, max_duration="3ba", save_interval="1ba",
                             parallelism_config={"fsdp": {"sharding_strategy": "FULL_SHARD"}},
                             callbacks={"log_diffusion_images": {"prompts": ["a red square", "a blue disc"], "guidance_scale": 3,
                                                                 "num_inference_steps": 2}})
        self.run_composer("-n", 2, job, timeout=120)
        picture = (self.run_folder("sd2") / "images/sampled-ba3.png").read_bytes()
        self.assertEqual(struct.unpack(">II", picture[16:24]), (2 * 16, 16), "two pictures of 16 x 16, decoded")
        losses = self.losses("sd2")
        for until in (1, 3):
            self.run_composer("-n", 2, job, "run_name=resumed", f"run_folder={self.folder}/runs/resumed",
                              f"max_duration={until}ba", timeout=120)
        self.assertEqual(self.losses("resumed")[1:], losses[1:], "a run that goes on draws what one that did not stop draws")
        # The latents of the same pictures, computed beforehand.
        encode = self.write_job("encode", model={"name": "autoencoder_kl", "path": str(folder / "vae"), "encode_only": True},
                                train_dataloader=None, max_duration=None,
                                eval_dataloader={**data, "transforms": [*pictures, {"keep": {"keys": ["inputs"]}}], "batch_size": 8})
        self.run_composer("checkpoint", "import", folder / "vae/diffusion_pytorch_model.safetensors", "vae")
        self.run_composer("predict", encode, "vae", "--output", "latents.safetensors", timeout=60)
        header = (self.folder / "latents.safetensors").read_bytes()[:4096].decode(errors="ignore")
        self.assertIn('"shape":[16,4,8,8]', header.replace(" ", ""))

    def test_llama_finetune(self):
        texts = self.folder / "texts.txt"
        texts.write_text("One, two, three. " * 400)
        small = ["train_dataloader.max_seq_len=16", "eval_dataloader.max_seq_len=16", "train_dataloader.path=texts.txt",
                 "eval_dataloader.path=texts.txt", "global_train_batch_size=4", "max_duration=8ba", "save_interval=8ba",
                 "eval_subset_num_batches=1", "schedulers.t_warmup=1ba"]
        self.run_composer("-n", 2, EXAMPLES / "llama-finetune/pretrain.yaml", *small, timeout=120)
        self.run_composer("checkpoint", "export", "runs/llama-pretrain/checkpoints", "llama", "--hf")
        _, err = self.run_composer("-n", 2, EXAMPLES / "llama-finetune/finetune.yaml", *small, "variables.model=llama",
                                   timeout=120)
        self.run_composer("checkpoint", "export", "runs/llama-finetune/checkpoints", "adapter", "--adapter")
        self.assertLess((self.folder / "adapter/adapter_model.safetensors").stat().st_size, 330_000)
        losses = self.losses("llama-finetune")
        self.assertLess(losses[-1], losses[0], err)

    def test_plugin(self):
        built = harness.BIN.parent / "examples/plugin"
        shutil.copytree(built, self.folder / "plugin")
        job = self.folder / "plugin/train.yaml"
        _, err = self.run_composer("-n", 2, job, f"run_folder={self.folder}/runs/spirals", timeout=120)
        self.assertGreater(self.summary("spirals")["metrics"]["metrics/eval/MulticlassAccuracy"], 0.9, err)
        self.assertTrue(any("gradient_norm" in record for record in self.metrics("spirals")))
        # The plugin is found from the YAML file, wherever the command is run.
        out, _ = self.run_composer("validate", "plugin/train.yaml", cwd=self.folder)
        self.assertIn("valid", out)


if __name__ == "__main__":
    import unittest
    unittest.main()
