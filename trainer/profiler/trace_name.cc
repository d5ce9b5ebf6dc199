// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_name.h"

#include "absl/strings/str_cat.h"
#include "base/name_template.h"

namespace composer {
namespace {

PlaceholderValues Placeholders(const NameValues& values) {
  PlaceholderValues all = {{"run_name", std::string(values.run_name)},
                           {"run_folder", std::string(values.run_folder)},
                           {"rank", absl::StrCat(values.rank)},
                           {"world_size", absl::StrCat(values.world_size)}};
  const PlaceholderValues times = PlaceholdersOf(values.timestamp);
  all.insert(all.end(), times.begin(), times.end());
  return all;
}

}  // namespace

std::string FillName(absl::string_view name, const NameValues& values) {
  return FillTemplate(name, Placeholders(values));
}

absl::Status CheckName(absl::string_view name) { return CheckPlaceholders(name, Placeholders({})); }

}  // namespace composer
