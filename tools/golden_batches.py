"""Makes the goldens of algorithms that change batches: CutMix, CutOut, ColOut, ProgressiveResizing, SeqLengthWarmup.
Called by make_goldens.py. Their draws are passed in, or come from torch's generator with a seed.
SPDX-License-Identifier: Apache-2.0
"""

import types

import numpy as np
import torch
from composer.algorithms import ProgressiveResizing, SeqLengthWarmup
from composer.algorithms.cutmix.cutmix import _adjust_lambda, _rand_bbox, cutmix_batch
from composer.core import Event, Time, Timestamp
from composer.functional import colout_batch, cutout_batch, resize_batch, set_batch_sequence_length
from golden_file import Lcg, write

IMAGES = (3, 2, 7, 10)


def images():
    return Lcg(5).tensor(*IMAGES)


def drawing(values):
    """Replaces numpy's randint for a call: it gives these values in turn, and notes the ranges it was asked for."""
    rest, asked = list(values), []

    def randint(low, high=None):
        asked.append([0, int(low)] if high is None else [int(low), int(high)])
        return rest.pop(0)

    return randint, asked


def with_draws(values, call):
    original = np.random.randint
    np.random.randint, asked = drawing(values)
    try:
        return call(), asked
    finally:
        np.random.randint = original


def cutmix():
    rows, permutation = [], torch.tensor([2, 0, 1])
    for b, y, x, uniform in [(0.3, 3, 4, False), (0.9, 0, 9, False), (0.0, 6, 0, False), (1.0, 3, 3, False),
                             (0.5, -2, 11, True), (0.2, 8, 2, True)]:
        box, asked = with_draws([y, x], lambda: _rand_bbox(7, 10, b, uniform_sampling=uniform))
        box = tuple(int(v) for v in box)
        mixed, _, kept, _ = cutmix_batch(images(), torch.arange(3), bbox=box, indices=permutation)
        rows.append({"b": b, "y": y, "x": x, "uniform": uniform, "asked": asked, "box": box, "kept": kept,
                     "mixed": mixed.flatten().tolist()})
        assert kept == _adjust_lambda(images(), box)
    return {"permutation": permutation.tolist(), "rows": rows}


def cutout():
    rows = []
    for holes, length, draws, uniform in [(1, 0.5, [3, 4], False), (2, 0.75, [0, 9, 6, 2], False),
                                          (2, 0.4, [-1, 10, 7, 0], True), (0, 0.5, [], False)]:
        cut, asked = with_draws(draws, lambda: cutout_batch(images(), holes, length, uniform))
        rows.append({"num_holes": holes, "length": length, "draws": draws, "uniform": uniform, "asked": asked,
                     "cut": cut.flatten().tolist()})
    return rows


def colout():
    rows = []
    for seed, p_row, p_col in [(3, 0.15, 0.15), (4, 0.5, 0.0), (5, 0.3, 0.77)]:
        torch.manual_seed(seed)
        x, y = colout_batch((images(), images()[:, 0].long()), p_row, p_col)
        rows.append({"seed": seed, "p_row": p_row, "p_col": p_col, "shape": list(x.shape), "x": x.flatten().tolist(),
                     "y_shape": list(y.shape)})
    return rows


def resizing():
    scales, batches = [], []
    for arguments in [{}, {"initial_scale": 0.3, "delay_fraction": 0.0, "finetune_fraction": 0.5, "size_increment": 3},
                      {"initial_scale": 0.6, "delay_fraction": 0.7}]:
        algorithm = ProgressiveResizing(**arguments)
        for elapsed in (0.0, 0.25, 0.45, 0.5, 0.6, 0.7, 0.79, 0.8, 0.9):
            x = torch.zeros(1, 1, 26, 30)
            batch = [x, torch.zeros(1)]
            state = types.SimpleNamespace(batch_get_item=lambda key: batch[key], get_elapsed_duration=lambda: Time(
                elapsed, "dur"), batch_set_item=batch.__setitem__)
            logged = {}
            algorithm.apply(Event.AFTER_DATALOADER, state, types.SimpleNamespace(log_metrics=logged.update))
            scales.append({"arguments": arguments, "elapsed": elapsed,
                           "scale": logged["progressive_resizing/scale_factor"], "size": list(batch[0].shape[2:])})
    for seed, mode, scale, targets in [(1, "resize", 0.6, False), (1, "resize", 0.4, True), (2, "crop", 0.6, False),
                                       (3, "crop", 0.5, True), (4, "crop", 1.0, False)]:
        torch.manual_seed(seed)
        labels = (images()[:, 0] * 9).long()
        x, y = resize_batch(images(), labels, scale, mode, targets)
        batches.append({"seed": seed, "mode": mode, "scale": scale, "resize_targets": targets,
                        "shape": list(x.shape), "x": x.flatten().tolist(), "y": y.flatten().tolist()})
    return {"scales": scales, "batches": batches}


def lengths():
    rows = []
    for arguments, batches in [({"max_seq_length": 64}, 100), ({"duration": 0.5, "min_seq_length": 3, "step_size": 5,
                                                                "max_seq_length": 40}, 60), ({}, 1000)]:
        algorithm = SeqLengthWarmup(**arguments)
        algorithm._activated = True
        found = []
        for batch in range(batches):
            state = types.SimpleNamespace(dataloader=1, max_duration=Time(batches, "ba"),
                                          timestamp=Timestamp(batch=batch),
                                          batch={"input_ids": torch.zeros(1, 2048, dtype=torch.long)})
            logged = {}
            algorithm.apply(Event.AFTER_DATALOADER, state, types.SimpleNamespace(log_metrics=logged.update))
            found.append(logged["seq_length_warmup/curr_seq_len"])
        rows.append({"arguments": arguments, "batches": batches, "lengths": found})
    return rows


def sequences():
    rows = []
    for length, truncate, preserve in [(5, True, False), (5, True, True), (4, False, False), (7, False, False),
                                       (12, True, False), (11, True, True)]:
        mask = (torch.arange(12)[None] < torch.tensor([[12], [3], [8]])).long()
        batch = {"input_ids": torch.arange(36).reshape(3, 12), "attention_mask": mask,
                 "labels": 100 + torch.arange(36).reshape(3, 12)}
        batch = set_batch_sequence_length(batch, length, truncate, preserve)
        rows.append({"length": length, "truncate": truncate, "preserve": preserve,
                     "shape": list(batch["input_ids"].shape),
                     **{key: value.flatten().tolist() for key, value in batch.items()}})
    return rows


def batches():
    write(
        "batches", "images: [3, 2, 7, 10] of Lcg(5). cutmix: box (rows first) and mixture for the draws y, x; asked: "
        "the ranges of these draws. cutout, colout: likewise; colout's targets are the first channel. resizing: sizes of "
        "images of 26 x 30 at a part of the run; batches, the labels being 9 times the first channel, rounded to 0. "
        "sequences: [3, 12], 0 to 35, labels 100 more, masks of 12, 3, 8.",
        {"cutmix": cutmix(), "cutout": cutout(), "colout": colout(), "resizing": resizing(), "lengths": lengths(),
         "sequences": sequences()})
