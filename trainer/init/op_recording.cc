// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/op_recording.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <mutex>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "trainer/core/random.h"

namespace composer {
namespace {

// These in-place operations leave nothing of the old values in `self` and do not read it.
constexpr absl::string_view kOverwriters[] = {"aten::normal_", "aten::uniform_", "aten::zero_",
                                              "aten::fill_",   "aten::copy_",    "aten::log_normal_"};

// Such tensors become zeros, so that what nobody writes is the same on all ranks.
bool IsUninitialised(const std::string& name) {
  return absl::StartsWith(name, "aten::empty") || absl::StartsWith(name, "aten::new_empty");
}

// Returns a tensor with the geometry of `like` on another's storage.
at::Tensor OnStorage(const at::Tensor& storage_of, const at::Tensor& like) {
  return at::empty({0}, like.options().device(storage_of.device()))
      .set_(storage_of.storage(), like.storage_offset(), like.sizes(), like.strides());
}

// For operations without a generator argument: seeds torch's own generator, which threads share.
class SeededDefaultGenerator {
 public:
  explicit SeededDefaultGenerator(uint64_t seed)
      : lock_(DefaultGeneratorMutex()), generator_(at::detail::getDefaultCPUGenerator()), before_(generator_.clone()) {
    const std::lock_guard<std::mutex> guard(generator_.mutex());
    generator_.set_current_seed(seed);
  }
  ~SeededDefaultGenerator() {
    const std::lock_guard<std::mutex> guard(generator_.mutex());
    generator_.set_state(before_.get_state());
  }

 private:
  std::lock_guard<std::mutex> lock_;
  at::Generator generator_, before_;
};

uint64_t HashBytes(uint64_t hash, const void* data, size_t size) {  // FNV-1a
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
  return hash;
}

uint64_t HashText(uint64_t hash, const std::string& text) { return HashBytes(hash, text.data(), text.size() + 1); }

}  // namespace

std::vector<at::Tensor> TensorsOf(c10::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) tensors.push_back(value.toTensor());
    } else if (value.isList()) {
      const std::vector<at::Tensor> inside = TensorsOf(value.toListRef());
      tensors.insert(tensors.end(), inside.begin(), inside.end());
    }
  }
  return tensors;
}

torch::jit::Stack MapTensors(const torch::jit::Stack& values, const std::function<at::Tensor(const at::Tensor&)>& map) {
  torch::jit::Stack result;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      result.emplace_back(value.toTensor().defined() ? map(value.toTensor()) : at::Tensor());
    } else if (value.isList()) {
      c10::impl::GenericList list(value.toList().elementType());
      for (c10::IValue& item : MapTensors(value.toListRef().vec(), map)) list.push_back(std::move(item));
      result.emplace_back(std::move(list));
    } else {
      result.push_back(value);
    }
  }
  return result;
}

int ArgumentIndex(const c10::FunctionSchema& schema, const char* name) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (schema.arguments()[i].name() == name) return static_cast<int>(i);
  }
  return -1;
}

bool OpRecording::Knows(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.has_storage() && writers_.contains(KeyOf(tensor));
}

void OpRecording::Add(const c10::OperatorHandle& handle, const torch::jit::Stack& args,
                      const std::vector<at::Tensor>& outputs) {
  Op op{handle, {}, {}, {}, {}, handle.hasTag(at::Tag::nondeterministic_seeded)};
  std::vector<StorageKey> written;
  for (const at::Tensor& output : outputs) {
    op.outputs.push_back(output.detach());
    if (Knows(output) || std::find(op.made.begin(), op.made.end(), KeyOf(output)) != op.made.end()) continue;
    op.made.push_back(KeyOf(output));
  }
  const c10::FunctionSchema& schema = handle.schema();
  for (size_t i = 0; i < args.size(); ++i) {
    const bool writes = schema.arguments()[i].alias_info() != nullptr && schema.arguments()[i].alias_info()->isWrite();
    for (const at::Tensor& tensor : TensorsOf({args[i]})) {
      if (!Knows(tensor)) continue;
      op.reads.push_back(KeyOf(tensor));
      if (writes && std::find(written.begin(), written.end(), KeyOf(tensor)) == written.end())
        written.push_back(KeyOf(tensor));
    }
  }
  if (written.empty() && op.made.empty()) return;
  op.args = MapTensors(
      args, [this](const at::Tensor& tensor) { return Knows(tensor) ? tensor.detach() : tensor.detach().clone(); });
  for (const StorageKey key : written) writers_[key].push_back(ops_.size());
  for (const StorageKey key : op.made) writers_[key].push_back(ops_.size());
  ops_.push_back(std::move(op));
}

