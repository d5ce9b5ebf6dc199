// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/job_file.h"

#include <sys/stat.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kLongestPath = 4096;

std::string RecordOf(const std::string& run_folder) { return JoinPath(run_folder, ".job_file"); }

bool SameFile(const std::string& a, const std::string& b) {
  struct stat one{}, other{};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

absl::Status CheckJobFile(const std::string& run_folder, const std::string& job_file) {
  absl::StatusOr<std::string> remembered = ReadFile(RecordOf(run_folder), kLongestPath);
  if (!remembered.ok()) return absl::OkStatus();
  absl::StripTrailingAsciiWhitespace(&*remembered);
  const std::string now = AbsolutePath(job_file);
  if (*remembered == now || SameFile(*remembered, now) || !PathExists(*remembered)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("run_name: the run in ", run_folder, " belongs to ", *remembered,
                                                 ", not to ", now,
                                                 ": give this job a run_name of its own (run_name=NAME), or continue "
                                                 "that run all the same with resume_changes=job_file"));
}

absl::Status RememberJobFile(const std::string& run_folder, const std::string& job_file) {
  return AtomicWriteFile(RecordOf(run_folder), absl::StrCat(AbsolutePath(job_file), "\n"), {.mode = 0600});
}

}  // namespace composer
