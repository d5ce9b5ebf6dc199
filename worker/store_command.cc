// SPDX-License-Identifier: Apache-2.0
#include "worker/store_command.h"

#include "absl/time/clock.h"
#include "base/printable.h"
#include "contract/exit_code.h"
#include "storage/check_store.h"

namespace composer {
namespace {

constexpr char kStoreUsage[] = "usage: composer store check PLACE\n";
constexpr char kStoreHelp[] =
    "Creates, reads, lists, replaces and deletes an object below PLACE, a folder or a\n"
    "URL (s3://, gs://, oci://, azure://, dbfs:/Volumes/), and says what went wrong.\n";
constexpr int kFaultFound = 1;

}  // namespace

int RunStoreCommand(const std::vector<std::string>& args, const StoreOpener& open, std::ostream& out,
                    std::ostream& err) {
  const bool asks_for_help = !args.empty() && (args.back() == "--help" || args.back() == "-h");
  if (asks_for_help) {
    out << kStoreUsage << "\n" << kStoreHelp;
    return exit_code::kDone;
  }
  if (args.size() != 2 || args[0] != "check") {
    err << kStoreUsage;
    return exit_code::kUserError;
  }
  const auto store = OpenPlace(open, args[1]);
  if (!store.ok()) {
    err << "composer store: " << PrintableText(store.status().message()) << "\n";
    return exit_code::kUserError;
  }
  bool good = true;
  const absl::Time begin = absl::Now();
  for (const StoreFinding& finding : CheckStore(**store, CheckFolderName())) {
    good = good && finding.status.ok();
    out << (finding.status.ok() ? "ok      " : "failed  ") << finding.what;
    if (!finding.status.ok()) out << ": " << PrintableText(finding.status.message());
    out << "\n";
  }
  if (good) out << "all is well, after " << absl::ToInt64Milliseconds(absl::Now() - begin) << " ms\n";
  return good ? exit_code::kDone : kFaultFound;
}

}  // namespace composer
