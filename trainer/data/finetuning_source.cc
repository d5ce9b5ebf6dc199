// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/finetuning_source.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/chat/chat_template.h"
#include "data/text/record_files.h"
#include "trainer/tokenizers/chat_prompt.h"

namespace composer {
namespace {

constexpr int64_t kNotLearned = -100;
constexpr char kTools[] = "tools";  // what a chat template may use beside messages

// A text of a sample, and whether it is learned.
struct Said {
  std::string text;
  bool learned = false;
};

// The objects that samples are made of.
class ChatObjects {
 public:
  explicit ChatObjects(RecordFiles lines) : lines_(std::move(lines)) {}
  ChatObjects(std::shared_ptr<const SampleSource> rows, std::vector<std::string> of_json)
      : rows_(std::move(rows)), of_json_(std::move(of_json)) {}

  const SampleSource* rows() const { return rows_.get(); }
  int64_t size() const { return rows_ == nullptr ? lines_->size() : rows_->size(); }
  std::string Where(int64_t index) const {
    return rows_ == nullptr ? lines_->Where(index) : absl::StrCat("row ", index);
  }

  nlohmann::json At(int64_t index) const { return rows_ == nullptr ? OfLine(index) : OfRow(index); }

 private:
  nlohmann::json OfLine(int64_t index) const {
    const absl::string_view line = (*lines_)[index];
    nlohmann::json object = ParseJson(line);
    TORCH_CHECK_VALUE(object.is_object(), Where(index), ": this line is not a JSON object: `",
                      std::string(line.substr(0, 100)), "`");
    return object;
  }
  nlohmann::json OfRow(int64_t index) const {
    const Sample row = rows_->Get(index);
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [key, text] : row.texts) {
      const bool is_json = std::find(of_json_.begin(), of_json_.end(), key) != of_json_.end();
      object[key] = is_json ? ParseJson(text) : nlohmann::json(text);
    }
    return object;
  }

  std::optional<RecordFiles> lines_;
  std::shared_ptr<const SampleSource> rows_;  // null: lines
  std::vector<std::string> of_json_;          // keys
};

class Finetuning final : public SampleSource {
 public:
  Finetuning(ChatObjects records, FinetuningOptions options, std::shared_ptr<const Tokenizer> tokenizer,
             std::optional<ChatTemplate> chat)
      : records_(std::move(records)),
        options_(std::move(options)),
        tokenizer_(std::move(tokenizer)),
        chat_(std::move(chat)) {}

  int64_t size() const override { return records_.size(); }
  void WillLoad(absl::Span<const int64_t> indices) const override {
    if (records_.rows() != nullptr) records_.rows()->WillLoad(indices);
  }
  std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& request) const override {
    return records_.rows() == nullptr ? nullptr : records_.rows()->OwnOrder(request);
  }

