// SPDX-License-Identifier: Apache-2.0
#include "job/plugin/plugin_config.h"

#include <utility>

#include "config/config_map.h"
#include "job/plugin/job_time.h"

namespace composer {
namespace {

IntRange Bounds(PluginIntRange range) { return {range.min, range.max}; }
DoubleRange Bounds(PluginDoubleRange range) { return {range.min, range.max}; }

}  // namespace

PluginConfig::PluginConfig(const ConfigMap& map) : map_(std::make_unique<ConfigMap>(map)) {}
PluginConfig::~PluginConfig() = default;
PluginConfig::PluginConfig(const PluginConfig& other) : PluginConfig(*other.map_) {}
PluginConfig& PluginConfig::operator=(const PluginConfig& other) {
  *map_ = *other.map_;
  return *this;
}

bool PluginConfig::exists() const { return map_->exists(); }
bool PluginConfig::Has(absl::string_view key) const { return map_->Has(key); }
std::string PluginConfig::path() const { return map_->path(); }

std::string PluginConfig::String(absl::string_view key) { return map_->String(key); }
std::string PluginConfig::String(absl::string_view key, absl::string_view fallback) {
  return map_->String(key, fallback);
}
int64_t PluginConfig::Int(absl::string_view key, int64_t fallback, PluginIntRange range) {
  return map_->Int(key, fallback, Bounds(range));
}
int64_t PluginConfig::RequiredInt(absl::string_view key, PluginIntRange range) {
  return map_->RequiredInt(key, Bounds(range));
}
double PluginConfig::Double(absl::string_view key, double fallback, PluginDoubleRange range) {
  return map_->Double(key, fallback, Bounds(range));
}
double PluginConfig::RequiredDouble(absl::string_view key, PluginDoubleRange range) {
  return map_->RequiredDouble(key, Bounds(range));
}
bool PluginConfig::Bool(absl::string_view key, bool fallback) { return map_->Bool(key, fallback); }
std::string PluginConfig::Choice(absl::string_view key, absl::Span<const absl::string_view> allowed,
                                 absl::string_view fallback) {
  return map_->Choice(key, allowed, fallback);
}
composer::Time PluginConfig::Time(absl::string_view key, absl::string_view fallback) {
  return ReadTime(*map_, key, fallback);
}
std::vector<int64_t> PluginConfig::IntList(absl::string_view key, std::vector<int64_t> fallback, PluginIntRange range) {
  return map_->IntList(key, std::move(fallback), Bounds(range));
}
std::vector<double> PluginConfig::DoubleList(absl::string_view key, std::vector<double> fallback,
                                             PluginDoubleRange range) {
  return map_->DoubleList(key, std::move(fallback), Bounds(range));
}
std::vector<std::string> PluginConfig::StringList(absl::string_view key, std::vector<std::string> fallback) {
  return map_->StringList(key, std::move(fallback));
}

PluginConfig PluginConfig::Map(absl::string_view key) { return PluginConfig(map_->Map(key)); }
std::vector<PluginConfig> PluginConfig::MapList(absl::string_view key) {
  std::vector<PluginConfig> maps;
  for (const ConfigMap& map : map_->MapList(key)) maps.emplace_back(map);
  return maps;
}
void PluginConfig::Reject(absl::string_view key, absl::string_view message) { map_->Reject(key, message); }

}  // namespace composer
