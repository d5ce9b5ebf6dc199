// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/finetuning_source.h"

#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "data/text/record_files.h"

namespace composer {
namespace {

constexpr int64_t kNotLearned = -100;

// A text of a sample, and whether it is learned.
struct Said {
  std::string text;
  bool learned = false;
};

class Finetuning final : public SampleSource {
 public:
  Finetuning(RecordFiles records, FinetuningOptions options, std::shared_ptr<const Tokenizer> tokenizer)
      : records_(std::move(records)), options_(std::move(options)), tokenizer_(std::move(tokenizer)) {}

  int64_t size() const override { return records_.size(); }

  Sample Get(int64_t index) const override {
    std::vector<int64_t> ids, learned;  // learned: the ids, or kNotLearned
    const std::vector<Said> texts = TextsOf(index);
    for (size_t i = 0; i < texts.size(); ++i) Append(texts[i], i == 0, i + 1 == texts.size(), ids, learned);
    const auto first = std::find_if(learned.begin(), learned.end(), [](int64_t id) { return id != kNotLearned; });
    TORCH_CHECK_VALUE(first != learned.end() && ids.size() >= 2, records_.Where(index),
                      ": this sample has nothing to learn: its response is empty, or no message is of the role "
                      "`assistant`");
    // The token before the first that is learned stays.
    const auto most = static_cast<size_t>(options_.max_seq_len) + 1;
    const size_t surplus = ids.size() > most ? ids.size() - most : 0;
    const size_t before = std::min(surplus, static_cast<size_t>(std::max<ptrdiff_t>(first - learned.begin() - 1, 0)));
    const auto begin = static_cast<int64_t>(before);
    const auto end = static_cast<int64_t>(std::min(ids.size(), before + most));
    Sample sample;
    sample.tensors["inputs"] = torch::tensor(ids, at::kLong).slice(0, begin, end - 1);
    sample.tensors["targets"] = torch::tensor(learned, at::kLong).slice(0, begin + 1, end);
    return sample;
  }

 private:
  using Json = nlohmann::json;

  std::string TextAt(const Json& object, const std::string& key, int64_t index) const {
    const auto found = object.find(key);
    TORCH_CHECK_VALUE(found != object.end() && found->is_string(), records_.Where(index), ": there is no text `", key,
                      "`");
    return found->get<std::string>();
  }

  std::vector<Said> TextsOf(int64_t index) const {
    const absl::string_view line = records_[index];
    const Json object = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    TORCH_CHECK_VALUE(object.is_object(), records_.Where(index), ": this line is not a JSON object: `",
                      std::string(line.substr(0, 100)), "`");
    const auto messages = object.find(options_.messages_key);
    if (messages == object.end()) {
      return {{TextAt(object, options_.prompt_key, index), false},
              {TextAt(object, options_.response_key, index), true}};
    }
    TORCH_CHECK_VALUE(messages->is_array() && !messages->empty(), records_.Where(index), ": `", options_.messages_key,
                      "` is not a list of messages");
    std::vector<Said> texts;
    for (const Json& message : *messages) {
      TORCH_CHECK_VALUE(message.is_object(), records_.Where(index), ": a message is not a JSON object");
      const std::string role = TextAt(message, "role", index), content = TextAt(message, "content", index);
      texts.push_back({absl::StrReplaceAll(options_.turn_begin, {{"{role}", role}}), false});
      texts.push_back({absl::StrCat(content, options_.turn_end), role == "assistant"});
    }
    return texts;
  }

  void Append(const Said& said, bool is_first, bool is_last, std::vector<int64_t>& ids,
              std::vector<int64_t>& learned) const {
    const std::optional<int64_t>& eos = tokenizer_->special_tokens().eos;
    std::vector<int64_t> more = tokenizer_->Encode(said.text, /*add_special_tokens=*/is_first).ids;
    if (is_first && eos && !more.empty() && more.back() == *eos) more.pop_back();  // the text goes on
    if (is_last && eos) more.push_back(*eos);
    ids.insert(ids.end(), more.begin(), more.end());
    if (!said.learned) std::fill(more.begin(), more.end(), kNotLearned);
    learned.insert(learned.end(), more.begin(), more.end());
  }

  const RecordFiles records_;
  const FinetuningOptions options_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenFinetuning(const FinetuningOptions& options,
                                                                   std::shared_ptr<const Tokenizer> tokenizer) {
  if (tokenizer == nullptr) return absl::InvalidArgumentError("finetuning needs a tokenizer: give the job `tokenizer`");
  if (options.max_seq_len < 1)
    return absl::InvalidArgumentError(absl::StrCat("max_seq_len: must be at least 1, got ", options.max_seq_len));
  ASSIGN_OR_RETURN(RecordFiles records, RecordFiles::Open(options.paths, RecordKind::kLines));
  return std::make_shared<const Finetuning>(std::move(records), options, std::move(tokenizer));
}

}  // namespace composer
