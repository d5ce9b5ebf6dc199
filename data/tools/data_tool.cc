// SPDX-License-Identifier: Apache-2.0
#include "data/tools/data_tool.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/option_help.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "data/mds/fetch.h"
#include "data/mds/inspect.h"
#include "data/tools/json_to_mds.h"

namespace composer {
namespace {

constexpr int kDone = 0, kUserError = 64, kDamaged = 70;

struct Context {
  const StoreOpener& open;
  std::ostream& out;
  std::ostream& err;
};

absl::Status ReadColumns(absl::string_view text, MdsWriterOptions& options) {
  for (const absl::string_view column : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(column, absl::MaxSplits(':', 1));
    if (parts.second.empty())
      return absl::InvalidArgumentError(absl::StrCat("must be NAME:ENCODING,…; `", column, "` has no encoding"));
    RETURN_IF_ERROR(ParseMdsEncoding(parts.second).status());
    options.columns.push_back(parts);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Write(const std::vector<std::string>& args, const Context& context) {
  MdsWriterOptions options;
  std::string size_limit = "67108864";
  const std::vector<Option> table = {{.name = "columns",
                                      .metavar = "NAME:ENCODING,…",
                                      .help = "columns and their encodings; without it those of the first line",
                                      .set = [&](absl::string_view text) { return ReadColumns(text, options); }},
                                     {.name = "compression",
                                      .metavar = "NAME[:LEVEL]",
                                      .help = "zstd, gz, bz2, snappy or br",
                                      .set = IntoString(&options.compression)},
                                     {.name = "hashes",
                                      .metavar = "NAME,…",
                                      .help = "hashes that the index keeps of each shard: sha1, xxh64, …",
                                      .set =
                                          [&](absl::string_view text) {
                                            options.hashes = absl::StrSplit(text, ',', absl::SkipEmpty());
                                            std::sort(options.hashes.begin(), options.hashes.end());
                                            return absl::OkStatus();
                                          }},
                                     {.name = "size-limit",
                                      .metavar = "BYTES",
                                      .help = "of a shard",
                                      .fallback = size_limit,
                                      .set = [&](absl::string_view text) -> absl::Status {
                                        int64_t bytes = 0;
                                        if (!absl::SimpleAtoi(text, &bytes) || bytes < 1)
                                          return absl::InvalidArgumentError("must be a number of bytes");
                                        options.size_limit = bytes;
                                        return absl::OkStatus();
                                      }}};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(table, args, 2));
  std::ifstream lines(paths[0]);
  if (!lines.is_open()) return absl::NotFoundError(absl::StrCat(paths[0], ": cannot be opened"));
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[1]));
  const absl::StatusOr<int64_t> samples = WriteJsonLines(lines, store, options);
  if (!samples.ok()) return Annotate(samples.status(), paths[0]);
  context.out << paths[1] << ": " << *samples << " samples\n";
  return kDone;
}

absl::StatusOr<int> Inspect(const std::vector<std::string>& args, const Context& context) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments({}, args, 1));
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[0]));
  ASSIGN_OR_RETURN(const MdsIndex index, FetchMdsIndex(*store, ""));
  context.out << DescribeMds(index);
  return kDone;
}

absl::StatusOr<int> Verify(const std::vector<std::string>& args, const Context& context) {
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments({{.name = "threads",
                                                                              .metavar = "N",
                                                                              .help = "that read",
                                                                              .fallback = absl::StrCat(threads),
                                                                              .set = IntoInt(&threads, 1, 1024)}},
                                                                            args, 1));
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[0]));
  ASSIGN_OR_RETURN(const MdsIndex index, FetchMdsIndex(*store, ""));
  const MdsVerification found = VerifyMds(*store, "", index, threads);
  for (const MdsProblem& problem : found.problems) context.err << problem.shard << ": " << problem.what << "\n";
  context.out << paths[0] << (found.problems.empty() ? "  valid  " : "  DAMAGED  ") << found.samples << " samples, "
              << found.bytes << " bytes\n";
  return found.problems.empty() ? kDone : kDamaged;
}

absl::StatusOr<int> Merge(const std::vector<std::string>& args, const Context& context) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments({}, args, 1));
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[0]));
  ASSIGN_OR_RETURN(const int64_t shards, MergeMds(*store, ""));
  context.out << paths[0] << "/index.json: " << shards << " shards\n";
  return kDone;
}

struct Command {
  absl::string_view name;
  absl::string_view arguments;
  absl::string_view help;
  absl::StatusOr<int> (*run)(const std::vector<std::string>&, const Context&);
};
constexpr Command kCommands[] = {
    {"write", "SOURCE.jsonl FOLDER [flags]", "Writes JSON lines as shards in mosaicml-streaming's MDS format.", Write},
    {"inspect", "FOLDER", "Prints shards, samples, bytes, compression and columns.", Inspect},
    {"verify", "FOLDER [--threads N]", "Reads every byte: sizes, hashes, structure, samples.", Verify},
    {"merge", "FOLDER", "Writes one index.json for the data sets in the folders below.", Merge},
};
constexpr char kPlaces[] = "FOLDER is a path or a URL (s3://, gs://, oci://).\n";

std::string Usage() {
  std::string text;
  for (const Command& command : kCommands)
    absl::StrAppend(&text, text.empty() ? "usage: " : "       ", "composer data ", command.name, " ", command.arguments,
                    "\n");
  return absl::StrCat(text, kPlaces);
}

int RunCommand(const Command& command, const std::vector<std::string>& args, const Context& context) {
  const absl::StatusOr<int> code = command.run(args, context);
  if (code.ok()) return *code;
  const std::string usage = absl::StrCat("usage: composer data ", command.name, " ", command.arguments, "\n");
  if (absl::IsCancelled(code.status())) {
    context.out << usage << "\n"
                << command.help << "\n"
                << kPlaces << (code.status().message().empty() ? "" : "\n") << code.status().message();
    return kDone;
  }
  context.err << "composer data " << command.name << ": " << PrintableText(code.status().message()) << "\n";
  if (absl::IsInvalidArgument(code.status())) context.err << usage;
  return absl::IsDataLoss(code.status()) ? kDamaged : kUserError;
}

}  // namespace

int RunDataTool(const std::vector<std::string>& args, const StoreOpener& open, std::ostream& out, std::ostream& err) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    (args.empty() ? err : out) << Usage();
    return args.empty() ? kUserError : kDone;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
    if (command.name == args[0]) return RunCommand(command, {args.begin() + 1, args.end()}, {open, out, err});
  }
  err << "composer data: there is no command `" << Printable(args[0]) << "`" << DidYouMean(args[0], names) << "\n"
      << Usage();
  return kUserError;
}

}  // namespace composer
