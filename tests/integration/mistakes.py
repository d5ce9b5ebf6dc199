"""The panel of planted mistakes: what people do wrong on the first day, and what a good answer says.

Each entry plants one mistake and starts the real program. An answer is good when it names the field, the value and the
fix (at run time the rank, the node and the place), with the right exit code. mistakes_test.py checks the answers,
benchmarks/mistakes.py prints them with their times beside the Python peers. SPDX-License-Identifier: Apache-2.0"""
import dataclasses
import resource
import shutil
import signal
import socket
import subprocess

import harness
from fsdp_test import GPT_JOB

MDS = harness.ROOT / "tests/golden/mds/tiny"
DATA = harness.TINY_JOB["train_dataloader"]
SLOW = {"throttle": {"seconds": 0.02}}


@dataclasses.dataclass
class Mistake:
    name: str
    plant: object            # plant(test) starts the program and returns its process, or those of several nodes
    says: dict               # what the answer must say: a part of it -> a regular expression
    code: object = 64        # the exit code, or several
    slow: bool = False       # starts workers or waits, a second and more: not in each run of the tests
    at_run_time: bool = False  # the program trains first: what counts is the time from the mistake to the answer
    peer: object = None      # torchrun's same mistake: the words after the program (benchmarks/mistakes.py)
    peer_first: object = None  # what runs beside it: torchrun's other node


PANEL = []


def mistake(name, code=64, slow=False, at_run_time=False, peer=None, peer_first=None, **says):
    def add(plant):
        PANEL.append(Mistake(name, plant, says, code, slow, at_run_time, peer, peer_first))
        return plant
    return add


def job(name, title, ranks=2, settings=None, **says):
    """A mistake in the job's file alone."""
    label = title.replace(" ", "-")
    mistake(name, **says)(lambda t: t.start("-n", ranks, t.write_job(label, **(settings or {}))))


def gpt(test, name, **changes):
    text = test.folder / "text.txt"
    text.write_text("In the beginning was the word, and the word was misspelled. " * 100)
    settings = dict(GPT_JOB, **changes)
    if settings["train_dataloader"]["name"] == "text_bytes":
        settings["train_dataloader"] = dict({"path": str(text)}, **settings["train_dataloader"])
    return test.write_job(name, **settings)


# The job's file.
job("a typo in a key", "typo", settings={"max_duraton": "3ba"}, peer=["torchrun", "--nproc-per-nod", "2"],
    field=r"typo\.yaml:\d+:\d+: max_duraton", fix="did you mean `max_duration`")
job("a value of the wrong type", "type", settings={"seed": "soon"},
    field=r"type\.yaml:\d+:\d+: seed", value="soon", fix="whole number|integer")
job("a time without a known unit", "unit", settings={"max_duration": "3epochs"},
    field=r"unit\.yaml:\d+:\d+: max_duration", value="3epochs", fix=r"`?ep`?\b.*\bba\b")
job("an unknown algorithm", "algorithm", settings={"algorithms": {"mixupp": None}},
    field="algorithms", value="mixupp", fix="did you mean `mixup`")


@mistake("a key given twice", field=r"twice\.yaml:3:\d+: `seed`", value="given twice", fix=r"first at .*twice\.yaml:2")
def key_twice(t):
    path = t.write_job("twice")
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 7,\n "seed": 8'))
    return t.start("-n", 2, path)


@mistake("YAML that does not parse", field=r"syntax\.yaml:\d+:\d+", value="`{`", fix="not closed by a `}`")
def yaml_syntax(t):
    (t.folder / "syntax.yaml").write_text("model: {name: mlp, sizes: [32, 10]\nmax_duration: 1ep\n")
    return t.start("-n", 2, t.folder / "syntax.yaml")


