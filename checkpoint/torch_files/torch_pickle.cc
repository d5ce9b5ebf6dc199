// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/torch_pickle.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "checkpoint/format/safetensors.h"

namespace composer {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxDims = 64;
constexpr size_t kMaxStorageKey = 64;

struct NamedDType {
  absl::string_view torch;
  absl::string_view dtype;
};
constexpr NamedDType kStorages[] = {
    {"torch.FloatStorage", "F32"}, {"torch.DoubleStorage", "F64"},       {"torch.HalfStorage", "F16"},
    {"torch.LongStorage", "I64"},  {"torch.BFloat16Storage", "BF16"},    {"torch.IntStorage", "I32"},
    {"torch.ShortStorage", "I16"}, {"torch.CharStorage", "I8"},          {"torch.ByteStorage", "U8"},
    {"torch.BoolStorage", "BOOL"}, {"torch.ComplexFloatStorage", "C64"},
};
constexpr absl::string_view kUntypedStorage = "torch.storage.UntypedStorage";
constexpr NamedDType kDTypes[] = {
    {"torch.float32", "F32"},
    {"torch.float64", "F64"},
    {"torch.float16", "F16"},
    {"torch.bfloat16", "BF16"},
    {"torch.int64", "I64"},
    {"torch.int32", "I32"},
    {"torch.int16", "I16"},
    {"torch.int8", "I8"},
    {"torch.uint8", "U8"},
    {"torch.uint16", "U16"},
    {"torch.uint32", "U32"},
    {"torch.uint64", "U64"},
    {"torch.bool", "BOOL"},
    {"torch.complex64", "C64"},
    {"torch.float8_e4m3fn", "F8_E4M3"},
    {"torch.float8_e5m2", "F8_E5M2"},
    {"torch.float8_e8m0fnu", "F8_E8M0"},
    {"torch.float8_e4m3fnuz", "F8_E4M3FNUZ"},
    {"torch.float8_e5m2fnuz", "F8_E5M2FNUZ"},
};

template <size_t n>
std::string DTypeOf(const NamedDType (&table)[n], const PickleValue& global) {
  for (const NamedDType& known : table) {
    if (global.IsGlobal(known.torch)) return std::string(known.dtype);
  }
  return "";
}

class Reader {
 public:
  explicit Reader(const Pickle& pickle) : pickle_(pickle) {}

  absl::StatusOr<TorchTensor> Tensor(const PickleValue& value) const;
  bool IsTensor(const PickleValue& value) const { return value.kind == Kind::kCall; }

 private:
  const PickleValue& Item(const PickleValue& value, size_t i) const { return pickle_.at(value.items[i]); }
  absl::StatusOr<std::vector<int64_t>> Counts(const PickleValue& value) const;
  absl::Status Storage(const PickleValue& value, const PickleValue* dtype, TorchTensor* tensor) const;
  absl::StatusOr<TorchTensor> Rebuild(const PickleValue& arguments, bool has_dtype) const;

