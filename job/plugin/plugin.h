// A plugin: a shared library with the user's own models, datasets, callbacks, …, named in a job's YAML (`plugins:
// [./libmine.so]`).
//
//   #include <composer/composer.h>
//   COMPOSER_PLUGIN(mine, registry) {
//     registry.AddModel("tiny", [](composer::PluginConfig& config) {
//       const int64_t width = config.Int("width", 64, {.min = 1});
//       return [=] { return std::make_shared<Tiny>(width); };
//     });
//   }
//
// The macro leaves two things in the library: an ELF note that says what it was built with, which the worker reads from
// the file and compares before it loads the library, so that none of its code (static initialisers included) runs
// against headers that it does not match; and the entry point composer_plugin_v1, called once. Must be used once per
// library, outside any namespace.
//
// A plugin does not link against Composer: its symbols come from composer_worker. See docs/plugins.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <composer/interface.h>
#include <composer/version.h>
#include <torch/headeronly/version.h>

#include <cstdint>

#include "absl/base/config.h"
#include "config/plugin_note.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/core/batch.h"
#include "trainer/core/dataset.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/model.h"
#include "trainer/core/state.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/models/language_model.h"

namespace composer {

inline constexpr uint32_t kPluginNoteType = 1;
// Incremented when this note or the entry point changes. The note itself identifies the headers.
inline constexpr uint32_t kPluginInterface = 3;

// The note's content: plain data with the same layout for every compiler; texts are zero-terminated.
struct PluginInfo {
  uint32_t interface_version;
  char headers[24];   // kInterfaceHash: covers the headers that plugins and Composer share
  char name[64];      // as COMPOSER_PLUGIN gave it
  char composer[32];  // versions: Composer's, LibTorch's
  char torch[32];
  char toolchain[96];  // what decides whether objects can be mixed
  char compiler[96];   // for messages only
};

// Everything that affects layouts in the standard library, Abseil and the machine. Objects of GCC and clang can be
// mixed.
#define COMPOSER_TEXT_INNER_(x) #x
#define COMPOSER_TEXT_(x) COMPOSER_TEXT_INNER_(x)
#if defined(_GLIBCXX_DEBUG)
#define COMPOSER_STANDARD_LIBRARY_ "libstdc++ in debug mode"
#elif defined(__GLIBCXX__)
#define COMPOSER_STANDARD_LIBRARY_ "libstdc++, cxx11 ABI " COMPOSER_TEXT_(_GLIBCXX_USE_CXX11_ABI)
#else
#define COMPOSER_STANDARD_LIBRARY_ "not libstdc++"
#endif
#if defined(__x86_64__)
#define COMPOSER_MACHINE_ "x86_64"
#else
#define COMPOSER_MACHINE_ "aarch64"
#endif
// CMake's composer_plugin() defines these; without them, classes of LibTorch have another layout.
#if defined(NDEBUG) && defined(C10_USE_GLOG)
#define COMPOSER_DEFINITIONS_ ""
#else
#define COMPOSER_DEFINITIONS_ ", no NDEBUG or C10_USE_GLOG"
#endif
inline constexpr char kPluginToolchain[] =
    COMPOSER_STANDARD_LIBRARY_ ", Abseil " COMPOSER_TEXT_(ABSL_LTS_RELEASE_VERSION) " (" COMPOSER_TEXT_(
        ABSL_OPTION_INLINE_NAMESPACE_NAME) "), " COMPOSER_MACHINE_ COMPOSER_DEFINITIONS_;
#if defined(__clang__)
inline constexpr char kPluginCompiler[] = "clang " __clang_version__;
#else
inline constexpr char kPluginCompiler[] = "GCC " __VERSION__;
#endif
static_assert(__cplusplus >= 202002L, "a plugin needs -std=c++20 or later");

template <size_t kSize>
constexpr void CopyText(char (&to)[kSize], const char* from) {
  for (size_t i = 0; i + 1 < kSize && from[i] != '\0'; ++i) to[i] = from[i];
}

// An ELF note as stored in the file.
struct PluginNote {
  uint32_t owner_size = sizeof(kPluginNoteOwner);
  uint32_t content_size = sizeof(PluginInfo);
  uint32_t type = kPluginNoteType;
  char owner[12] = {};  // padded to 4 bytes
  PluginInfo content = {};
};
static_assert(sizeof(PluginNote) == 3 * 4 + 12 + sizeof(PluginInfo) && alignof(PluginNote) == 4);

constexpr PluginNote MakePluginNote(const char* name) {
  PluginNote note;
  CopyText(note.owner, kPluginNoteOwner);
  note.content.interface_version = kPluginInterface;
  CopyText(note.content.headers, kInterfaceHash);
  CopyText(note.content.name, name);
  CopyText(note.content.composer, kVersion);
  CopyText(note.content.torch, TORCH_VERSION);
  CopyText(note.content.toolchain, kPluginToolchain);
  CopyText(note.content.compiler, kPluginCompiler);
  return note;
}

// An ELF note with the table of keys, laid out in the same way.
template <size_t kSize>
struct PluginKeysNote {
  uint32_t owner_size = sizeof(kPluginNoteOwner);
  uint32_t content_size = (kSize + 3) / 4 * 4;
  uint32_t type = kPluginKeysNoteType;
  char owner[12] = {};
  char table[(kSize + 3) / 4 * 4] = {};
};

template <size_t kSize>
constexpr PluginKeysNote<kSize> MakePluginKeysNote(const char (&table)[kSize]) {
  PluginKeysNote<kSize> note;
  CopyText(note.owner, kPluginNoteOwner);
  for (size_t i = 0; i < kSize; ++i) note.table[i] = table[i];
  return note;
}

}  // namespace composer

// The keys of what the plugin registers, as text, so that `composer` checks them before it starts anything:
//   COMPOSER_PLUGIN_KEYS(R"(
//   [model tiny] A tiny model.
//   width | int 1.. | 64 | Hidden units.
//   )");
// Format and kinds: docs/plugins.md. May be used at most once per library.
#define COMPOSER_PLUGIN_KEYS(table)                                                                          \
  [[gnu::used, gnu::section(".note.composer"), gnu::aligned(4)]] static constexpr auto kComposerPluginKeys = \
      ::composer::MakePluginKeysNote(table)

#define COMPOSER_PLUGIN(plugin_name, registry)                                                             \
  static void ComposerFillRegistry(::composer::PluginRegistry&);                                           \
  [[gnu::used, gnu::section(".note.composer"),                                                             \
    gnu::aligned(4)]] static constexpr ::composer::PluginNote kComposerPluginNote =                        \
      ::composer::MakePluginNote(#plugin_name);                                                            \
  extern "C" [[gnu::visibility("default")]] void composer_plugin_v1(::composer::PluginRegistry& plugins) { \
    ComposerFillRegistry(plugins);                                                                         \
  }                                                                                                        \
  static void ComposerFillRegistry(::composer::PluginRegistry& registry)