job("no GPU on this machine", "gpu", slow=True, peer=["torchrun", "--nproc-per-node", "2", "gpu.py"], settings={"device": "gpu"}, field="device", value="gpu", fix="device: cpu|`cpu`")
job("more ranks than samples in a step", "narrow", slow=True, ranks=3, settings={"global_train_batch_size": 2},
    field="global_train_batch_size", value="2", fix="3")
job("a number of ranks that elastic determinism cannot have", "elastic", slow=True, ranks=3,
    settings={"determinism": "elastic", "virtual_shards": 8}, field="virtual_shards", value="8", fix="1, 2, 4")


# The command line.
@mistake("a mistyped command", value="trian", fix="composer .*command.yaml", peer=["torchrun", "trian"])
def command(t):
    return t.start("trian", t.write_job("command"))


@mistake("a mistyped flag", field="--nprc", fix="--nproc", peer=["torchrun", "--nprc", "2", "script.py"])
def flag(t):
    return t.start("--nprc", 2, t.write_job("flag"))


@mistake("numbers of ranks that contradict each other", field="world.size", value="4", fix="3|multiple|nnodes",
         peer=["torchrun", "--nproc-per-node", "3", "--nnodes", "0", "script.py"])
def ranks(t):
    return t.start("-n", 3, "--world_size", 4, t.write_job("ranks"))


@mistake("a port that is taken", field="--master_port", value=r"\d{4,5}", fix="another|choose|free",
         peer=["torchrun", "--nproc-per-node", "1", "--master-port", "{taken}", "script.py"])
def port(t):
    taken = socket.socket()
    t.addCleanup(taken.close)
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return t.start("-n", 2, "--master_port", taken.getsockname()[1], t.write_job("port"))


@mistake("a job file that is not there", field="absent.yaml", fix="no such|does not exist|there is no|No such",
         peer=["torchrun", "--nproc-per-node", "1", "absent.py"])
def absent(t):
    return t.start("-n", 2, "absent.yaml")


# Data.
@mistake("a missing data file", slow=True, field=r"train_dataloader\.path", value="nowhere", fix="no such|does not exist|there is no|No such",
         peer=["torchrun", "--nproc-per-node", "2", "data.py"])
def missing_data(t):
    return t.start("-n", 2, gpt(t, "data", train_dataloader={"name": "text_bytes", "path": "nowhere.txt", "max_seq_len": 16}))


def jsonl(t, name, text, **loader):
    (t.folder / "data.jsonl").write_text(text)
    return gpt(t, name, tokenizer={"name": "bytes", "eos": True}, model=dict(GPT_JOB["model"], vocab_size=257), train_dataloader={
        "name": "jsonl", "path": str(t.folder / "data.jsonl"), "transforms": [{"tokenize": loader}], "pack": {"max_seq_len": 16}})


@mistake("an empty data file", slow=True, field="pack", value="no documents")
def empty_data(t):
    return t.start("-n", 2, jsonl(t, "empty", ""))


@mistake("a column that the data does not have", slow=True, value="there is no text `txt`")
def column(t):
    return t.start("-n", 2, jsonl(t, "column", '{"text": "a line"}\n' * 50, key="txt"))


@mistake("a line that is not JSON", slow=True, field=r"data\.jsonl", value=r"at byte 380.*half a li", fix="not a JSON object")
def bad_line(t):
    return t.start("-n", 2, jsonl(t, "line", '{"text": "a line"}\n' * 20 + '{"text": "half a li\n' + '{"text": "a line"}\n' * 20))


@mistake("a damaged shard", slow=True, code=93, field=r"shard\.\d{5}\.mds", value="has 1\d\d bytes", fix="the index says")
def shard(t):
    folder = t.folder / "mds"
    shutil.copytree(MDS, folder)
    for path in folder.glob("*.mds"):
        path.write_bytes(path.read_bytes()[:-7])
    return t.start("-n", 2, gpt(t, "shard", tokenizer={"name": "bytes"}, train_dataloader={
        "name": "streaming", "local": str(folder), "transforms": ["tokenize"], "collate": {"name": "pad"}}))


