// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/error_place.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr size_t kMostSamples = 8;
constexpr int kMostFrames = 16;
constexpr size_t kLongestName = 160;

thread_local const torch::nn::Module* failing_module = nullptr;

std::string PathOf(const torch::nn::Module* module, Model& model) {
  if (module == nullptr || module == &model) return "model";
  for (const auto& item : model.named_modules()) {
    if (item.value().get() == module) return absl::StrCat("model.", item.key());
  }
  return "model";
}

// Says whether a frame is noise: it only shows how the error was made or how functions are called.
bool IsNoise(absl::string_view function) {
  for (const char* part :
       {"c10::Error", "c10::detail::torch", "c10::ValueError", "c10::Dispatcher", "c10::impl::wrap",
        "at::_ops::", "<unknown function>", "composer::TrainBatch", "composer::TrainLoop", "__libc_start_"}) {
    if (absl::StrContains(function, part)) return true;
  }
  return false;
}

}  // namespace

void NoteFailingModule(const torch::nn::Module& module) {
  if (failing_module == nullptr) failing_module = &module;
}

const torch::nn::Module* TakeFailingModule() { return std::exchange(failing_module, nullptr); }

std::string SamplesText(absl::Span<const int64_t> ids) {
  return absl::StrCat("samples ", absl::StrJoin(ids.subspan(0, kMostSamples), ", "),
                      ids.size() > kMostSamples ? ", …" : "", " (", ids.size(), ")");
}

// A line of the backtrace is "frame #3: NAME + 0x1d (0x7f… in /path/library.so)".
std::string FramesOf(absl::string_view backtrace) {
  std::string text;
  int frames = 0;
  for (const absl::string_view line : absl::StrSplit(backtrace, '\n')) {
    const size_t name_at = line.find(": "), offset_at = line.rfind(" + 0x"), file_at = line.rfind('/');
    if (!absl::StartsWith(line, "frame #") || name_at == line.npos || frames == kMostFrames) continue;
    const size_t end = offset_at == line.npos || offset_at < name_at ? line.rfind(" (") : offset_at;
    const absl::string_view name = line.substr(name_at + 2, end == line.npos ? line.npos : end - name_at - 2);
    if (IsNoise(name)) continue;
    absl::string_view file = file_at == line.npos ? "" : line.substr(file_at + 1);
    file = file.substr(0, file.find(')'));
    absl::StrAppend(&text, "\n  at ", name.substr(0, kLongestName), name.size() > kLongestName ? "…" : "", " (", file,
                    ")");
    ++frames;
    if (absl::StartsWith(name, "main")) break;
  }
  return text;
}

std::string StackText(const c10::Error& error) {
  const auto backtrace = error.backtrace();
  return backtrace == nullptr ? "" : FramesOf(backtrace->get());
}

void RethrowWithPlace(const State& state, absl::string_view where) {
  const torch::nn::Module* const module = TakeFailingModule();
  std::string stack;
  try {
    throw;
  } catch (const StatusError&) {
    throw;
  } catch (const c10::Error& error) {
    stack = StackText(error);
  } catch (...) {  // exceptions that are not LibTorch's carry no stack
  }
  const absl::Status status = StatusFromCurrentException();
  if (absl::IsUnavailable(status) || IsOutOfMemory(status)) throw;
  throw StatusError(
      absl::Status(status.code(), absl::StrCat(status.message(), "\n  in ", PathOf(module, *state.model), ", ", where,
                                               ", ", SamplesText(state.batch.sample_ids), stack)));
}

}  // namespace composer
