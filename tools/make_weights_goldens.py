#!/usr/bin/env python3
"""Writes tests/golden/weights/: weights files of other programs that `composer checkpoint import` reads, and their
contents.

    /tmp/composer-peers/torch211/bin/python tools/make_weights_goldens.py     torch 2.11, safetensors 0.6.2
    … make_weights_goldens.py dcp                                             the folders of DCP alone
    … make_weights_goldens.py packed                                          packed files alone (zstd, lz4)
    … make_weights_goldens.py foundry                                         llm-foundry's names of MPT alone
    /tmp/composer-peers/mosaic/bin/python tools/make_weights_goldens.py       composer.pt: mosaicml 0.32.1, torch 2.7

values.json lists the tensors of each file by name: dtype, shape, and every value as a number, row by row.
"""
import collections
import json
import os
import pathlib
import sys
import zipfile

import torch

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "weights"
SEED = 17


def described(tensors):
    return {name: {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape),
                   "values": t.detach().to(torch.float64).flatten().tolist()} for name, t in tensors.items()}


def state_dict():
    torch.manual_seed(SEED)
    return torch.nn.Sequential(collections.OrderedDict(fc=torch.nn.Linear(3, 2),
                                                       norm=torch.nn.BatchNorm1d(2))).state_dict()


def every_dtype():
    counting = torch.arange(6).reshape(2, 3)
    names = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16",
             "uint32", "float8_e4m3fn", "float8_e5m2"]
    return {name: counting.to(getattr(torch, name)) for name in names} | {"bool": counting % 2 == 0}


def shared_and_strided():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {"tied": base, "tied_too": base, "transposed": base.t(), "row": base[2], "column": base[:, 1],
            "scalar": torch.tensor(2.5),
            "empty": torch.empty(0, 3), "parameter": torch.nn.Parameter(torch.ones(2)), "steps": 7}


class Surprise:
    def __reduce__(self):
        return os.system, ("touch /tmp/composer_was_here",)


def torch_files():
    from safetensors.torch import save_file
    good = {"state_dict.pt": state_dict(), "every_dtype.pt": every_dtype(), "shared.pt": shared_and_strided(),
            "nested.pt": {"epoch": 3, "state_dict": state_dict(),
                          "optimizer": torch.optim.SGD([torch.ones(1)], 0.1).state_dict()}}
    values = {}
    for name, content in good.items():
        torch.save(content, FOLDER / name)
        tensors = content.get("state_dict", content)
        values[name] = described({k: v for k, v in tensors.items() if torch.is_tensor(v)})
    torch.save(state_dict(), FOLDER / "protocol5.pt", pickle_protocol=5)
    values["protocol5.pt"] = values["state_dict.pt"]
    refused = {"sparse.pt": {"a": torch.eye(3).to_sparse()}, "surprise.pt": {"a": torch.ones(1), "b": Surprise()},
               "expanded.pt": {"a": torch.ones(1).expand(100)}, "module.pt": torch.nn.Linear(1, 1),
               "list.pt": [torch.ones(1)], "complex128.pt": {"a": torch.ones(1, dtype=torch.complex128)}}
    for name, content in refused.items():
        torch.save(content, FOLDER / name)
    torch.save(state_dict(), FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(FOLDER / "state_dict.pt") as source, zipfile.ZipFile(FOLDER / "compressed.pt", "w",
                                                                              zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            out.writestr(name, source.read(name))
    save_file(every_dtype(), FOLDER / "every_dtype.safetensors", metadata={"format": "pt", "made by": "safetensors"})
    values["every_dtype.safetensors"] = values["every_dtype.pt"]
    split = FOLDER / "split"
    split.mkdir(exist_ok=True)
    names = list(state_dict())
    parts = {"model-00001-of-00002.safetensors": names[:3], "model-00002-of-00002.safetensors": names[3:]}
    for file, held in parts.items():
        save_file({name: state_dict()[name] for name in held}, split / file, metadata={"format": "pt"})
    (split / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"total_size": 72}, "weight_map": {name: file for file, held in parts.items() for name in held}},
        indent=2))
    values["split"] = values["state_dict.pt"]
    return values


def packed_files():
    """state_dict.pt as gzip, zstd, tarfile and lz4 pack it, as the Python Composer does; and 256 MiB of zeros."""
    import subprocess
    import tarfile
    plain = FOLDER / "state_dict.pt"
    for ending, command in {"gz": ["gzip", "-nc"], "zst": ["zstd", "-qc"], "lz4": ["lz4", "-c"]}.items():
        with open(FOLDER / f"packed.pt.{ending}", "wb") as out:
            subprocess.run([*command, plain], stdout=out, check=True)
    for name, mode in {"packed.tar": "w", "packed.tgz": "w:gz"}.items():
        with tarfile.open(FOLDER / name, mode) as archive:
            archive.add(plain, "composer_states.pt")
    with open(FOLDER / "bomb.pt.zst", "wb") as out:
        subprocess.run(["zstd", "-q19c"], input=bytes(256 << 20), stdout=out, check=True)


