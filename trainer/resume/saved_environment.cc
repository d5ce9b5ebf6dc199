// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/saved_environment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/machine_stats.h"
#include "base/nvml.h"

namespace composer {
namespace {

std::string DescribeEnvironment(at::Device device) {
  constexpr size_t kMostBytes = 200;
  const MachineNames names = ReadMachineNames();
  nlohmann::json found = {{"os", names.os}, {"kernel", names.kernel}, {"processor", names.processor}};
  if (!device.is_cpu()) {
    if (const auto nvml = Nvml::Load(); nvml.ok()) {
      found["gpu"] = (*nvml)->Name(std::max<int>(device.index(), 0)).value_or("").substr(0, kMostBytes);
      found["driver"] = (*nvml)->DriverVersion().value_or("").substr(0, kMostBytes);
    }
  }
  return found.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

const std::string& SavedEnvironment(at::Device device) {
  static const std::string& text = *new std::string(DescribeEnvironment(device));
  return text;
}

}  // namespace composer
