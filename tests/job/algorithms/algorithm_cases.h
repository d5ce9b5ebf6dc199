// Every algorithm by its name in YAML, with arguments that let it act within a few steps, and small runs for them: of
// pictures (bytes of noise, a net of convolutions) and of a GPT. Pairs and the product of algorithms are made of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <glog/logging.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "trainer/core/callback.h"
#include "trainer/trainer.h"

namespace composer {

struct AlgorithmCase {
  std::string name;                // in tables: the key, and what is particular
  std::string key;                 // in YAML
  std::string arguments = "null";  // as JSON
  bool draws = false;              // from torch's generator, which ranks that are threads share
  // The same weights on any number of ranks, up to rounding: no statistics, parts or norms of a rank's own samples.
  bool same_on_ranks = true;
};

// Has a case for each of AlgorithmNames() but names that mean the same.
const std::vector<AlgorithmCase>& AlgorithmCases();

std::unique_ptr<Algorithm> MakeCase(const AlgorithmCase& one);

enum class Workload { kPictures, kGpt };
inline const char* NameOf(Workload workload) { return workload == Workload::kGpt ? "gpt" : "pictures"; }

inline constexpr int64_t kCaseBatches = 8;

// A run of kCaseBatches batches of 8 samples with these algorithms, saved in the middle if there is a folder. The
// precision is the one in which all of them act.
TrainerOptions CaseRun(Workload workload, const std::vector<AlgorithmCase>& algorithms, const std::string& folder = "");

// Whether it runs there alone, and finds something to change.
bool SuitsAlone(Workload workload, const AlgorithmCase& one);

// Collects the warnings that are logged while it lives.
class Warnings final : public google::LogSink {
 public:
  Warnings() { google::AddLogSink(this); }
  ~Warnings() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity severity, const char* /*path*/, const char* /*file*/, int /*line*/,
            const google::LogMessageTime& /*time*/, const char* message, size_t size) override {
    if (severity == google::GLOG_WARNING) absl::StrAppend(&text, absl::string_view(message, size), "\n");
  }
  std::string text;
};

}  // namespace composer