@mistake("a file that is not a tokenizer", slow=True, field="tokenizer", value=r"tokenizer\.json", fix="model|not a tokenizer|BPE|expected")
def tokenizer(t):
    (t.folder / "tokenizer.json").write_text('{"version": "1.0", "vocab": []}')
    return t.start("-n", 2, gpt(t, "tokenizer", tokenizer={"name": "hf", "path": str(t.folder / "tokenizer.json")}))


# The model.
job("a model that does not take the data", "shapes", slow=True, peer=["torchrun", "--nproc-per-node", "2", "shapes.py"], settings={"model": {"name": "mlp", "sizes": [31, 10]}},
    field=r"model\.sizes", value="31", fix="32")
job("labels beyond the model's outputs", "classes", slow=True, peer=["torchrun", "--nproc-per-node", "2", "classes.py"], settings={"model": {"name": "mlp", "sizes": [32, 64, 5]}},
    field=r"classes\.yaml:\d+:\d+: model", value="5 classes, but a label is [5-9]", fix=r"at least ([6-9]|10)")


@mistake("a vocabulary smaller than the tokens", slow=True, field=r"model\.vocab_size", value="50", fix=r"token \d+|at least \d+|256",
         peer=["torchrun", "--nproc-per-node", "2", "vocabulary.py"])
def vocabulary(t):
    return t.start("-n", 2, gpt(t, "vocabulary", model=dict(GPT_JOB["model"], vocab_size=50)))


@mistake("heads that do not divide the width", field=r"model\.(n_heads|d_model)", value="5", fix="32|divi|multiple")
def heads(t):
    return t.start("-n", 2, gpt(t, "heads", model=dict(GPT_JOB["model"], n_heads=5)))


@mistake("sequences longer than the model takes", slow=True, field=r"max_seq_len", value="64", fix="16")
def context(t):
    return t.start("-n", 2, gpt(t, "context", train_dataloader={"name": "text_bytes", "max_seq_len": 64}))


job("a model too large for the memory", "large", slow=True, ranks=1, settings={"model": {"name": "mlp", "sizes": [32, 1500000, 1500000, 10]}},
    field="out of memory", value=r"GiB", fix="smaller model|fsdp", code=(64, 70, 93))


# Checkpoints and places.
def trained(t, name, **changes):
    t.run_composer("-n", 1, t.write_job(name, max_duration="2ba", **changes))
    return t.run_folder(name)


@mistake("a checkpoint of another model", slow=True, field="load_path|model", value=r"0\.weight|layers|64", fix="32|load_strict|shape|48",
         peer=["torchrun", "--nproc-per-node", "2", "other_model.py"])
def other_model(t):
    run = trained(t, "old")
    return t.start("-n", 2, t.write_job("new", load_path=str(run), model={"name": "mlp", "sizes": [32, 48, 10]}))


@mistake("a damaged checkpoint", slow=True, code=93, field=r"rank-00000\.safetensors", value="checksum mismatch of tensor",
         peer=["torchrun", "--nproc-per-node", "2", "damaged.py"])
