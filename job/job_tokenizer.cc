// SPDX-License-Identifier: Apache-2.0
#include "job/job_tokenizer.h"

#include "job/named_reader.h"
#include "trainer/tokenizers/byte_tokenizer.h"
#include "trainer/tokenizers/file_tokenizer.h"

namespace composer {
namespace {

TokenizerFactory ReadBytes(ConfigMap config) {
  const bool eos = config.Bool("eos", false);
  return [=] { return std::make_shared<const ByteTokenizer>(eos); };
}

TokenizerFactory ReadHf(ConfigMap config) {
  FileTokenizerOptions options;
  options.path = config.String("path");
  options.pattern = config.Choice("pattern", {"gpt2", "cl100k", "qwen2", "o200k"}, options.pattern);
  options.special = config.StringList("special", {});
  for (const char* role : {"bos", "eos", "pad", "unk", "mask", "cls", "sep"}) {
    if (config.Has(role)) options.roles.emplace_back(role, config.String(role));
  }
  return [=] { return std::make_shared<const FileTokenizer>(options); };
}

constexpr NamedReader<TokenizerFactory> kTokenizers[] = {{"bytes", ReadBytes}, {"hf", ReadHf}};

}  // namespace

std::vector<std::string> TokenizerNames() { return NamesOf(kTokenizers); }

TokenizerFactory ReadTokenizer(ConfigMap root, const PluginTables& plugins) {
  ConfigMap config = root.Map("tokenizer");
  if (!config.exists()) return nullptr;
  return ReadNamed<TokenizerFactory>(config, kTokenizers, plugins.tokenizers);
}

}  // namespace composer