  const Pickle& pickle_;
};

absl::StatusOr<std::vector<int64_t>> Reader::Counts(const PickleValue& value) const {
  if (value.kind != Kind::kTuple || value.items.size() > kMaxDims)
    return absl::DataLossError("its shape is not a tuple");
  std::vector<int64_t> counts;
  for (size_t i = 0; i < value.items.size(); ++i) {
    const PickleValue& count = Item(value, i);
    if (count.kind != Kind::kInt || count.number < 0) return absl::DataLossError("bad number in its shape");
    counts.push_back(count.number);
  }
  return counts;
}

// The value is ("storage", type, key, location, elements).
absl::Status Reader::Storage(const PickleValue& value, const PickleValue* dtype, TorchTensor* tensor) const {
  if (value.kind != Kind::kPersistent || Item(value, 0).kind != Kind::kTuple || Item(value, 0).items.size() != 5) {
    return absl::DataLossError("its storage is none of torch's");
  }
  const PickleValue &id = Item(value, 0), &type = Item(id, 1), &key = Item(id, 2), &elements = Item(id, 4);
  tensor->dtype = dtype != nullptr ? DTypeOf(kDTypes, *dtype) : DTypeOf(kStorages, type);
  if (tensor->dtype.empty() || (dtype != nullptr && !type.IsGlobal(kUntypedStorage))) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is of type ", pickle_.Describe(dtype != nullptr ? *dtype : type), ", which is not read"));
  }
  const bool key_is_good =
      key.kind == Kind::kString && !key.text.empty() && key.text.size() <= kMaxStorageKey &&
      std::all_of(key.text.begin(), key.text.end(), [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
  if (!key_is_good || elements.kind != Kind::kInt || elements.number < 0)
    return absl::DataLossError("its storage has no name or size");
  tensor->storage = std::string(key.text);
  tensor->storage_elements = elements.number;
  if (dtype == nullptr) return absl::OkStatus();
  const absl::StatusOr<int64_t> width = TensorBytes(tensor->dtype, {});  // an untyped storage is counted in bytes
  RETURN_IF_ERROR(width.status());
  tensor->storage_elements /= *width;
  return absl::OkStatus();
}

// Checks that the tensor lies within the storage and has no more elements than it: an expanded tensor could be of any
// size.
absl::Status CheckExtent(const TorchTensor& tensor) {
  if (tensor.shape.size() != tensor.stride.size()) return absl::DataLossError("its shape and strides do not agree");
  int64_t elements = 1, last = tensor.offset;
  bool empty = false;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;
    if (__builtin_mul_overflow(elements, tensor.shape[d], &elements) ||
        __builtin_mul_overflow(tensor.shape[d] - 1, tensor.stride[d], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return absl::DataLossError("its shape is too large");
    }
  }
  if (empty) return absl::OkStatus();
  if (last >= tensor.storage_elements) return absl::DataLossError("it does not lie within its storage");
  if (elements > tensor.storage_elements)
    return absl::InvalidArgumentError("it is an expanded view, larger than its storage: save it with .contiguous()");
  return absl::OkStatus();
}

// The arguments are (storage, offset, shape, stride, requires_grad, hooks[, dtype]).
absl::StatusOr<TorchTensor> Reader::Rebuild(const PickleValue& arguments, bool has_dtype) const {
  constexpr size_t kDType = 6;
  if (arguments.items.size() < (has_dtype ? kDType + 1 : kDType)) return absl::DataLossError("too few arguments");
  TorchTensor tensor;
  RETURN_IF_ERROR(Storage(Item(arguments, 0), has_dtype ? &Item(arguments, kDType) : nullptr, &tensor));
  const PickleValue& offset = Item(arguments, 1);
  if (offset.kind != Kind::kInt || offset.number < 0) return absl::DataLossError("bad offset");
  tensor.offset = offset.number;
  ASSIGN_OR_RETURN(tensor.shape, Counts(Item(arguments, 2)));
  ASSIGN_OR_RETURN(tensor.stride, Counts(Item(arguments, 3)));
  RETURN_IF_ERROR(CheckExtent(tensor));
  return tensor;
}

absl::StatusOr<TorchTensor> Reader::Tensor(const PickleValue& value) const {
  const PickleValue* call = &value;
  for (int wrapped = 0; wrapped < 2 && call->kind == Kind::kCall; ++wrapped) {
    const PickleValue &callee = Item(*call, 0), &arguments = Item(*call, 1);
    if (callee.IsGlobal("torch._utils._rebuild_tensor_v2")) return Rebuild(arguments, /*has_dtype=*/false);
    if (callee.IsGlobal("torch._utils._rebuild_tensor_v3")) return Rebuild(arguments, /*has_dtype=*/true);
    const bool is_parameter = callee.IsGlobal("torch._utils._rebuild_parameter") ||
                              callee.IsGlobal("torch._utils._rebuild_parameter_with_state");
    if (!is_parameter || arguments.items.empty()) break;
    call = &Item(arguments, 0);
  }
  return absl::InvalidArgumentError(absl::StrCat("it is ", pickle_.Describe(*call), ", which is not read"));
}

// Lists what a user may have meant, when there are no tensors at the given place.
std::string MembersOf(const Pickle& pickle, const PickleValue& dict) {
  constexpr size_t kShown = 20;
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < dict.items.size() && names.size() < kShown; i += 2) {
    const PickleValue& name = pickle.at(dict.items[i]);
    if (name.kind == Kind::kString)
      names.push_back(absl::StrCat(ShownText(name.text), " (", pickle.Describe(pickle.at(dict.items[i + 1])), ")"));
  }
  return names.empty() ? "it is empty" : absl::StrCat("it has ", absl::StrJoin(names, ", "));
}

absl::StatusOr<const PickleValue*> GoDown(const Pickle& pickle, absl::string_view key) {
  const PickleValue* at = &pickle.root();
  std::string gone;
  for (const absl::string_view part : absl::StrSplit(key, '/', absl::SkipEmpty())) {
    const PickleValue* next = pickle.Find(*at, part);
    if (next == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there is no member `", ShownText(part), "` in `", ShownText(gone),
          "`: ", at->kind == Kind::kDict ? MembersOf(pickle, *at) : absl::StrCat("it is ", pickle.Describe(*at))));
    }
    at = next;
    absl::StrAppend(&gone, gone.empty() ? "" : "/", part);
  }
  return at;
}

std::string DefaultKey(const Pickle& pickle) {
  for (const absl::string_view key : {"state/model", "state_dict"}) {
    const auto found = GoDown(pickle, key);
    if (found.ok() && (*found)->kind == Kind::kDict) return std::string(key);
  }
  return "";
}

}  // namespace