  Sample Get(int64_t index) const override {
    std::vector<int64_t> ids, learned;  // learned: the ids, or kNotLearned
    if (chat_.has_value()) {
      AppendChat(index, ids, learned);
    } else {
      const std::vector<Said> texts = TextsOf(index);
      for (size_t i = 0; i < texts.size(); ++i) Append(texts[i], i == 0, i + 1 == texts.size(), ids, learned);
    }
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

  std::string Render(const TemplateValue& variables, int64_t index) const {
    const absl::StatusOr<std::string> text = chat_->Render(variables);
    TORCH_CHECK_VALUE(text.ok(), records_.Where(index), ": chat_template: ", std::string(text.status().message()));
    return *text;
  }

  TemplateValue VariablesOf(int64_t index) const {
    const Json object = records_.At(index);
    TemplateValue variables = ChatVariables(*tokenizer_);
    if (const auto tools = object.find(kTools); tools != object.end()) variables[kTools] = *tools;
    if (const auto messages = object.find(options_.messages_key); messages != object.end()) {
      TORCH_CHECK_VALUE(messages->is_array() && !messages->empty(), records_.Where(index), ": `", options_.messages_key,
                        "` is not a list of messages");
      variables["messages"] = *messages;
    } else {
      variables["messages"] = {{{"role", "user"}, {"content", TextAt(object, options_.prompt_key, index)}},
                               {{"role", "assistant"}, {"content", TextAt(object, options_.response_key, index)}}};
    }
    return variables;
  }

  // Returns the parts [begin, end) of the chat's text that are learned.
  std::vector<std::pair<int64_t, int64_t>> LearnedOf(const std::string& whole, TemplateValue variables,
                                                     int64_t index) const {
    const TemplateValue messages = std::move(variables["messages"]);
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (size_t i = 0; i < messages.size(); ++i) {
      const bool is_object = messages[i].is_object();
      if (!is_object || !messages[i].contains("role") || messages[i]["role"] != "assistant") continue;
      const auto upto = [&](size_t count, bool asks) {
        variables["messages"] = TemplateValue(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
        variables["add_generation_prompt"] = asks;
        std::string text = Render(variables, index);
        TORCH_CHECK_VALUE(
            whole.starts_with(text), records_.Where(index), ": chat_template: the text of the first ", count,
            " messages is not how the text of all of them begins, so that what is learned cannot be determined");
        return static_cast<int64_t>(text.size());
      };
      const int64_t begin = i == 0 ? 0 : upto(i, true);
      parts.emplace_back(begin, i + 1 == messages.size() ? static_cast<int64_t>(whole.size()) : upto(i + 1, false));
    }
    return parts;
  }

  void AppendChat(int64_t index, std::vector<int64_t>& ids, std::vector<int64_t>& learned) const {
    const TemplateValue variables = VariablesOf(index);
    const std::string whole = Render(variables, index);
    const auto parts = LearnedOf(whole, variables, index);
    const Encoding encoding = tokenizer_->Encode(whole, /*add_special_tokens=*/false);
    ids = encoding.ids;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t at = encoding.offsets[i].first;
      const bool is_learned = std::any_of(parts.begin(), parts.end(),
                                          [&](const auto& part) { return part.first <= at && at < part.second; });
      learned.push_back(is_learned ? ids[i] : kNotLearned);
    }
  }

  std::vector<Said> TextsOf(int64_t index) const {
    const Json object = records_.At(index);
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

  const ChatObjects records_;
  const FinetuningOptions options_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::optional<ChatTemplate> chat_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenFinetuning(const FinetuningOptions& options,
                                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                                   std::shared_ptr<const SampleSource> rows) {
  if (tokenizer == nullptr) return absl::InvalidArgumentError("finetuning needs a tokenizer: give the job `tokenizer`");
  if (options.max_seq_len < 1)
    return absl::InvalidArgumentError(absl::StrCat("max_seq_len: must be at least 1, got ", options.max_seq_len));
  std::optional<ChatTemplate> chat;
  if (!options.chat_template.empty()) {
    absl::StatusOr<ChatTemplate> read = ReadChatTemplate(options.chat_template);
    if (!read.ok()) return Annotate(read.status(), "chat_template");
    chat = *std::move(read);
  }
  const auto open = [&]() -> absl::StatusOr<ChatObjects> {
    if (rows != nullptr) return ChatObjects(std::move(rows), {options.messages_key, kTools});
    ASSIGN_OR_RETURN(RecordFiles lines, RecordFiles::Open(options.paths, RecordKind::kLines));
    return ChatObjects(std::move(lines));
  };
  ASSIGN_OR_RETURN(ChatObjects records, open());
  return std::make_shared<const Finetuning>(std::move(records), options, std::move(tokenizer), std::move(chat));
}

std::vector<std::string> FinetuningKeys(const FinetuningOptions& options) {
  return {options.messages_key, options.prompt_key, options.response_key, kTools};
}

}  // namespace composer
