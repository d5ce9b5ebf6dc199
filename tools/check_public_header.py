#!/usr/bin/env python3
"""Checks that include/composer/*.h include every header of the user's folders, except those named here as internal, and
never <torch/torch.h>; that composer.h includes all of them; and that each has at most 250 lines."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 250
FOLDERS = ["data", "loss", "metrics", "models", "optim", "algorithms", "callbacks", "loggers", "profiler", "layers", "tokenizers"]
# Parts of the public headers, without a use of their own.
INTERNAL = {
    "algorithms/surgery/lora_adapter.h",
    "callbacks/output/image_tensors.h", "callbacks/output/log_hyperparameters.h",
    "callbacks/memory/memory_pickle.h", "callbacks/monitors/values_over_ranks.h", "callbacks/output/mlperf_line.h", "callbacks/stops/monitored_metric.h",
    "data/images/of_pixels.h", "data/images/tone_transforms.h", "data/images/warp_transforms.h", "data/loader_checks.h",
    "layers/call_record.h", "layers/fp8_linear.h", "layers/fp8_product.h", "layers/fp8_scaling.h", "layers/no_autocast.h", "layers/norm_activation.h",
    "layers/undeferred_scope.h",
    "loggers/crc32c.h", "loggers/progress_line.h", "loggers/run_files.h",
    "loggers/tensorboard_events.h", "loggers/value_text.h", "loss/one_hot.h",
    "metrics/class_counts.h", "metrics/classes_last.h",
    "models/hf/hf_weights.h", "models/hf/stored_values.h", "models/hf/timm_vit.h", "models/text/bert_encoder.h", "models/text/gated_mlp.h",
    "models/text/text_layers.h", "models/sequence_mask.h", "models/torchscript_call.h", "models/vision/conv_maker.h", "models/vision/resnet_body.h",
    "models/vision/unet_layers.h",
    "tokenizers/chat_prompt.h",
    "optim/active_params.h", "optim/adam_bf16.h", "optim/take_state.h", "optim/apply_schedulers.h", "optim/schedule/bad_value.h", "optim/matrix/neuron_scale.h", "optim/matrix/newton_schulz.h",
    "optim/observe_metrics.h",
    "profiler/layer_costs.h", "profiler/memory_timeline.h", "profiler/operator_clip.h", "profiler/operator_work.h", "profiler/proc_stats.h", "profiler/roofline.h", "profiler/trace_merge.h",
    "profiler/trace_tool.h", "profiler/verdict.h", "profiler/window_trace.h",
}
INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)


def reachable(start):
    """Returns all files of ours behind a header, and the headers of others that they include."""
    seen, others, todo = set(), set(), [start]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in INCLUDE.findall((ROOT / path).read_text()):
            public = f"include/{name}"
            if (ROOT / name).exists() or (ROOT / public).exists():
                todo.append(name if (ROOT / name).exists() else public)
            else:
                others.add((name, path))
    return seen, others


def main():
    seen, others = reachable("include/composer/composer.h")
    public = sorted(path.name for path in (ROOT / "include" / "composer").glob("*.h"))
    found = [f"include/composer/{name}: composer.h does not include it" for name in public
             if f"include/composer/{name}" not in seen]
    found += [f"include/composer/{name}: more than {MAX_LINES} lines" for name in public
              if len((ROOT / "include" / "composer" / name).read_text().splitlines()) > MAX_LINES]
    for folder in FOLDERS:
        for path in sorted((ROOT / "trainer" / folder).rglob("*.h")):
            name = str(path.relative_to(ROOT / "trainer"))
            if name in INTERNAL:
                continue
            if f"trainer/{name}" not in seen:
                found.append(f"trainer/{name}: include it in a header of include/composer, or name it in INTERNAL here")
    found += [f"tools/check_public_header.py: {name} does not exist" for name in sorted(INTERNAL)
              if not (ROOT / "trainer" / name).exists()]
    found += [f"{path}: a public header may not include <{name}>" for name, path in sorted(others)
              if name == "torch/torch.h"]
    installed = ("include/", "base/", "net/", "storage/", "data/", "checkpoint/", "trainer/", "tracking/", "views/read/", "job/plugin/", "config/plugin_note.h")
    found += [f"{path}: reached by the public header, but not installed" for path in sorted(seen)
              if not path.startswith(installed)]
    print("\n".join(found) if found else f"public header: {len(seen)} headers behind it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