std::string TorchDType(const PickleValue& global) { return DTypeOf(kDTypes, global); }

absl::string_view TorchDTypeName(absl::string_view dtype) {
  for (const NamedDType& known : kDTypes) {
    if (known.dtype == dtype) return known.torch.substr(sizeof("torch.") - 1);
  }
  return "";
}

absl::StatusOr<TorchTensor> ReadTorchTensor(const Pickle& pickle, const PickleValue& value) {
  return Reader(pickle).Tensor(value);
}

absl::StatusOr<TorchWeights> ReadTorchPickle(absl::string_view bytes, absl::string_view key) {
  ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(bytes));
  TorchWeights weights;
  weights.key = key.empty() ? DefaultKey(pickle) : std::string(key);
  ASSIGN_OR_RETURN(const PickleValue* dict, GoDown(pickle, weights.key));
  const std::string where = weights.key.empty() ? "its top" : absl::StrCat("`", ShownText(weights.key), "`");
  if (dict->kind != Kind::kDict)
    return absl::InvalidArgumentError(absl::StrCat(where, " is ", pickle.Describe(*dict), ", no dict of tensors"));
  const Reader reader(pickle);
  absl::flat_hash_map<std::string, size_t> index;
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const PickleValue &name = pickle.at(dict->items[i]), &value = pickle.at(dict->items[i + 1]);
    if (name.kind != Kind::kString)
      return absl::InvalidArgumentError(absl::StrCat(where, " has a key that is not text"));
    if (!reader.IsTensor(value)) {
      weights.skipped.push_back(absl::StrCat(ShownText(name.text), " (", pickle.Describe(value), ")"));
      continue;
    }
    absl::StatusOr<TorchTensor> tensor = reader.Tensor(value);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("`", ShownText(name.text), "`"));
    tensor->name = std::string(name.text);
    const auto [known, is_new] = index.emplace(tensor->name, weights.tensors.size());
    if (is_new) {
      weights.tensors.push_back(*std::move(tensor));
    } else {
      weights.tensors[known->second] = *std::move(tensor);
    }
  }
  if (weights.tensors.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("no tensors in ", where, ": ", MembersOf(pickle, *dict), "; --key goes down"));
  return weights;
}

}  // namespace composer
