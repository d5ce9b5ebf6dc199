// The tables of keys, in the format of config/schema.h. A new key is a row; a new model, data set, … is a section; a
// new file is an entry below.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer {

extern const char kJobKeys[];
extern const char kDataKeys[];
extern const char kModelKeys[];
extern const char kOptimizerKeys[];
extern const char kSchedulerKeys[];
extern const char kParallelismKeys[];
extern const char kAlgorithmKeys[];
extern const char kCallbackKeys[];
extern const char kLoggerKeys[];
extern const char kMetricKeys[];
extern const char kTokenizerKeys[];

// A table comes after those that it includes.
inline constexpr const char* kKeyTables[] = {kDataKeys,        kModelKeys,     kOptimizerKeys, kSchedulerKeys,
                                             kParallelismKeys, kAlgorithmKeys, kCallbackKeys,  kLoggerKeys,
                                             kMetricKeys,      kTokenizerKeys, kJobKeys};

}  // namespace composer
