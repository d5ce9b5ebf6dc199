// SPDX-License-Identifier: Apache-2.0
#include "job/job_tokenizer.h"

#include "job/named_reader.h"
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

TokenizerFactory ReadBytes(ConfigMap config) {
  const bool eos = config.Bool("eos", false);
  return [=] { return std::make_shared<const ByteTokenizer>(eos); };
}

constexpr NamedReader<TokenizerFactory> kTokenizers[] = {{"bytes", ReadBytes}};

}  // namespace

std::vector<std::string> TokenizerNames() { return NamesOf(kTokenizers); }

TokenizerFactory ReadTokenizer(ConfigMap root, const PluginTables& plugins) {
  ConfigMap config = root.Map("tokenizer");
  if (!config.exists()) return nullptr;
  return ReadNamed<TokenizerFactory>(config, kTokenizers, plugins.tokenizers);
}

}  // namespace composer