def damaged(t):
    checkpoint = trained(t, "damaged") / "checkpoints/ep0-ba2"
    path = max((file for file in checkpoint.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    return t.start("-n", 2, t.write_job("loads", load_path=str(checkpoint)))


job("a load_path that is not there", "load", slow=True, peer=["torchrun", "--nproc-per-node", "2", "load.py"], settings={"load_path": "runs/gone"}, field="load_path", value="runs/gone",
    fix="no checkpoint|no such|does not exist|there is no|No such")


@mistake("a save_folder that cannot be written", slow=True, field="save_folder", value="/file", fix="[Nn]ot a directory")
def unwritable(t):
    (t.folder / "file").write_text("")
    return t.start("-n", 2, t.write_job("unwritable", save_folder=str(t.folder / "file/checkpoints")))


@mistake("no credentials for the bucket", slow=True, field="s3://", value="AWS_ACCESS_KEY_ID", fix="credentials|set ")
def credentials(t):
    clean = {k: v for k, v in t.environment().items() if not k.startswith("AWS_")}
    clean.update(HOME=str(t.folder), AWS_EC2_METADATA_DISABLED="true")
    return t.start("-n", 2, t.write_job("bucket", save_folder="s3://bucket/run"), env=clean)


job("a tracker without its server", "tracker", slow=True, settings={"loggers": {"mlflow": {}}},
    field=r"loggers\.mlflow", value="tracking_uri", fix="MLFLOW_TRACKING_URI")


@mistake("a run that another launcher holds", slow=True, field="runs/held", value=r"pid \d+", fix="composer (stop|drain|status)|run_name")
def held(t):
    path = t.write_job("held", max_duration="100000ba", callbacks=SLOW)
    t.start("-n", 1, path)
    t.wait_for_batch("held", 1)
    t.planted()
    return t.start("-n", 2, path)


@mistake("a plugin that is not one", slow=True, field="plugins", value=r"mine\.so", fix="shared library|ELF|composer plugin|plugin")
def plugin(t):
    (t.folder / "mine.so").write_text("not a library")
    return t.start("-n", 2, t.write_job("plugin", plugins=["mine.so"]))


# The machine and the other nodes.
def in_namespace(t, script, *words):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        t.skipTest("a mount namespace is not permitted here")
    return t.start_program(["unshare", "-m", "sh", "-c", script, harness.BIN / "composer", *words])


def node(t, rank, port, path, *flags, address="127.0.0.1", **options):
    return t.start("-n", 1, "--nnodes", 2, "--node_rank", rank, "--master_addr", address, "--master_port", port,
                   *flags, path, **options)


@mistake("a master that nobody serves", code=69, slow=True, field="127.0.0.1", value=r"\d{5}", fix="refused|listen|node 0",
         peer=["torchrun", "--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port", "{free}", "script.py"])
def no_master(t):
    return node(t, 1, harness.free_port(), t.write_job("alone"), "--join-timeout", 4)


@mistake("another world size on the second node", field="world_size", value="3", fix="2",
         peer=["torchrun", "--nnodes", "3", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port", "{free}", "script.py"],
         peer_first=["--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", "{free}", "script.py"])
def other_nodes(t):
    port, path = harness.free_port(), t.write_job("nodes")
    first = node(t, 0, port, path, "--join-timeout", 20, "--world_size", 2)
    other = ("-n", 1, "--nnodes", 3, "--world_size", 3, "--node_rank", 1, "--master_addr", "127.0.0.1", "--master_port", port)
    return t.start(*other, path), first


@mistake("another configuration on the second node", field="optimizers", value="configuration", fix="the same")
def other_configuration(t):
    port, path = harness.free_port(), t.write_job("same")
    first = node(t, 0, port, path, "--join-timeout", 20)
    return node(t, 1, port, t.write_job("same2", run_name="same", optimizers={"name": "decoupled_adamw", "lr": 0.5})), first


@mistake("another token on the second node", field="token", value="another token", fix="COMPOSER_TOKEN")
def token(t):
    port, path = harness.free_port(), t.write_job("token")
    node(t, 0, port, path, "--join-timeout", 20, env=dict(t.environment(), COMPOSER_TOKEN="one secret of the job"))
    return node(t, 1, port, path, env=dict(t.environment(), COMPOSER_TOKEN="another one, by mistake"))


def wrong_card(t, name, card, address):
    port, path = harness.free_port(), t.write_job(name)
    first = node(t, 0, port, path, "--join-timeout", 20, address=address)
    return node(t, 1, port, path, address=address, env=dict(t.environment(), GLOO_SOCKET_IFNAME=card)), first


@mistake("a network card that is not there", node=r"node 1 \(\S+\)", field="GLOO_SOCKET_IFNAME", value="`eth9`",
         rank="its ranks would wait", fix=r"there are lo \(127.*unset GLOO_SOCKET_IFNAME",
         peer=["torchrun", "--nproc-per-node", "2", "card.py"])
def absent_card(t):
    return wrong_card(t, "absent-card", "eth9", "127.0.0.1")


@mistake("a network card that leads nowhere", node=r"node 1 \(\S+\)", field="GLOO_SOCKET_IFNAME", value="`lo`",
         rank="its ranks would wait", fix=r"does not leave this machine.*unset GLOO_SOCKET_IFNAME")
def useless_card(t):
    address = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    if not address:
        t.skipTest("this machine has no address but loopback")
    return wrong_card(t, "useless-card", "lo", address[0])


# Not a mistake here: ranks share memory that no mount limits.
@mistake("no room in shared memory", slow=True, code=0, trains="done: 40 steps")
def shared_memory(t):
    big = t.write_job("shm", model={"name": "mlp", "sizes": [32, 512, 512, 10]}, collectives="shared_memory", max_restarts=0)
    return in_namespace(t, 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$0" "$@"', "-n", 2, big)


# At run time.
@mistake("a full disk", slow=True, at_run_time=True, code=70, rank=r"rank \d on \S+", place="checkpoints", why="No space left on device")
def full_disk(t):
    folder = t.folder / "runs"
    folder.mkdir(exist_ok=True)
    script = f"mount -t tmpfs -o size=1m tmpfs {folder} && exec \"$0\" \"$@\""
    big = t.write_job("full", model={"name": "mlp", "sizes": [32, 512, 512, 10]})
    return in_namespace(t, script, "-n", 2, "--max-restarts", 0, big)


@mistake("a file that grows beyond `ulimit -f`", slow=True, at_run_time=True, code=153, rank=r"rank \d on \S+", why="SIGXFSZ", fix="ulimit -f")
def file_limit(t):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    return t.start("-n", 2, "--max-restarts", 0, t.write_job("limit"), preexec_fn=limit)


@mistake("a loss that is not a number", slow=True, at_run_time=True, step=r"(step|batch) \d+", value="NaN|nan|inf", fix="on_nan: skip|on_nan",
         peer=["torchrun", "--nproc-per-node", "2", "nan.py"])
def not_a_number(t):
    return t.start("-n", 2, t.write_job("nan", optimizers={"name": "decoupled_sgdw", "lr": 1e30}, schedulers=None))


def fails(t, name, how, **changes):
    return t.start("-n", 2, "--max-restarts", 0, t.write_job(name, callbacks={**SLOW, "fail_at": {
        "rank": 1, "batch": 20, "how": how}}, **changes))


@mistake("an error in one's own code", slow=True, at_run_time=True, code=70, rank=r"rank 1 on \S+", batch="batch 20|batch: 20",
         stack=r"FailAt|stack|composer::|\.so", peer=["torchrun", "--nproc-per-node", "2", "throw.py"])
def throws(t):
    return fails(t, "throws", "throw")


@mistake("a killed rank", slow=True, at_run_time=True, code=137, rank=r"rank 1 on \S+ \(pid \d+\)", why=r"SIGKILL \(9\)",
         peer=["torchrun", "--nproc-per-node", "2", "kill.py"])
def killed(t):
    process = t.start("-n", 2, "--max-restarts", 0, t.write_job("killed", callbacks=SLOW, max_duration="100000ba"))
    t.wait_for_batch("killed", 10)
    t.planted()
    harness.os.kill(t.workers("killed")[1], signal.SIGKILL)
    return process


@mistake("a rank that hangs", at_run_time=True, slow=True, code=(70, 137), rank=r"rank 1 on \S+|rank 1 hung", step=r"at step \d+",
         stack=r"main thread waits in",
         peer=["torchrun", "--nproc-per-node", "2", "hang.py"])
def hangs(t):
    return fails(t, "hangs", "hang")
