// SPDX-License-Identifier: Apache-2.0
#include "worker/job_seed.h"

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "trainer/collectives/object_collectives.h"
#include "trainer/core/torch_status.h"

namespace composer {

absl::StatusOr<uint64_t> SeedOfRun(const std::string& run_folder) {
  const std::string path = JoinPath(run_folder, "seed");
  const absl::StatusOr<std::string> kept = ReadFile(path, 64);
  uint64_t seed = 0;
  if (kept.ok()) {
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(*kept), &seed) && seed < kSeedToSettle) return seed;
    return absl::InvalidArgumentError(absl::StrCat("seed: ", path, " holds no number; delete it to draw another one"));
  }
  if (!absl::IsNotFound(kept.status())) return Annotate(kept.status(), "seed");
  seed = RandomBits() >> 32;
  RETURN_IF_ERROR(MakeDirs(run_folder));
  RETURN_IF_ERROR(AtomicWriteFile(path, absl::StrCat(seed, "\n")));
  return seed;
}

absl::Status SettleSeed(Job& job, Communicator& communicator) {
  if (job.options.seed != kSeedToSettle) return absl::OkStatus();
  const absl::StatusOr<uint64_t> own =
      communicator.rank() == 0 ? SeedOfRun(job.run_folder) : absl::StatusOr<uint64_t>(uint64_t{0});
  std::string agreed;
  RETURN_IF_ERROR(CatchTorch([&] { agreed = BroadcastBytes(own.ok() ? absl::StrCat(*own) : "", 0, communicator); }));
  RETURN_IF_ERROR(own.status());
  if (!absl::SimpleAtoi(agreed, &job.options.seed)) return absl::AbortedError("seed: rank 0 has none");
  for (GenerateCallback& generate : job.options.generate) {
    if (generate.options.sampling.seed == kSeedToSettle) generate.options.sampling.seed = job.options.seed;
  }
  if (communicator.rank() == 0)
    absl::FPrintF(stderr, "seed: random is %d, kept in %s\n", job.options.seed, JoinPath(job.run_folder, "seed"));
  return absl::OkStatus();
}

}  // namespace composer
