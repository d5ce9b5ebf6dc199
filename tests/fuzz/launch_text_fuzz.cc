// Parses texts that a user or a batch system gives the launcher: flags, endpoints, arguments to expand, Slurm's lists.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/options.h"
#include "launcher/workers/argument_expansion.h"
#include "net/endpoint.h"
#include "trainer/collectives/launcher_variables.h"

namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void Parse(const std::string& text) {
  int number = 1;
  bool on = false;
  std::string word;
  const std::vector<composer::Option> table = {
      {.name = "nproc",
       .aliases = {"nproc-per-node"},
       .short_name = 'n',
       .environment = {"NPROC"},
       .metavar = "N",
       .set = composer::IntoInt(&number, 1, 9)},
      {.name = "tee", .short_name = 't', .metavar = "N", .set = composer::IntoInt(&number, 0, 3), .implied = "3"},
      {.name = "verbose", .short_name = 'v', .set = composer::IntoBool(&on)},
      {.name = "word", .metavar = "W", .set = composer::IntoChoice(&word, {"a", "b"})}};
  const auto parsed = composer::ParseOptions(table, absl::StrSplit(text, '\n'), {});
  Check(number >= 0 && number <= 9);
  if (parsed.ok()) Check(parsed->values.size() == table.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  Parse(text);
  const auto endpoints = composer::ParseEndpoints(text, 7);
  if (endpoints.ok()) {
    for (const composer::Endpoint& endpoint : *endpoints) {
      Check(endpoint.port >= 0 && endpoint.port <= 65535 && !endpoint.host.empty());
      Check(composer::ParseEndpoints(endpoint.ToString(), 1).value().at(0) == endpoint);
    }
  }
  composer::Environment environment;
  environment.Set("A", "$A");
  environment.Set("HOME", "/h");
  composer::ExpandArgument(text, environment);
  composer::FirstSlurmHost(text);
  Check(composer::SlurmTasksOfNode(text, static_cast<int>(size)) >= 0);
  return 0;
}
