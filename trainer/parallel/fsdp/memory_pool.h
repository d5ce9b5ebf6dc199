// MemoryPool provides memory for buffers that come and go several times a step: returned memory is reused by the next
// buffer of the same size, without the system's page faults. It holds at most what was in use at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace composer {

// Threads: one at a time.
class MemoryPool {
 public:
  explicit MemoryPool(at::Device device) : device_(device) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Gives the tensor's storage, which must be empty, `bytes` of memory with undefined content. The storage object
  // stays, so that views of it and tensors that autograd saved become valid again. Throws when out of memory.
  void Fill(const at::Tensor& tensor, int64_t bytes) {
    c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    std::vector<at::DataPtr>& blocks = free_[bytes];
    if (blocks.empty()) {
      storage->set_data_ptr_noswap(storage->allocator()->allocate(static_cast<size_t>(bytes)));
      bytes_ += bytes;
    } else {
      storage->set_data_ptr_noswap(std::move(blocks.back()));
      blocks.pop_back();
    }
    storage->set_nbytes(static_cast<size_t>(bytes));
  }
  // Takes back the memory of the tensor's storage.
  void Empty(const at::Tensor& tensor) {
    c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    const auto bytes = static_cast<int64_t>(storage->nbytes());
    storage->set_nbytes(0);
    free_[bytes].push_back(storage->set_data_ptr(at::DataPtr(nullptr, device_)));
  }
  // Returns the bytes of all blocks, in use or not.
  int64_t bytes() const { return bytes_; }

 private:
  at::Device device_;
  std::map<int64_t, std::vector<at::DataPtr>> free_;  // by size
  int64_t bytes_ = 0;
};

}  // namespace composer
