// This reads Python pickles as data: a tree of plain values, in which a class or function is a name and a call of one
// is a node that nobody executes. A pickle from anywhere is thus safe to read; what a caller makes of a name is its own
// decision.
//
// It reads protocols 2 to 5 without out-of-band buffers, extension codes and the text opcodes of protocol 0. Memory and
// time are linear in the pickle (values are shared, never copied), with at most kMaxPickleValues values; nothing
// recurses. Source: CPython's Lib/pickletools.py. No torch. Fuzzed: tests/fuzz/torch_pickle_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

inline constexpr size_t kMaxPickleValues = size_t{1} << 22;

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kBytes,      // also an integer too large for int64, as its bytes
    kList,       // items
    kTuple,      // items
    kSet,        // items
    kDict,       // items: key, value, key, value …; of equal keys the last counts. OrderedDict() is a dict
    kGlobal,     // a class or function: `module` and `text`
    kCall,       // items: the callee, the tuple of its arguments and, if set, the object's state. Items that were
                 // added later are dropped
    kPersistent  // items: the id, in torch a tuple ("storage", type, key, location, elements)
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;        // of kBool and kInt
  double real = 0;           // of kFloat
  absl::string_view text;    // of kString, kBytes and kGlobal (the last part of its name). Lies in the pickle
  absl::string_view module;  // of kGlobal
  std::vector<int> items;    // indices of values

  // `name` is like "torch.FloatStorage".
  bool IsGlobal(absl::string_view name) const;
};

// For messages: at most 200 bytes of a text out of a pickle, with control characters escaped.
std::string ShownText(absl::string_view text);

// Values refer to the pickle's bytes, which must outlive it. A list may contain itself, so walks of the tree must be
// bounded.
class Pickle {
 public:
  // Returns kDataLoss with the position and the reason, kUnimplemented for an unsupported opcode.
  static absl::StatusOr<Pickle> Parse(absl::string_view bytes);

  const PickleValue& root() const { return values_[static_cast<size_t>(root_)]; }
  const PickleValue& at(int index) const { return values_[static_cast<size_t>(index)]; }
  // Returns the value of a text key; nullptr when `dict` is not a dict or has no such key.
  const PickleValue* Find(const PickleValue& dict, absl::string_view key) const;
  // Returns the state of an object, `name` being the last part of its class; nullptr if it is none of that class, or
  // has no state.
  const PickleValue* StateOf(const PickleValue& value, absl::string_view name) const;
  // Returns text for messages: "torch.FloatStorage" for a class or a call of it, else "a list", "a number" …
  std::string Describe(const PickleValue& value) const;

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  int root_ = 0;
};

}  // namespace composer
