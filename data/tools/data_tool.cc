// SPDX-License-Identifier: Apache-2.0
#include "data/tools/data_tool.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/option_help.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "data/mds/fetch.h"
#include "data/mds/inspect.h"
#include "data/tools/data_bench.h"
#include "data/tools/data_stats.h"
#include "data/tools/write_mds.h"

namespace composer {
namespace {

constexpr int kDone = 0, kUserError = 64, kDamaged = 70;

struct Context {
  const StoreOpener& open;
  const TokenCounterOpener& open_tokenizer;
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

// A line that is written over, at most every half second, for who sits before a terminal.
class ProgressText {
 public:
  explicit ProgressText(std::ostream& err) : err_(isatty(STDERR_FILENO) != 0 ? &err : nullptr) {}
  ~ProgressText() {
    if (shown_) *err_ << "\n";
  }
  void Show(const WriteProgress& progress) {
    const absl::Time now = RealClock::Get().Now();
    if (err_ == nullptr || (now - last_ < absl::Milliseconds(500) && progress.samples < progress.of_samples)) return;
    last_ = now;
    shown_ = true;
    *err_ << absl::StrFormat("\r%3d %%  %d of %d samples, %.0f MB/s ", 100 * progress.samples / progress.of_samples,
                             progress.samples, progress.of_samples,
                             static_cast<double>(progress.bytes) / 1e6 / absl::ToDoubleSeconds(now - begin_))
          << std::flush;
  }

 private:
  std::ostream* const err_;
  const absl::Time begin_ = RealClock::Get().Now();
  absl::Time last_ = absl::InfinitePast();
  bool shown_ = false;
};

int CoresHere() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

Option ThreadsOption(int& threads, const char* help) {
  return Valued("threads", "N", help, absl::StrCat(threads), IntoInt(&threads, 1, 1024));
}

// How records are read, for write and stats.
std::vector<Option> RecordFlags(RecordOptions& records) {
  return {
      Valued(
          "format", "NAME",
          "jsonl, csv, tsv, text, tokens, parquet, arrow or images (a folder by class); else the file's name decides",
          "", IntoString(&records.format)),
      Valued("row", "N", "tokens of a sample", "",
             [&records](absl::string_view text) -> absl::Status {
               if (absl::SimpleAtoi(text, &records.row) && records.row >= 1) return absl::OkStatus();
               return absl::InvalidArgumentError("must be a number of tokens");
             }),
      Valued("dtype", "TYPE", "of raw files of tokens: uint8, uint16, int32, uint32 or int64", "uint16",
             [&records](absl::string_view text) -> absl::Status {
               const std::pair<absl::string_view, TokenType> types[] = {{"uint8", TokenType::kUint8},
                                                                        {"uint16", TokenType::kUint16},
                                                                        {"int32", TokenType::kInt32},
                                                                        {"uint32", TokenType::kUint32},
                                                                        {"int64", TokenType::kInt64}};
               for (const auto& [name, type] : types) {
                 if (name != text) continue;
                 records.type = type;
                 return absl::OkStatus();
               }
               return absl::InvalidArgumentError("must be uint8, uint16, int32, uint32 or int64");
             })};
}

absl::StatusOr<int> Write(const std::vector<std::string>& args, const Context& context) {
  RecordOptions read;
  WriteMdsOptions write{.threads = CoresHere()};
  MdsWriterOptions& options = write.writer;
  std::string size_limit = "67108864";
  std::vector<Option> table = {
      Valued("columns", "NAME:ENCODING,…", "columns and their encodings; without it those of the first line", "",
             [&](absl::string_view text) { return ReadColumns(text, options); }),
      Valued("compression", "NAME[:LEVEL]", "zstd, gz, bz2, snappy or br", "", IntoString(&options.compression)),
      Valued("hashes", "NAME,…", "hashes that the index keeps of each shard: sha1, xxh64, …", "",
             [&](absl::string_view text) {
               options.hashes = absl::StrSplit(text, ',', absl::SkipEmpty());
               std::sort(options.hashes.begin(), options.hashes.end());
               return absl::OkStatus();
             }),
      Valued("size-limit", "BYTES", "of a shard", size_limit, [&](absl::string_view text) -> absl::Status {
        int64_t bytes = 0;
        if (!absl::SimpleAtoi(text, &bytes) || bytes < 1)
          return absl::InvalidArgumentError("must be a number of bytes");
        options.size_limit = bytes;
        return absl::OkStatus();
      })};
  table.push_back(ThreadsOption(write.threads, "that encode, compress and store"));
  table.push_back(Switch("restart", "begin anew, whatever an unfinished write left", IntoBool(&write.restart)));
  for (Option& option : RecordFlags(read)) table.push_back(std::move(option));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(table, args, 2));
  read.paths = {paths[0]};
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> records, OpenRecords(read));
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[1]));
  ProgressText progress(context.err);
  write.progress = [&](const WriteProgress& now) { progress.Show(now); };
  const absl::StatusOr<int64_t> samples = WriteMds(*records, store, std::move(write));
  if (!samples.ok()) return Annotate(samples.status(), paths[0]);
  context.out << paths[1] << ": " << *samples << " samples\n";
  return kDone;
}

