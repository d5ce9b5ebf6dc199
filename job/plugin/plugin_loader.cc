// SPDX-License-Identifier: Apache-2.0
#include "job/plugin/plugin_loader.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/elf_note.h"
#include "config/plugin_files.h"

namespace composer {
namespace {

constexpr char kEntryPoint[] = "composer_plugin_v1";

absl::Status Bad(const std::string& path, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("plugin ", path, ": ", reason));
}

template <size_t kSize>
absl::string_view Text(const char (&bytes)[kSize]) {
  return {bytes, strnlen(bytes, kSize)};
}

// Demangles the first C++ symbol in dlerror's text.
std::string Readable(const std::string& text) {
  const size_t begin = text.find("_Z");
  if (begin == std::string::npos) return text;
  const size_t end = text.find_first_of(" ,;:)", begin);
  const std::string symbol = text.substr(begin, end == std::string::npos ? end : end - begin);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  if (name == nullptr) return text;
  return absl::StrCat(text.substr(0, begin), name.get(), end == std::string::npos ? "" : text.substr(end));
}

absl::Status DlError(const std::string& path) {
  const char* error = dlerror();
  std::string reason = Readable(error == nullptr ? "dlopen failed" : error);
  // glibc's message begins with the path, which Bad adds anyway.
  if (absl::StartsWith(reason, absl::StrCat(path, ": "))) reason = reason.substr(path.size() + 2);
  if (absl::StrContains(reason, "undefined symbol: composer::"))
    absl::StrAppend(&reason, " (composer_worker does not have it: was the plugin built with other headers?)");
  return Bad(path, absl::StrCat("cannot be loaded: ", reason));
}

}  // namespace

absl::StatusOr<PluginInfo> ReadPluginInfo(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string file, ReadFile(path, kMaxPluginBytes));
  const absl::StatusOr<std::string> note = FindElfNote(file, kPluginNoteOwner, kPluginNoteType);
  if (absl::IsNotFound(note.status()))
    return Bad(path, "a shared library, but not a Composer plugin (it has no COMPOSER_PLUGIN)");
  if (!note.ok()) return Bad(path, note.status().message());
  PluginInfo info{};
  if (note->size() >= sizeof(info.interface_version)) std::memcpy(&info, note->data(), sizeof(info.interface_version));
  if (info.interface_version == kPluginInterface && note->size() != sizeof(info))
    return Bad(path, absl::StrCat("its note has ", note->size(), " bytes instead of ", sizeof(info)));
  if (info.interface_version == kPluginInterface) std::memcpy(&info, note->data(), sizeof(info));
  return info;
}

absl::Status CheckPluginInfo(const PluginInfo& info) {
  const auto differs = [](absl::string_view what, absl::string_view theirs, absl::string_view ours) {
    return absl::InvalidArgumentError(
        absl::StrCat("built for ", what, " ", theirs, ", but this composer_worker has ", ours, ": build it again"));
  };
  if (info.interface_version != kPluginInterface)
    return differs("plugin interface", absl::StrCat(info.interface_version), absl::StrCat(kPluginInterface));
  if (Text(info.composer) != kVersion) return differs("Composer", Text(info.composer), kVersion);
  if (Text(info.torch) != TORCH_VERSION) return differs("LibTorch", Text(info.torch), TORCH_VERSION);
  if (Text(info.toolchain) != kPluginToolchain) return differs("the toolchain", Text(info.toolchain), kPluginToolchain);
  if (Text(info.headers) != kInterfaceHash)
    return absl::InvalidArgumentError(
        absl::StrCat("built with other headers of Composer ", kVersion, " (", Text(info.headers), ", by ",
                     Text(info.compiler), ") than this composer_worker (", kInterfaceHash, "): build it again"));
  return absl::OkStatus();
}

absl::Status LoadPlugin(const std::string& path, PluginRegistry& registry) {
  ASSIGN_OR_RETURN(const PluginInfo info, ReadPluginInfo(path));
  if (const absl::Status fits = CheckPluginInfo(info); !fits.ok()) return Bad(path, fits.message());
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return DlError(path);
  const auto fill = reinterpret_cast<void (*)(PluginRegistry&)>(dlsym(library, kEntryPoint));
  if (fill == nullptr) return Bad(path, absl::StrCat("has no entry point ", kEntryPoint));
  return registry.Fill(path, fill);
}

}  // namespace composer