def dcp_state(mesh=None):
    """{"model", "optimizer", "steps"}; with a mesh the model's tensors are sharded over it, some unevenly."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    torch.manual_seed(SEED)
    model = {"fc.weight": torch.randn(5, 3), "fc.bias": torch.randn(5), "conv.weight": torch.randn(2, 4, 3),
             "scale": torch.tensor(2.5), "one": torch.ones(1, 2), "half": torch.arange(6).reshape(2, 3).bfloat16(),
             "counts": torch.arange(4)}
    places = {"fc.weight": Shard(0), "fc.bias": Shard(0), "conv.weight": Shard(1), "one": Shard(0),
              "half": Replicate()}
    if mesh is not None:
        model.update({name: distribute_tensor(model[name], mesh, [place]) for name, place in places.items()})
    optimizer = {"state": {"fc.weight": {"exp_avg": torch.ones(5, 3)}}, "param_groups": [{"lr": 0.1}]}
    return {"model": model, "optimizer": optimizer, "steps": 7}


def save_dcp_on_ranks(rank, folder, world):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29653", RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo")
    dcp.save(dcp_state(init_device_mesh("cpu", (world,))), checkpoint_id=folder)
    dist.destroy_process_group()


def dcp_folders():
    """What torch.distributed.checkpoint saves: of two ranks, of three with one file for each tensor, of one with the
    names at the top, and what must be refused."""
    import pickle
    import shutil

    import torch.distributed.checkpoint as dcp
    for name in ("dcp", "dcp3", "dcp_top", "dcp_surprise"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    torch.multiprocessing.spawn(save_dcp_on_ranks, (str(FOLDER / "dcp"), 2), 2)
    torch.multiprocessing.spawn(save_dcp_on_ranks, (str(FOLDER / "dcp3"), 3), 3)
    dcp.save({"model.fc.weight": torch.arange(6.0).reshape(2, 3), "head": torch.ones(2)},
             storage_writer=dcp.FileSystemWriter(FOLDER / "dcp_top", single_file_per_rank=False))
    (FOLDER / "dcp_surprise").mkdir()
    with open(FOLDER / "dcp_surprise" / ".metadata", "wb") as out:
        pickle.dump(Surprise(), out)
    model = described(dcp_state()["model"])
    return {"dcp": model, "dcp3": model, "dcp_top": described({"model.fc.weight": torch.arange(6.0).reshape(2, 3),
                                                              "head": torch.ones(2)})}


def composer_file():
    """Makes a checkpoint that the Python Composer's Trainer saved: algorithms, callbacks, a metric, two optimizers'
    worth of state."""
    from composer import Trainer
    from composer.models import ComposerClassifier
    from torch.utils.data import DataLoader, TensorDataset
    torch.manual_seed(SEED)
    model = ComposerClassifier(torch.nn.Sequential(collections.OrderedDict(fc=torch.nn.Linear(3, 2))), num_classes=2)
    data = DataLoader(TensorDataset(torch.randn(8, 3), torch.arange(8) % 2), batch_size=4)
    trainer = Trainer(model=model, train_dataloader=data, max_duration="2ba",
                      optimizers=torch.optim.AdamW(model.parameters()),
                      save_folder=str(FOLDER / "made"), save_interval="2ba", progress_bar=False, device="cpu",
                      seed=SEED, run_name="golden")
    trainer.fit()
    made, = (FOLDER / "made").glob("ep*.pt")
    os.replace(made.resolve(), FOLDER / "composer.pt")
    trainer.close()
    import shutil
    shutil.rmtree(FOLDER / "made")
    return {"composer.pt": described(torch.load(FOLDER / "composer.pt", weights_only=False)["state"]["model"])}


def foundry_file():
    """llm_foundry_mpt.pt: tests/golden/hf/mpt under the names of llm-foundry's modules (llmfoundry/models/mpt/modeling_mpt.py, models/layers),
    in the place where Composer's checkpoints have the model; its MPTForCausalLM is the `model` of ComposerMPTCausalLM."""
    from safetensors.torch import load_file
    source = load_file(FOLDER.parent / "hf/mpt/model.safetensors")
    names = ["transformer.wte.weight", "transformer.norm_f.weight"]
    for layer in range(2):
        names += [f"transformer.blocks.{layer}.{part}.weight" for part in ("norm_1", "attn.Wqkv", "attn.out_proj", "norm_2", "ffn.up_proj",
                                                                           "ffn.down_proj")]
    assert sorted(names) == sorted(source), sorted(source)
    torch.save({"state": {"model": {"model." + name: source[name] for name in names}}, "rng": []}, FOLDER / "llm_foundry_mpt.pt")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    values_file = FOLDER / "values.json"
    values = json.loads(values_file.read_text())["files"] if values_file.exists() else {}
    is_composer = "mosaic" in sys.executable
    if "dcp" in sys.argv:
        made = dcp_folders()
    elif "packed" in sys.argv:
        packed_files()
        made = {}
    elif "foundry" in sys.argv:
        foundry_file()
        made = {}
    else:
        made = composer_file() if is_composer else torch_files() | dcp_folders()
    values.update(made)
    values_file.write_text(json.dumps({"made_by": "tools/make_weights_goldens.py", "seed": SEED,
                                       "torch": torch.__version__, "files": values}, indent=0) + "\n")