// Of a data set if PLACE has an index.json, else of files.
absl::StatusOr<int> Stats(const std::vector<std::string>& args, const Context& context) {
  RecordOptions read;
  int threads = CoresHere();
  std::vector<Option> table = RecordFlags(read);
  std::string tokenizer;
  table.push_back(ThreadsOption(threads, "that read"));
  table.push_back(Valued("tokenizer", "PATH", "whose tokens of texts are counted, as `composer tokenize` opens it", "",
                         IntoString(&tokenizer)));
  ASSIGN_OR_RETURN(read.paths, ParseToolArguments(table, args, 1));
  TokenCounter count_tokens;
  if (!tokenizer.empty()) {
    ASSIGN_OR_RETURN(count_tokens, context.open_tokenizer(tokenizer));
  }
  if (IsRemotePlace(read.paths[0]) || PathExists(JoinPath(read.paths[0], "index.json"))) {
    ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(context.open, read.paths[0]));
    ASSIGN_OR_RETURN(const MdsIndex index, FetchMdsIndex(*store, ""));
    ASSIGN_OR_RETURN(const DataStats stats, StatsOfMds(*store, index, threads, count_tokens));
    context.out << stats.Text();
    return kDone;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> records, OpenRecords(read));
  ASSIGN_OR_RETURN(const DataStats stats, StatsOfRecords(*records, threads, count_tokens));
  context.out << stats.Text();
  return kDone;
}

absl::StatusOr<int> Bench(const std::vector<std::string>& args, const Context& context) {
  DataBenchOptions options;
  const auto count = [](int64_t* to) {
    return [to](absl::string_view text) -> absl::Status {
      if (absl::SimpleAtoi(text, to) && *to >= 1) return absl::OkStatus();
      return absl::InvalidArgumentError("must be a number of at least 1");
    };
  };
  const std::vector<Option> table = {
      Valued("samples", "N", "that are read at most, twice", absl::StrCat(options.samples), count(&options.samples)),
      Valued("canonical-nodes", "N", "of the order, py1e", "1", count(&options.order.canonical_nodes))};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(table, args, 1));
  if (IsRemotePlace(paths[0])) return absl::InvalidArgumentError("bench reads a folder, not a bucket");
  ASSIGN_OR_RETURN(const std::string text, BenchMds(paths[0], options));
  context.out << text;
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
  int threads = CoresHere();
  ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                   ParseToolArguments({ThreadsOption(threads, "that read")}, args, 1));
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
  // Null: worker/show_data.h implements it, since it needs LibTorch.
  absl::StatusOr<int> (*run)(const std::vector<std::string>&, const Context&);
};
constexpr Command kCommands[] = {
    {"write", "FILES FOLDER [flags]",
     "Writes shards in mosaicml-streaming's MDS format; the same command goes on after a kill.", Write},
    {"inspect", "FOLDER", "Prints shards, samples, bytes, compression and columns.", Inspect},
    {"verify", "FOLDER [--threads N]", "Reads every byte: sizes, hashes, structure, samples.", Verify},
    {"stats", "FILES|FOLDER [flags]", "Prints lengths of values, duplicates, and with a tokenizer tokens.", Stats},
    {"bench", "FOLDER [flags]", "Reads shards in the order of training and prints how fast.", Bench},
    {"show", "JOB.yaml [-n N] [flags]", "Prints samples as a job's model gets them.", nullptr},
    {"merge", "FOLDER", "Writes one index.json for the data sets in the folders below.", Merge},
};
constexpr char kPlaces[] = "FILES is a file, a folder or a glob. FOLDER is a path or a URL (s3://, gs://, oci://).\n";

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

int RunDataTool(const std::vector<std::string>& args, const StoreOpener& open, const TokenCounterOpener& open_tokenizer,
                std::ostream& out, std::ostream& err) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    (args.empty() ? err : out) << Usage();
    return args.empty() ? kUserError : kDone;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
    if (command.name == args[0] && command.run != nullptr)
      return RunCommand(command, {args.begin() + 1, args.end()}, {open, open_tokenizer, out, err});
  }
  err << "composer data: there is no command `" << Printable(args[0]) << "`" << DidYouMean(args[0], names) << "\n"
      << Usage();
  return kUserError;
}

}  // namespace composer
