// Reads members of a JSON object that another process wrote: strictly by type, and with bounds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace composer {

inline constexpr size_t kMaxJsonText = 4096;  // bytes of a text, and elements of a list

// Fills `into` from a value of its type: a bool, a text, a list of texts, a finite or infinite double, or a whole
// number that is not negative and not too large for it. Returns false, and leaves numbers and texts as they are,
// otherwise. `Json` is nlohmann::json or ordered_json.
template <typename Json, typename T>
bool TakeValue(const Json& json, T& into) {
  if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) return false;
  } else if constexpr (std::same_as<T, std::string>) {
    if (!json.is_string() || json.template get_ref<const std::string&>().size() > kMaxJsonText) return false;
  } else if constexpr (std::integral<T>) {
    constexpr uint64_t kMost = std::numeric_limits<T>::max();
    if (!json.is_number_unsigned() || json.template get<uint64_t>() > kMost) return false;
  } else if constexpr (std::floating_point<T>) {
    if (!json.is_number()) return false;
  } else {
    static_assert(std::same_as<T, std::vector<std::string>>);
    if (!json.is_array() || json.size() > kMaxJsonText) return false;
    for (const Json& item : json) {
      if (std::string text; !TakeValue(item, text)) return false;
    }
  }
  into = json.template get<T>();
  return true;
}

// Fills `into` from the member `key` as TakeValue does. Returns false when there is no such member.
template <typename Json, typename T>
bool TakeMember(const Json& json, const char* key, T& into) {
  const auto it = json.find(key);
  return it != json.end() && TakeValue(*it, into);
}

}  // namespace composer
