// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/xid.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

struct Meaning {
  int number;
  bool hardware;
  const char* text;
};
constexpr Meaning kMeanings[] = {
    {13, false, "a kernel of the program failed"},
    {31, false, "a kernel of the program accessed memory that it does not have"},
    {32, false, "the driver received invalid commands"},
    {38, false, "the driver's firmware failed"},
    {43, false, "the GPU stopped working on the program's commands"},
    {45, false, "the driver ended the program's work after an earlier error"},
    {48, true, "an uncorrectable error of the memory"},
    {61, true, "a controller in the GPU stopped"},
    {62, true, "a controller in the GPU stopped"},
    {63, true, "a bad row of memory was taken out of use"},
    {64, true, "a bad row of memory could not be taken out of use"},
    {74, true, "an error of NVLink"},
    {79, true, "the GPU has fallen off the bus"},
    {92, true, "many corrected errors of the memory"},
    {94, true, "an uncorrectable error of the memory that hit one program"},
    {95, true, "an uncorrectable error of the memory that may have hit any program"},
    {119, true, "the GPU's system processor does not answer"},
    {120, true, "the GPU's system processor failed"},
};

const Meaning* Find(int number) {
  const auto* it =
      std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const Meaning& m) { return m.number == number; });
  return it == std::end(kMeanings) ? nullptr : it;
}

}  // namespace

std::string DescribeXid(int number) {
  const Meaning* meaning = Find(number);
  return meaning == nullptr ? absl::StrCat("Xid ", number) : absl::StrCat("Xid ", number, " (", meaning->text, ")");
}

bool IsHardwareXid(int number) {
  const Meaning* meaning = Find(number);
  return meaning != nullptr && meaning->hardware;
}

std::optional<Xid> ParseXidRecord(absl::string_view record) {
  const size_t semicolon = record.find(';');
  int priority = 0;
  if (semicolon == absl::string_view::npos || !absl::SimpleAtoi(record.substr(0, record.find(',')), &priority))
    return std::nullopt;
  if (priority < 0 || (priority >> 3) != 0) return std::nullopt;  // facility 0 is the kernel's own
  absl::string_view text = record.substr(semicolon + 1);
  if (!absl::ConsumePrefix(&text, "NVRM: Xid (")) return std::nullopt;
  const size_t close = text.find("): ");
  if (close == absl::string_view::npos) return std::nullopt;
  absl::string_view place = text.substr(0, close);
  text.remove_prefix(close + 3);
  Xid xid;
  if (absl::ConsumePrefix(&place, "PCI:")) xid.pci = std::string(place);
  if (!absl::SimpleAtoi(text.substr(0, text.find_first_not_of("0123456789")), &xid.number)) return std::nullopt;
  return xid;
}

}  // namespace composer
