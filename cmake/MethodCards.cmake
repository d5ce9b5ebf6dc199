# cmake -DCARDS=<docs/methods> -DOUTPUT=<file.cc> -P MethodCards.cmake: writes the cards into a source file
# (launcher/options/method_cards.h), so that the program prints them without a folder of documents.
file(GLOB cards ${CARDS}/*.md)
list(SORT cards)
set(rows "")
foreach(card ${cards})
  get_filename_component(name ${card} NAME_WE)
  if(NOT name STREQUAL "README")
    file(READ ${card} text)
    string(APPEND rows "      {\"${name}\", R\"card(${text})card\"},\n")
  endif()
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/MethodCards.cmake from docs/methods.
// SPDX-License-Identifier: Apache-2.0
#include \"launcher/options/method_cards.h\"

namespace composer {

const std::vector<MethodCard>& MethodCards() {
  static const auto& cards = *new std::vector<MethodCard>{
${rows}  };
  return cards;
}

}  // namespace composer
")