bool OpRecording::Overwrites(const Op& op, StorageKey storage) const {
  const std::string& name = op.handle.schema().name();
  if (std::find(std::begin(kOverwriters), std::end(kOverwriters), name) == std::end(kOverwriters)) return false;
  const at::Tensor& self = op.args[0].toTensor();
  return KeyOf(self) == storage && self.is_non_overlapping_and_dense() && self.storage_offset() == 0 &&
         self.nbytes() == storage->nbytes();
}

// What precedes the last complete overwriting does not matter, except making the storage.
void OpRecording::Need(StorageKey storage, size_t before, Slice& slice) const {
  const auto writers = writers_.find(storage);
  if (writers == writers_.end()) return;
  const auto include = [&](size_t index) {
    if (!slice.insert(index).second) return;
    for (const StorageKey read : ops_[index].reads) {
      if (read != storage) Need(read, index, slice);
    }
  };
  const std::vector<size_t>& all = writers->second;
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i] >= before) continue;
    include(all[i]);
    if (i > 0 && Overwrites(ops_[all[i]], storage)) break;
  }
  if (all[0] < before) include(all[0]);
}

OpRecording::Slice OpRecording::SliceOf(StorageKey storage) const {
  Slice slice;
  Need(storage, ops_.size(), slice);
  return slice;
}

int64_t OpRecording::BytesOf(const Slice& slice) const {
  int64_t bytes = 0;
  for (const size_t index : slice) {
    for (const StorageKey made : ops_[index].made) bytes += static_cast<int64_t>(made->nbytes());
  }
  return bytes;
}

at::Tensor OpRecording::ViewOf(const RealStorages& storages, const at::Tensor& meta) {
  return OnStorage(storages.at(KeyOf(meta)), meta);
}

torch::jit::Stack OpRecording::WithReal(const torch::jit::Stack& args, const RealStorages& storages) {
  return MapTensors(args, [&](const at::Tensor& tensor) {
    return tensor.is_meta() && storages.contains(KeyOf(tensor)) ? ViewOf(storages, tensor) : tensor;
  });
}

void OpRecording::RunOne(const Op& op, uint64_t seed, RealStorages& real) const {
  torch::jit::Stack stack = WithReal(op.args, real);
  const int generator = op.random ? ArgumentIndex(op.handle.schema(), "generator") : -1;
  if (generator >= 0) stack[static_cast<size_t>(generator)] = at::make_generator<at::CPUGeneratorImpl>(seed);
  if (op.random && generator < 0) {
    const SeededDefaultGenerator seeded(seed);
    op.handle.callBoxed(stack);
  } else {
    op.handle.callBoxed(stack);
  }
  const std::vector<at::Tensor> outputs = TensorsOf(stack);
  TORCH_CHECK(outputs.size() == op.outputs.size(), op.handle.schema().name(), ": ", outputs.size(), " tensors, ",
              op.outputs.size(), " when it was recorded");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& expected = op.outputs[i];
    TORCH_CHECK(outputs[i].sizes() == expected.sizes() && outputs[i].strides() == expected.strides() &&
                    outputs[i].storage_offset() == expected.storage_offset(),
                op.handle.schema().name(), ": of shape ", outputs[i].sizes(), ", ", expected.sizes(),
                " when it was recorded (or the same in another order)");
    if (std::find(op.made.begin(), op.made.end(), KeyOf(expected)) == op.made.end()) continue;
    if (IsUninitialised(op.handle.schema().name())) outputs[i].zero_();
    real.emplace(KeyOf(expected), outputs[i]);
  }
}

OpRecording::RealStorages OpRecording::Run(const Slice& slice,
                                           const std::function<uint64_t(size_t op)>& seed_of) const {
  const at::NoGradGuard no_grad;
  RealStorages real;
  for (const size_t index : slice) RunOne(ops_[index], ops_[index].random ? seed_of(index) : 0, real);
  return real;
}

uint64_t OpRecording::Fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const Op& op : ops_) {
    std::ostringstream text;
    text << op.handle.schema().name() << op.handle.schema().overload_name();
    for (const c10::IValue& arg : op.args) {
      const std::vector<at::Tensor> tensors = TensorsOf({arg});
      if (tensors.empty()) text << ' ' << arg;
      for (const at::Tensor& tensor : tensors) {
        text << ' ' << tensor.dtype() << tensor.sizes() << tensor.strides() << tensor.storage_offset();
        if (const auto made = writers_.find(KeyOf(tensor)); made != writers_.end()) {
          text << " of " << made->second[0];
        } else {
          const at::Tensor values = tensor.contiguous();
          hash = HashBytes(hash, values.const_data_ptr(), values.nbytes());
        }
      }
    }
    hash = HashText(hash, text.str());
  }
  return hash;
}

}  // namespace composer
