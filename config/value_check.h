// Checks one value of a job's file against a type of the table of keys (schema.h). Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

// Returns what is wrong with a value that has no sections below it: where, and what in words; empty when nothing is.
// Maps and named things are only checked for being maps or lists.
std::vector<std::pair<SourceMark, std::string>> ValueProblems(const ConfigNode& value,
                                                              const std::vector<ValueType>& types);

// Returns the type among them that the value has the form of; null when there is none.
const ValueType* TypeOf(const ConfigNode& value, const std::vector<ValueType>& types);

}  // namespace composer
