"""Records the decisions of mosaicml's profiler schedule; run by make_goldens.py.
SPDX-License-Identifier: Apache-2.0
"""

import types

from composer.profiler import cyclic_schedule

from golden_file import write

LETTERS = {"SKIP": "s", "WARMUP": "w", "ACTIVE": "a", "ACTIVE_AND_SAVE": "A"}
BATCHES = 24


def row(resumed_at=0, batches_per_epoch=None, **kwargs):
    decide = cyclic_schedule(**kwargs)
    actions = ""
    for batch in range(batches_per_epoch or BATCHES):
        state = types.SimpleNamespace(
            timestamp=types.SimpleNamespace(batch_in_epoch=batch), dataloader_len=batches_per_epoch,
            profiler=types.SimpleNamespace(resumption_batch_idx=resumed_at))
        actions += LETTERS[decide(state).name]
    return {"schedule": kwargs, "resumed_at": resumed_at, "batches_per_epoch": batches_per_epoch or 0,
            "actions": actions}


def schedule():
    rows = [row(), row(repeat=0), row(skip_first=3), row(wait=2), row(warmup=0), row(active=1), row(repeat=3),
            row(skip_first=1, wait=1, warmup=2, active=3, repeat=2),
            row(skip_first=5, wait=0, warmup=0, active=1, repeat=0),
            row(batches_per_epoch=3), row(batches_per_epoch=7, repeat=2), row(batches_per_epoch=5, repeat=0),
            row(batches_per_epoch=1), row(batches_per_epoch=4, skip_first=10), row(resumed_at=7),
            row(resumed_at=2, skip_first=1, wait=1, repeat=2, batches_per_epoch=12),
            row(resumed_at=4, repeat=0, batches_per_epoch=8)]
    write("profiler_schedule",
          "actions[i]: what cyclic_schedule(**schedule) answers at batch_in_epoch i: s skip, w warm up, a active, A active "
          "and save. batches_per_epoch 0: unknown. resumed_at: the profiler's resumption_batch_idx.",
          {"rows": rows})
