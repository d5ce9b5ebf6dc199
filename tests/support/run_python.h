// Runs Python, whose standard library serves as a second reader of what tests have written. CMake defines PYTHON3, the
// interpreter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace composer {

// Returns the output of `python3 ARGUMENTS`, including errors, preceded by "exit N: …" when it fails.
inline std::string RunPython(const std::vector<std::string>& arguments) {
  std::string command = PYTHON3;
  for (const std::string& argument : arguments)
    absl::StrAppend(&command, " '", absl::StrReplaceAll(argument, {{"'", "'\\''"}}), "'");
  FILE* pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "exit -1: popen failed";
  std::string output;
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, count);
  const int status = pclose(pipe);
  return status == 0 ? output : absl::StrCat("exit ", status, ": ", output);
}

// Same as RunPython, for the text of a script.
inline std::string RunPythonScript(const std::string& script, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"-c", script});
  return RunPython(arguments);
}

}  // namespace composer
