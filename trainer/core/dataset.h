// The seams of data: where samples come from (Dataset, SampleSource, SampleStream), in which order an epoch serves them
// (SampleOrder), how one becomes what the model takes (SampleTransform), how several become a batch (Collator), and how
// a rank gets its share of each batch (Loader).
//
// Everything that can be arithmetic is: a sample is a function of its index (and of the epoch, where it is transformed
// at random), a batch of (seed, epoch, position). Only a stream has a place of its own, which checkpoints keep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "trainer/core/batch.h"
#include "trainer/core/random.h"

namespace composer {

inline constexpr int64_t kUnknownSize = -1;

class IterableDataset;

// The order in which an epoch serves samples. Threads: any number at a time.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;
  // Returns how many samples an epoch serves, at least 1; a sample may come several times or not at all.
  virtual int64_t size() const = 0;
  // Sets ids[i] to the index of the sample at position begin + i of this epoch; all positions are below size().
  virtual void Read(int64_t epoch, int64_t begin, absl::Span<int64_t> ids) const = 0;
};

// What an order may depend on.
struct OrderRequest {
  int64_t size = 0;  // of the dataset
  uint64_t seed = 0;
  int64_t global_batch_size = 1;
  int data_ranks = 1;    // an order that depends on it is not elastic
  bool shuffle = false;  // as the loader is set
};
using OrderFactory = std::function<std::shared_ptr<const SampleOrder>(const OrderRequest&)>;

// A set of samples that gives them as batches: indexed, or an IterableDataset. Threads: Load may be called from several
// threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;  // kUnknownSize for an IterableDataset
  // Returns the samples with these indices, each in [0, size()), in this order. Pure: the same indices give the same
  // batch. An empty list gives a batch with B = 0 and tensors of the right trailing shape and dtype. Throws
  // (c10::Error), naming the sample, when one cannot be read.
  virtual Batch Load(absl::Span<const int64_t> indices) const = 0;
  // Returns them as they are in this epoch, for data that is transformed at random.
  virtual Batch LoadIn(int64_t /*epoch*/, absl::Span<const int64_t> indices) const { return Load(indices); }
  // Hears which samples this rank will load soon, each once an epoch, so that it can fetch them. Must not block.
  virtual void WillLoad(int64_t /*epoch*/, absl::Span<const int64_t> /*indices*/) const {}
  // Returns the order in which an epoch serves this data if it has an opinion of its own, else null: then the loader's
  // settings decide.
  virtual std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& /*request*/) const { return nullptr; }
  // Returns this dataset if its samples can only be read in order, else null.
  virtual const IterableDataset* iterable() const { return nullptr; }
};

// One sample before it is part of a batch. Tensors have no first dimension B; texts are bytes of any kind: text, or an
// encoded image.
struct Sample {
  int64_t id = -1;
  std::map<std::string, at::Tensor> tensors;  // "inputs" and "targets" become Batch::inputs and Batch::targets
  std::map<std::string, std::string> texts;
};

// One pass over samples of unknown number, read in order. Used by one thread at a time.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  // Reads the next sample; false at the end, where `sample` is left as it was. Throws (c10::Error) what it cannot read.
  virtual bool Next(Sample& sample) = 0;
  // Returns where the stream is, for a checkpoint (at most 64 KiB); "" if it has no such place: a resumed run then
  // reads from the beginning and passes over what was trained on.
  virtual std::string Place() const { return ""; }
  // Continues, before the first Next, at a place that a stream over the same data gave. Throws c10::ValueError when it
  // is none.
  virtual void Seek(const std::string& place);
};

// Samples that are read in order. Every rank reads all of them and keeps its share, so the n-th global batch is the
// same for any number of ranks. Needs max_duration in batches, samples, tokens or seconds. Source:
// torch.utils.data.IterableDataset.
class IterableDataset : public Dataset {
 public:
  int64_t size() const final { return kUnknownSize; }
  Batch Load(absl::Span<const int64_t> indices) const final;  // throws c10::NotImplementedError
  const IterableDataset* iterable() const final { return this; }
  // Begins a pass. The samples of an epoch must be the same each time; an endless stream makes one epoch.
  virtual std::unique_ptr<SampleStream> Open(int64_t epoch) const = 0;
  // Makes this rank's batch of its samples, at least one.
  virtual Batch Collate(int64_t epoch, std::vector<Sample> samples) const = 0;
};

