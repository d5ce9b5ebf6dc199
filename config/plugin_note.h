// How the ELF notes of a plugin are distinguished from others (job/plugin/plugin.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer {

inline constexpr char kPluginNoteOwner[] = "Composer";
inline constexpr uint32_t kPluginKeysNoteType = 2;

}  // namespace composer
