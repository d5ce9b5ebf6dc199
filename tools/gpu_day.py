"""The parts of a GPU day (tools/gpu_day.sh run), in order of value. Each runs in a process of its own with a time limit;
one that fails, or takes too long, does not stop the next. What has run is kept in the results' folder, so that a later
call goes on with the rest; a part that was cut off is tried once more.

Results: gpu.md; figures.tsv (part, name, value, unit, goal, verdict); logs.tar.gz. Only Python's standard library.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LOG_BYTES = 2 << 20  # of each part: its end
MLP = {
    "seed": 7,
    "model": {"name": "mlp", "sizes": [32, 64, 64, 10]},
    "train_dataloader": {"name": "gaussian_classification", "size": 250, "features": 32, "classes": 10},
    "global_train_batch_size": 16,
    "optimizers": {"name": "decoupled_adamw", "lr": 0.001, "weight_decay": 1e-5},
    "max_duration": "40ba", "save_interval": "10ba", "save_num_checkpoints_to_keep": -1,
}
TEXT = {
    "seed": 17,
    "model": {"name": "gpt", "vocab_size": 256, "n_layers": 4, "n_heads": 4, "d_model": 128, "max_seq_len": 64},
    "train_dataloader": {"name": "text_bytes", "path": str(HERE / "data" / "text.txt"), "max_seq_len": 64},
    "global_train_batch_size": 32,
    "optimizers": {"name": "decoupled_adamw", "lr": 0.002, "betas": [0.9, 0.95]},
    "max_duration": "60ba", "save_interval": "30ba",
}
PICTURES = {
    "seed": 17,
    "model": {"name": "resnet_small", "num_classes": 10, "in_channels": 1},
    "train_dataloader": {"name": "fashion_mnist", "path": str(HERE / "data"), "drop_last": True},
    "global_train_batch_size": 128,
    "optimizers": {"name": "decoupled_adamw", "lr": 0.003},
    "max_duration": "60ba", "save_interval": "30ba",
}
FP32_GPU, CPU = {"device": "gpu", "precision": "fp32"}, {"device": "cpu", "precision": "fp32"}


class Part:
    """What a part's functions use: its folder, runs of the packed programs, and figures."""

    def __init__(self, name, results, small):
        self.name, self.results, self.small = name, results, small
        self.folder = results / "work" / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def figure(self, name, value, unit="", goal="", met=None):
        verdict = "" if met is None else "yes" if met else "NO"
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        with open(self.results / "figures.tsv", "a", encoding="utf-8") as out:
            out.write("\t".join((self.name, name, text, unit, goal, verdict)) + "\n")
        print(f"== {name}: {text} {unit} {goal} {verdict}", flush=True)

    def call(self, *arguments, check=True, env=None, prefix=()):
        print("$", *prefix, *arguments, flush=True)
        done = subprocess.run([*map(str, prefix), str(HERE / "run"), *map(str, arguments)], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env=dict(os.environ, **(env or {})))
        print(done.stdout, flush=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{arguments[0]} ended with {done.returncode}")
        return done

    def write(self, name, job, **changes):
        job = dict(job, run_name=name, run_folder=str(self.folder / "runs" / name), **changes)
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({key: value for key, value in job.items() if value is not None}))
        return path

    def train(self, name, job, **changes):
        self.call("bin/composer", "-n", 1, self.write(name, job, **changes))

    def metric(self, name, key):
        lines = (self.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [value[key] for value in map(json.loads, lines) if key in value]

    def newest(self, name):
        return json.loads((self.folder / "runs" / name / "summary.json").read_text())["last_checkpoint"]

    def same_state(self, one, other):
        return self.call("bin/composer", "checkpoint", "diff", self.newest(one), self.newest(other),
                         check=False).returncode == 0

    def compare_losses(self, title, one, other, limit):
        pairs = list(zip(self.metric(one, "loss/train/total"), self.metric(other, "loss/train/total"), strict=True))
        worst = max(abs(a - b) for a, b in pairs)
        self.figure(f"{title}: largest difference of {len(pairs)} losses", worst, "", f"<= {limit}", worst <= limit)


def machine(part):
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        listing = ""
    part.figure("device", listing or "no nvidia-smi")
    part.call("bin/composer", "doctor", check=False)


def gpu_tests(part):
    for test in sorted((HERE / "tests").iterdir()):
        # Speeds are other parts'.
        done = part.call(f"tests/{test.name}", "--gtest_filter=-GpuAttention.Time", check=False)
        skipped = "[  SKIPPED ]" in done.stdout
        part.figure(test.name, "skipped" if skipped else f"exit code {done.returncode}", "", "passes",
                    done.returncode == 0 and not skipped)


def training(part):
    part.train("mlp-cpu", MLP, **CPU)
    part.train("mlp-gpu", MLP, **FP32_GPU)
    part.compare_losses("perceptron, GPU beside CPU", "mlp-gpu", "mlp-cpu", 1e-3)
    for name, job, needs in (("text", TEXT, "text.txt"), ("pictures", PICTURES, "train-images-idx3-ubyte.gz")):
        if not (HERE / "data" / needs).exists():
            part.figure(name, "no data in the pack")
            continue
        job = dict(job, max_duration="4ba", save_interval="2ba", global_train_batch_size=8) if part.small else job
        part.train(f"{name}-cpu", job, **CPU)
        for kind, changes in (("fp32", FP32_GPU), ("amp_bf16", {"device": "gpu", "precision": "amp_bf16"}),
                              ("sharded", dict(FP32_GPU, fsdp_config={}))):
            part.train(f"{name}-{kind}", job, **changes)
            part.compare_losses(f"{name}, {kind} on the GPU beside the CPU", f"{name}-{kind}", f"{name}-cpu",
                                0.02 if kind != "amp_bf16" else 0.1)


def recovery(part):
    part.train("calm", MLP, **FP32_GPU)
    part.train("killed", MLP, callbacks={"fail_at": {"rank": 0, "batch": 23}}, **FP32_GPU)
    restarts = json.loads((part.folder / "runs" / "killed" / "summary.json").read_text())["restarts"]
    part.figure("restarts after kill -9", restarts, "", "1", restarts == 1)
    same = part.same_state("calm", "killed")
    part.figure("state after kill -9 and resume, bit by bit", "equal" if same else "differs", "", "equal", same)


def exchange(part):
    """A checkpoint goes to the other device and back without a step: the same bits."""
    part.train("on_gpu", MLP, **dict(FP32_GPU, max_duration="20ba"))
    for name, device in (("to_cpu", CPU), ("to_gpu", FP32_GPU)):
        source = "on_gpu" if name == "to_cpu" else "to_cpu"
        part.train(name, MLP, **dict(device, max_duration="1ba", load_path=part.newest(source), load_weights_only=True,
                                     optimizers={"name": "sgd", "lr": 0.0}))
    told = part.call("bin/composer", "checkpoint", "diff", part.newest("on_gpu"), part.newest("to_gpu"), check=False)
    same = " model/" not in told.stdout and told.returncode in (0, 1)
    part.figure("weights after GPU, CPU, GPU", "equal" if same else "differ", "", "equal", same)


def sanitizer(part):
    tool = pathlib.Path("/usr/local/cuda/bin/compute-sanitizer")
    for wheel in HERE.glob("nvidia_cuda_sanitizer_api*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part.folder)
        tool = next(part.folder.glob("nvidia/*/bin/compute-sanitizer"))
        tool.chmod(0o755)
    if not tool.exists():
        part.figure("compute-sanitizer", "neither packed nor on this machine")
        return
    job = part.write("checked", MLP, max_duration="3ba", **FP32_GPU)
    for kind in ("memcheck", "racecheck"):
        done = part.call("bin/composer_worker", job, check=False, prefix=(tool, "--tool", kind, "--error-exitcode", 9))
        part.figure(kind, f"exit code {done.returncode}", "", "0", done.returncode == 0)


SHAPE = {"layers": 12, "width": 768, "context": 1024, "batch": 32, "steps": 40}
SMALL_SHAPE = {"layers": 1, "width": 64, "context": 16, "batch": 4, "steps": 6}


def gpt2(shape, **changes):
    job = dict(TEXT, model={"name": "gpt", "vocab_size": 50304, "n_layers": shape["layers"],
                            "n_heads": max(1, shape["width"] // 64), "d_model": shape["width"],
                            "max_seq_len": shape["context"]},
               train_dataloader=dict(TEXT["train_dataloader"], max_seq_len=shape["context"], num_workers=2,
                                     pin_memory=True),
               global_train_batch_size=shape["batch"], max_duration=f"{shape['steps']}ba", save_interval="100000ba",
               train_metrics_interval=0, callbacks={"speed_monitor": {"window_size": max(2, shape["steps"] // 2)}})
    return dict(job, device="gpu", precision="amp_bf16", **changes)


def step_time(part):
    part.train("gpt2", gpt2(SMALL_SHAPE if part.small else SHAPE))
    speed = part.metric("gpt2", "throughput/tokens_per_sec")[-1]
    part.figure("GPT-2 124M, amp_bf16", float(speed), "tokens/s", ">= 570000 on an H100", speed >= 570000)


def kernels(part):
    """Our own kernels beside LibTorch's operators: speed, and the losses of the same steps."""
    speeds = {}
    for chunk in (0, 4 if part.small else 4096):
        for key in ("off", "auto"):
            job = gpt2(SMALL_SHAPE if part.small else SHAPE, kernels=key)
            job["model"] = dict(job["model"], loss_chunk_tokens=chunk)
            part.train(f"{key}-{chunk}", job)
            speeds[key] = float(part.metric(f"{key}-{chunk}", "throughput/tokens_per_sec")[-1])
            part.figure(f"GPT-2 124M, kernels: {key}, loss_chunk_tokens: {chunk}", speeds[key], "tokens/s")
        part.compare_losses(f"kernels: auto beside off, loss_chunk_tokens: {chunk}", f"auto-{chunk}", f"off-{chunk}", 0.02)
        ratio = speeds["auto"] / speeds["off"]
        part.figure(f"speed with our own kernels, loss_chunk_tokens: {chunk}", ratio, "times", "> 1", ratio > 1)
    done = part.call("tests/gpu_kernels_test", "--gtest_filter=*Bandwidth", check=False)
    for line in done.stdout.splitlines():
        if line.startswith("bandwidth: "):
            name, value, unit = line.removeprefix("bandwidth: ").rsplit(" ", 2)
            part.figure(name, float(value), unit)


def fp8(part):
    """precision: amp_fp8 beside amp_bf16: speed, and the losses of the same steps."""
    speeds = {}
    for name, changes in (("bf16", {}), ("delayed", {"precision": "amp_fp8"}),
                          ("current", {"precision": "amp_fp8", "precision_config": {"scaling": "current"}})):
        part.train(name, dict(gpt2(SMALL_SHAPE if part.small else SHAPE), **changes))
        speeds[name] = float(part.metric(name, "throughput/tokens_per_sec")[-1])
        if name != "bf16":
            ratio = speeds[name] / speeds["bf16"]
            part.figure(f"GPT-2 124M, amp_fp8, {name} scaling, beside amp_bf16", ratio, "times", ">= 1.1", ratio >= 1.1)
            part.compare_losses(f"amp_fp8, {name} scaling, beside amp_bf16", name, "bf16", 0.01)


def attention(part):
    """attention_backend: each kernel beside products of matrices, its time, and steps of GPT-2 124M by it."""
    tests = "-*.Time" if part.small else "*"
    done = part.call("tests/gpu_attention_test", f"--gtest_filter={tests}", check=False)
    skipped = "[  SKIPPED ]" in done.stdout
    part.figure("attention's values and gradients beside products of matrices",
                "skipped" if skipped else f"exit code {done.returncode}", "", "passes",
                done.returncode == 0 and not skipped)
    for line in done.stdout.splitlines():
        if line.startswith("attention: ") and line.endswith(" us"):
            name, value, unit = line.removeprefix("attention: ").rsplit(" ", 2)
            part.figure(name.removesuffix(":"), float(value), unit)
    # Heads of 64 also in the small shape, dropout 0: all kernels take them.
    for name in ("efficient", "flash", "auto", "cudnn"):
        part.train(name, gpt2(SMALL_SHAPE if part.small else SHAPE, attention_backend=name))
        log = "".join(path.read_text(errors="replace") for path in (part.folder / "runs" / name).rglob("*.log"))
        kernel = re.search(rf"attention_backend: {name}: attention is computed by (.*)", log)
        part.figure(f"attention_backend: {name}", kernel[1] if kernel else "not in the log")
        part.figure(f"GPT-2 124M, attention_backend: {name}", float(part.metric(name, "throughput/tokens_per_sec")[-1]),
                    "tokens/s")
        if name != "efficient":
            part.compare_losses(f"attention_backend: {name} beside efficient", name, "efficient", 0.02)


SMALL_GPT = {"layers": 4, "width": 128, "context": 64, "batch": 32, "steps": 400}


def graphs(part):
    """cuda_graphs: the bits of the same steps without, and the step of a small GPT, which the host bounds."""
    exact = {"deterministic_mode": True, "max_duration": "20ba" if part.small else "60ba", "save_interval": "20ba",
             "optimizers": {"name": "decoupled_adamw", "lr": 2**-9}}  # a rate that float32 has
    for name, job in (("perceptron", MLP), ("text", dict(TEXT, global_train_batch_size=8))):
        for kind, changes in (("fp32", FP32_GPU), ("amp_bf16", {"device": "gpu", "precision": "amp_bf16"})):
            for key in (False, True):
                part.train(f"{name}-{kind}-{key}", job, **dict(changes, **exact, cuda_graphs=key))
            replayed = part.metric(f"{name}-{kind}-True", "trainer/graph_replay")
            part.figure(f"{name}, {kind}: steps that were replayed", f"{sum(map(int, replayed))} of {len(replayed)}", "",
                        "not 0", any(replayed))
            same = part.same_state(f"{name}-{kind}-False", f"{name}-{kind}-True")
            part.figure(f"{name}, {kind}: state after replays beside eager, bit by bit", "equal" if same else "differs",
                        "", "equal", same)
    shape = dict(SMALL_SHAPE, steps=12) if part.small else SMALL_GPT
    speeds = {}
    for key in (False, True):
        part.train(f"speed-{key}", gpt2(shape, cuda_graphs=key))
        speeds[key] = float(part.metric(f"speed-{key}", "throughput/tokens_per_sec")[-1])
        part.figure(f"4-layer GPT, cuda_graphs: {str(key).lower()}", speeds[key], "tokens/s")
    ratio = speeds[True] / speeds[False]
    part.figure("4-layer GPT: replays beside our own eager steps", ratio, "times", "> 1", ratio > 1)
    row = torch_row(part, shape, "eager")
    if row is not None:
        ratio = speeds[True] / row["tokens_per_second"]
        part.figure("4-layer GPT: replays beside PyTorch eager", ratio, "times", ">= 5", ratio >= 5)


def torch_row(part, shape, kind):
    """What torch_gpu_gpt.py prints, or None if it does not run here."""
    done = subprocess.run([sys.executable, str(HERE / "torch_gpu_gpt.py"), *(str(v) for v in shape.values()), kind,
                           *(["cpu"] if part.small else [])], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, flush=True)
    if done.returncode != 0:
        part.figure(f"PyTorch {kind}", "does not run here")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def peers(part):
    shape = SMALL_SHAPE if part.small else SHAPE
    for kind in ("eager", "compile"):
        row = torch_row(part, shape, kind)
        if row is not None:
            part.figure(f"PyTorch {row['torch']} {kind}", row["tokens_per_second"], "tokens/s")


# Name, most seconds, function.
PARTS = [("machine", 60, machine), ("gpu_tests", 240, gpu_tests), ("training", 400, training),
         ("recovery", 120, recovery), ("exchange", 120, exchange), ("step_time", 240, step_time),
         ("kernels", 400, kernels), ("fp8", 300, fp8), ("attention", 400, attention), ("graphs", 400, graphs), ("peers", 400, peers),
         ("sanitizer", 300, sanitizer)]


def run_limited(command, log, seconds):
    """Returns (exit code, whether it was cut off)."""
    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return child.wait(timeout=seconds), False
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return child.wait(), True


def report(results, state):
    rows = []
    if (results / "figures.tsv").exists():
        rows = [line.split("\t") for line in (results / "figures.tsv").read_text().splitlines()]
    lines = ["# On a GPU", "", "Written by `tools/gpu_day.sh run`; logs.tar.gz beside it has the programs' output.", ""]
    for name, _, _ in PARTS:
        told = state.get(name)
        what = "has not run" if told is None else f"{told['outcome']}, {told['seconds']:.0f} s"
        lines += [f"## {name}: {what}", ""]
        own = [row for row in rows if row[0] == name]
        if own:
            lines += ["| what | value | goal | met |", "|---|---|---|---|"]
            lines += [f"| {row[1]} | {row[2]} {row[3]} | {row[4]} | {row[5]} |" for row in own] + [""]
    (results / "gpu.md").write_text("\n".join(lines))
    with tarfile.open(results / "logs.tar.gz", "w:gz") as archive:
        for log in sorted((results / "work").glob("*.log")):
            tail = results / "work" / (log.name + ".tail")
            tail.write_bytes(log.read_bytes()[-LOG_BYTES:])
            archive.add(tail, log.name)


def forget_figures(results, name):
    """Those of an earlier try."""
    path = results / "figures.tsv"
    if path.exists():
        kept = [line for line in path.read_text().splitlines(keepends=True) if line.split("\t")[0] != name]
        path.write_text("".join(kept))


def main():
    parser = argparse.ArgumentParser(prog="gpu_day.sh run")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("gpu_day_results"))
    parser.add_argument("--seconds", type=float, default=480, help="a part begins only if its limit fits")
    parser.add_argument("--part", action="append", choices=[name for name, _, _ in PARTS])
    parser.add_argument("--small", action="store_true", help="tiny shapes, to test the parts themselves")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    results = given.results.resolve()
    if given.inside:
        next(function for name, _, function in PARTS if name == given.inside)(Part(given.inside, results, given.small))
        return 0
    (results / "work").mkdir(parents=True, exist_ok=True)
    state_file = results / "work" / "state.json"
    state = json.loads(state_file.read_text()) if state_file.exists() else {}
    begin = time.monotonic()
    for name, limit, _ in PARTS:
        told = state.get(name, {"tries": 0, "outcome": ""})
        if given.part and name not in given.part:
            continue
        if not given.part and (told["outcome"] in ("done", "failed") or told["tries"] >= 2):
            continue
        if time.monotonic() - begin + limit > given.seconds:
            continue
        forget_figures(results, name)
        # Written first: the machine may be taken away in the middle.
        state[name] = {"tries": told["tries"] + 1, "outcome": "cut off", "seconds": 0}
        state_file.write_text(json.dumps(state))
        started = time.monotonic()
        command = [sys.executable, str(HERE / "gpu_day.py"), "--inside", name, "--results", str(results)]
        code, late = run_limited(command + ["--small"] * given.small, results / "work" / f"{name}.log", limit)
        state[name].update(outcome="cut off" if late else "done" if code == 0 else "failed",
                           seconds=time.monotonic() - started)
        state_file.write_text(json.dumps(state))
        report(results, state)
        print(f"{name}: {state[name]['outcome']}, {state[name]['seconds']:.0f} s", flush=True)
    report(results, state)
    left = [name for name, _, _ in PARTS if state.get(name, {}).get("outcome") not in ("done", "failed")]
    print("left: " + (", ".join(left) or "nothing"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