// Samples one by one, which transforms and a collator make batches of (data/prepared_dataset.h). Threads as for
// Dataset.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual int64_t size() const = 0;  // kUnknownSize: Open is used instead of Get
  virtual Sample Get(int64_t index) const;
  virtual std::unique_ptr<SampleStream> Open(int64_t epoch) const;
  virtual void WillLoad(absl::Span<const int64_t> /*indices*/) const {}
  virtual std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& /*request*/) const { return nullptr; }
};

// Changes one sample. Threads: any number at a time. Draws only from `random`, which depends on (seed, epoch, sample)
// and on the transform's place in the list: the result depends on neither threads nor ranks.
class SampleTransform {
 public:
  virtual ~SampleTransform() = default;
  virtual void Apply(Sample& sample, SampleRandom& random) const = 0;
};

// Makes a batch of at least one sample. Threads: any number at a time.
class Collator {
 public:
  virtual ~Collator() = default;
  virtual Batch Collate(std::vector<Sample> samples) const = 0;
};

// What is done with each batch of a loader, where Batch::Slice and the dataset's counts do not suit it. Empty functions
// do nothing. Threads: the training thread. Source: mosaicml composer/core/data_spec.py.
struct DataSpec {
  // Changes a rank's batch, on its device, before AFTER_DATALOADER; not called for a batch without samples.
  std::function<Batch(Batch)> batch_transform;
  // Changes a microbatch before BEFORE_FORWARD, or EVAL_BEFORE_FORWARD.
  std::function<Batch(Batch)> microbatch_transform;
  // Returns the samples [begin, end) of a batch whose tensors do not all have one row a sample. Empty: Batch::Slice.
  std::function<Batch(const Batch& batch, int64_t begin, int64_t end)> split_batch;
  // Return what a rank's batch holds, as the loader gives it: 0 <= samples, 0 <= tokens. Empty: the batch's own counts.
  // Samples are counted again after algorithms changed a batch.
  std::function<int64_t(const Batch&)> get_num_samples_in_batch, get_num_tokens_in_batch;

  // Returns the samples [begin, end) by split_batch. Throws c10::ValueError if it gives another number of them.
  Batch Split(const Batch& batch, int64_t begin, int64_t end) const;
  // Moves a loaded batch to the device, counts and transforms it.
  Batch Prepare(Batch batch, at::Device device) const;
};

class Loader;
// Returns the loader's spec, or for null one that does nothing.
const DataSpec& SpecOf(const Loader* loader);

// What a Loader gives.
struct LoadedBatch {
  Batch batch;  // this rank's share; has 0 samples when a short batch has fewer samples than there are ranks
  int64_t global_samples = 0;  // over all ranks; 0: the epoch is over and there is no batch
  std::string place;           // of the stream after this batch; "" if it has none
};

// A Loader gives a rank its share of each global batch of a dataset. Algorithms and callbacks see a run's loaders as
// this (State::train_dataloader, State::dataloader). The loader has no position of its own: a batch is named by the
// samples of the epoch before it, so that a run can go on with another batch size after exactly what it has trained on.
class Loader {
 public:
  virtual ~Loader() = default;
  virtual const Dataset& dataset() const = 0;
  virtual const DataSpec& spec() const { return SpecOf(nullptr); }
  virtual const std::string& label() const = 0;   // Composer's dataloader_label
  virtual int64_t batches_per_epoch() const = 0;  // Composer's dataloader_len; with a subset, that of it. 0: unknown
  virtual int64_t global_batch_size() const = 0;  // samples over all ranks of every batch but a short last one
  // Returns the samples over all ranks of the batch that begins here: 0 at the end of the epoch, kUnknownSize if only
  // Load can know.
  virtual int64_t SamplesAt(int64_t sample_in_epoch) const = 0;
  virtual LoadedBatch Load(int64_t epoch, int64_t sample_in_epoch) = 0;
  // Gives the place that LoadedBatch had before that sample, from a checkpoint.
  virtual void Resume(int64_t /*epoch*/, int64_t /*sample_in_epoch*/, const std::string& /*place*/) {}
  // Returns which samples Load would read, for messages: "the samples 3, 9, 4, …".
  virtual std::string Describe(int64_t epoch, int64_t sample_in_epoch) const = 0;
};

}  // namespace composer
