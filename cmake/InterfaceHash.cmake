# cmake -DROOT=<source> -DGENERATED=<generated headers> -DFLAGS=<definitions> -P InterfaceHash.cmake: writes
# GENERATED/composer/interface.h with a hash of every header that is installed (Install.cmake) and of the definitions that
# change their meaning. What plugins and composer_worker compare: two builds whose headers differ in anything have other hashes.
set(headers "")
foreach(folder base net storage data checkpoint trainer tracking views/read include/composer)
  file(GLOB_RECURSE found RELATIVE ${ROOT} ${ROOT}/${folder}/*.h)
  list(APPEND headers ${found})
endforeach()
list(APPEND headers config/plugin_note.h job/plugin/plugin.h job/plugin/plugin_config.h job/plugin/plugin_registry.h)
list(SORT headers)
set(digest "${FLAGS}\n")
foreach(header ${headers})
  file(SHA256 ${ROOT}/${header} one)
  string(APPEND digest "${one} ${header}\n")
endforeach()
file(SHA256 ${GENERATED}/composer/version.h one)
string(APPEND digest "${one}\n")
string(SHA256 digest "${digest}")
string(SUBSTRING ${digest} 0 16 digest)
file(CONFIGURE OUTPUT ${GENERATED}/composer/interface.h @ONLY CONTENT [[
// Made by cmake/InterfaceHash.cmake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer {

// Of all installed headers, and of the definitions they were compiled with.
inline constexpr char kInterfaceHash[] = "@digest@";

}  // namespace composer
]])
