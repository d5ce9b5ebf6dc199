// SPDX-License-Identifier: Apache-2.0
#include <torch/version.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/machine_stats.h"
#include "base/nvml.h"
#include "trainer/callbacks/output/mlperf.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

struct Processor {
  std::string model;
  int threads = 0;
};

Processor ReadProcessor() {
  Processor processor;
  const absl::StatusOr<std::string> text = ReadFile("/proc/cpuinfo", 16 << 20);
  if (!text.ok()) return processor;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::ConsumePrefix(&line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    processor.model = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    ++processor.threads;
  }
  return processor;
}

std::string GpuName(const State& state) {
  if (state.identity.device.is_cpu()) return "";
  const auto nvml = Nvml::Load();
  if (!nvml.ok()) return "";
  return (*nvml)->Name(0).value_or("");
}

}  // namespace

// The fields are those of the submission rules' systems/*.json. Source: mosaicml composer/callbacks/mlperf.py.
std::string MlperfSystemJson(const MLPerfCallback::Options& options, const State& state) {
  const Processor processor = ReadProcessor();
  const std::string gpu = GpuName(state);
  const auto memory = ReadMachineMemory();
  const std::string device = gpu.empty() ? (processor.model.empty() ? "CPU" : processor.model) : gpu;
  nlohmann::ordered_json system;
  system["submitter"] = options.submitter;
  system["division"] = options.division;
  system["status"] = options.status;
  system["system_name"] = !options.system_name.empty()
                              ? options.system_name
                              : absl::StrReplaceAll(absl::StrCat(state.identity.world_size, "x", device, "_composer"),
                                                    {{" ", "_"}, {"/", "_"}});
  system["number_of_nodes"] = absl::StrCat(state.identity.world_size / std::max(1, options.local_world_size));
  system["host_processors_per_node"] = options.host_processors_per_node;
  system["host_processor_model_name"] = processor.model;
  system["host_processor_vcpu_count"] = processor.threads > 0 ? absl::StrCat(processor.threads) : "";
  system["host_memory_capacity"] = memory.ok() ? absl::StrCat((memory->total + (1 << 29)) >> 30, " GiB") : "";
  for (const char* field : {"host_processor_core_count", "host_processor_frequency", "host_processor_caches",
                            "host_processor_interconnect", "host_storage_type", "host_storage_capacity",
                            "host_networking", "host_networking_topology", "host_memory_configuration"})
    system[field] = "";
  system["accelerators_per_node"] = gpu.empty() ? "0" : absl::StrCat(options.local_world_size);
  system["accelerator_model_name"] = gpu;
  for (const char* field : {"accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories",
                            "accelerator_memory_configuration", "accelerator_memory_capacity",
                            "accelerator_interconnect", "accelerator_interconnect_topology", "cooling", "hw_notes"})
    system[field] = "";
  system["framework"] = absl::StrCat("LibTorch ", TORCH_VERSION, " and Composer in C++ ", COMPOSER_VERSION);
  system["other_software_stack"] = nlohmann::ordered_json::object();
  system["operating_system"] = ReadMachineNames().kernel;
  system["sw_notes"] = "";
  return system.dump(4, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace composer
