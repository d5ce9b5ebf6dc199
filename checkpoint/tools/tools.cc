// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/tools.h"

#include <ostream>
#include <streambuf>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "checkpoint/tools/commands.h"

namespace composer {
namespace {

// An output stream for text with foreign names and messages, from manifests and files: whatever a tool writes there
// reaches `out` line by line as PrintableText (base/printable.h) permits.
class PrintableStream final : private std::streambuf, public std::ostream {
 public:
  // `out` must outlive this object.
  explicit PrintableStream(std::ostream& out) : std::ostream(this), out_(out) {}
  ~PrintableStream() override { Pass(); }

 private:
  // Both bases have these names.
  using Buffer = std::streambuf;
  Buffer::int_type overflow(Buffer::int_type c) override {
    if (c == Buffer::traits_type::eof()) return Buffer::traits_type::not_eof(c);
    line_.push_back(static_cast<char>(c));
    if (c == '\n') Pass();
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    line_.append(text, static_cast<size_t>(count));
    if (const size_t end = line_.rfind('\n'); end != std::string::npos) {
      out_ << PrintableText(line_.substr(0, end + 1));
      line_.erase(0, end + 1);
    }
    return count;
  }
  int sync() override {
    Pass();
    out_.flush();
    return 0;
  }
  void Pass() {
    out_ << PrintableText(line_);
    line_.clear();
  }

  std::ostream& out_;
  std::string line_;  // begun but not passed on, since a character may be split over two writes
};

struct Command {
  absl::string_view name;
  absl::string_view arguments;
  absl::string_view help;
  absl::StatusOr<int> (*run)(const std::vector<std::string>&, const ToolContext&);
};
constexpr Command kCommands[] = {
    {"list", "FOLDER [--json] [--verify]", "Lists the checkpoints of a folder: step, size, state, age.", ListTool},
    {"show", "PATH", "Shows one checkpoint: step, time, world size, tensors, small state.", ShowTool},
    {"verify", "PATH", "Reads a checkpoint again and checks every checksum; of a folder, all of them.", VerifyTool},
    {"diff", "A B", "Compares two checkpoints, bit by bit.", DiffTool},
    {"export", "PATH OUT [--dtype bf16] [--max-shard-size 5GB] [--overwrite]",
     "Writes weights as safetensors (a folder or a file), all as x.pt, a run's model as x.onnx or\n"
     "x.ts, whose flags `composer checkpoint export RUN x.onnx --help` lists.",
     ExportTool},
    {"import", "SRC FOLDER [--rename A=B] [--key A/B] [--run-name N] [--overwrite]",
     "Makes a checkpoint of weights in safetensors or torch.save files.", ImportTool},
    {"prune", "FOLDER --keep N [--dry-run] [--force]", "Deletes all but the newest checkpoints of a folder.",
     PruneTool},
};

constexpr char kPaths[] =
    "A path is a checkpoint, its manifest.json, or a folder of checkpoints (its newest\n"
    "valid one).\n";

std::string Usage() {
  std::string text;
  for (const Command& command : kCommands) {
    absl::StrAppend(&text, text.empty() ? "usage: " : "       ", "composer checkpoint ", command.name, " ",
                    command.arguments, "\n");
  }
  return absl::StrCat(text, kPaths);
}

}  // namespace

int RunCheckpointTool(const std::vector<std::string>& args, const StoreOpener& open, absl::Time now, std::ostream& out,
                      std::ostream& err) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    (args.empty() ? err : out) << Usage();
    return args.empty() ? kToolUserError : kToolDone;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
    if (command.name != args[0]) continue;
    PrintableStream plain_out(out), plain_err(err);
    const absl::StatusOr<int> code =
        command.run({args.begin() + 1, args.end()}, ToolContext{open, plain_out, plain_err, now});
    if (code.ok()) return *code;
    if (absl::IsCancelled(code.status())) {
      const absl::string_view flags = code.status().message();
      out << "usage: composer checkpoint " << command.name << " " << command.arguments << "\n\n"
          << command.help << "\n"
          << kPaths << (flags.empty() ? "" : "\n") << flags;
      return kToolDone;
    }
    plain_err << "composer checkpoint " << args[0] << ": " << code.status().message() << "\n";
    if (absl::IsInvalidArgument(code.status()))
      plain_err << "usage: composer checkpoint " << command.name << " " << command.arguments << "\n";
    return kToolUserError;
  }
  err << "composer checkpoint: there is no command `" << Printable(args[0]) << "`" << DidYouMean(args[0], names) << "\n"
      << Usage();
  return kToolUserError;
}

}  // namespace composer
