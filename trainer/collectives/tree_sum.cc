// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/tree_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace composer {
namespace {

constexpr int64_t kBlock = 512;  // elements per block, so that intermediate results stay in the first-level cache

// Values of type T are added in Wide<T>::type; signed integers wrap as unsigned ones.
template <typename T>
struct Wide {
  using type = std::conditional_t<std::is_floating_point_v<T>, T, float>;
};
template <typename T>
  requires std::is_integral_v<T>
struct Wide<T> {
  using type = std::make_unsigned_t<T>;
};
template <>
struct Wide<bool> {
  using type = bool;
};

template <typename A>
A Add(A a, A b) {
  if constexpr (std::is_same_v<A, bool>) {
    return a || b;
  } else {
    return static_cast<A>(a + b);
  }
}

template <typename T>
class BlockSum {
 public:
  using A = typename Wide<T>::type;
  BlockSum(absl::Span<const void* const> parts, int64_t offset, int64_t n) : parts_(parts), offset_(offset), n_(n) {}

  // Computes sum[0, n) = T(parts [begin, end)).
  void Run(size_t begin, size_t end, A* sum) const {
    const size_t count = end - begin;
    if (count == 1) {
      const T* a = part(begin);
      for (int64_t i = 0; i < n_; ++i) sum[i] = static_cast<A>(a[i]);
    } else if (count == 2) {
      const T *a = part(begin), *b = part(begin + 1);
      for (int64_t i = 0; i < n_; ++i) sum[i] = Add(static_cast<A>(a[i]), static_cast<A>(b[i]));
    } else {
      const size_t left = std::bit_floor(count - 1);
      A right[kBlock];
      Run(begin, begin + left, sum);
      Run(begin + left, end, right);
      for (int64_t i = 0; i < n_; ++i) sum[i] = Add(sum[i], right[i]);
    }
  }

 private:
  const T* part(size_t index) const { return static_cast<const T*>(parts_[index]) + offset_; }

  absl::Span<const void* const> parts_;
  int64_t offset_, n_;
};

template <typename T>
void Sum(absl::Span<const void* const> parts, void* out, int64_t n) {
  using A = typename Wide<T>::type;
  T* to = static_cast<T*>(out);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t length = std::min(kBlock, n - begin);
    const BlockSum<T> block(parts, begin, length);
    A sum[kBlock];
    block.Run(0, parts.size(), sum);
    for (int64_t i = 0; i < length; ++i) to[begin + i] = static_cast<T>(sum[i]);
  }
}

}  // namespace

void TreeSum(c10::ScalarType dtype, absl::Span<const void* const> parts, void* out, int64_t n) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return Sum<float>(parts, out, n);
    case c10::ScalarType::Double:
      return Sum<double>(parts, out, n);
    case c10::ScalarType::BFloat16:
      return Sum<c10::BFloat16>(parts, out, n);
    case c10::ScalarType::Half:
      return Sum<c10::Half>(parts, out, n);
    case c10::ScalarType::Long:
      return Sum<int64_t>(parts, out, n);
    case c10::ScalarType::Int:
      return Sum<int32_t>(parts, out, n);
    case c10::ScalarType::Short:
      return Sum<int16_t>(parts, out, n);
    case c10::ScalarType::Char:
      return Sum<int8_t>(parts, out, n);
    case c10::ScalarType::Byte:
      return Sum<uint8_t>(parts, out, n);
    case c10::ScalarType::Bool:
      return Sum<bool>(parts, out, n);
    default:
      TORCH_CHECK_VALUE(false, "a sum over ranks is not defined for dtype ", dtype);
  }
}

}  // namespace composer
