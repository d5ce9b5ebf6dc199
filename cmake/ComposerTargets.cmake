# composer_library(NAME … SRCS … DEPS … [TORCH]), composer_binary(…), composer_test(NAME SRCS … DEPS … [TORCH] [LABELS …] [TIMEOUT s])

configure_file(${CMAKE_CURRENT_LIST_DIR}/version.h.in ${PROJECT_BINARY_DIR}/generated/composer/version.h @ONLY)

add_library(composer_flags INTERFACE)
target_compile_options(composer_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-unused-parameter -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wno-deprecated-builtins>)
target_include_directories(composer_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(composer_flags INTERFACE COMPOSER_VERSION="${PROJECT_VERSION}")

# Precompiled headers. A target that uses one must have the same flags. There are two of the product, with LibTorch and without, and the same
# two of the tests, which are not optimised and have GoogleTest in them. <torch/torch.h> is in none and not included by our sources
# (tools/check_layers.py): its 80 modules cost each compilation two seconds, used or not.
function(composer_add_pch name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LINK;HEADERS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cc "// Carries the precompiled header.\n")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE composer_flags ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE
    ${ARG_HEADERS} <algorithm> <functional> <map> <memory> <optional> <string> <utility> <variant> <vector> <absl/status/statusor.h>
    <absl/strings/numbers.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h>
    <absl/synchronization/mutex.h> <absl/time/clock.h>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# KIND: torch or plain; TEST: a test program.
function(composer_use_pch target kind)
  cmake_parse_arguments(ARG "TEST" "" "" ${ARGN})
  if(NOT COMPOSER_PCH)
    return()
  endif()
  set(headers)
  set(link)
  if(kind STREQUAL torch)
    set(headers <torch/types.h> <torch/autograd.h> <torch/nn/module.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp>)
    set(link composer_torch_headers)
  endif()
  if(ARG_TEST)
    set(pch composer_${kind}_test_pch)
    set(options OPTIONS -O0)
    list(APPEND headers <gtest/gtest.h> <gmock/gmock.h>)
    list(APPEND link GTest::gtest GTest::gmock)
  else()
    set(pch composer_${kind}_pch)
    set(options)
  endif()
  if(NOT TARGET ${pch})
    composer_add_pch(${pch} ${options} LINK ${link} HEADERS ${headers})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

function(composer_use_torch target)
  # An installed library finds Composer::libtorch through ComposerConfig.cmake.
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:composer_torch> $<INSTALL_INTERFACE:Composer::libtorch>)
  composer_use_pch(${target} torch ${ARGN})
endfunction()

function(composer_library)
  cmake_parse_arguments(ARG "TORCH" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:composer_flags>)
  target_include_directories(${ARG_NAME} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/composer>)
  # The libraries that the public header promises: what is installed, and what composer_worker has for plugins.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  if(folder MATCHES "^(base|net|storage|data|checkpoint|trainer)(/|$)" OR folder MATCHES "^(tracking|views/read)$")
    set_property(GLOBAL APPEND PROPERTY COMPOSER_PUBLIC_LIBRARIES ${ARG_NAME})
  endif()
  if(ARG_TORCH)
    composer_use_torch(${ARG_NAME})
  else()
    composer_use_pch(${ARG_NAME} plain)
  endif()
endfunction()

function(composer_binary)
  cmake_parse_arguments(ARG "TORCH" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  # -fPIC and not -fPIE: the precompiled header is shared with the libraries.
  target_compile_options(${ARG_NAME} PRIVATE -fPIC)
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} composer_flags)
  if(ARG_TORCH)
    composer_use_torch(${ARG_NAME})
  endif()
endfunction()

# The program has every symbol of the public libraries, also those it does not use itself, and exports them to plugins. Call it after the
# libraries exist. Only names in namespace composer are exported: a plugin may link what it likes without meeting our gRPC.
function(composer_plugin_host target)
  get_property(libraries GLOBAL PROPERTY COMPOSER_PUBLIC_LIBRARIES)
  set(archives)
  foreach(library ${libraries})
    list(APPEND archives $<TARGET_FILE:${library}>)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:${library}>)
  endforeach()
  # Not CMake's WHOLE_ARCHIVE feature: it repeats archives of cyclic or diamond dependencies.
  target_link_options(${target} PRIVATE LINKER:--whole-archive ${archives} LINKER:--no-whole-archive)
  target_link_libraries(${target} PRIVATE ${libraries})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/plugin_exports.txt)
  target_link_options(${target} PRIVATE -Wl,--dynamic-list=${exports})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports})
endfunction()

# One test program; labels: unit (default), rpc, multiproc, integration, slow, gpu. TIMEOUT in seconds (default 120).
# The test's own files are not optimised, which halves their compile time; what they call is.
function(composer_test)
  cmake_parse_arguments(ARG "TORCH" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  composer_binary(NAME ${ARG_NAME} SRCS ${ARG_SRCS} DEPS ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_compile_options(${ARG_NAME} PRIVATE -O0)
  if(ARG_TORCH)
    composer_use_torch(${ARG_NAME} TEST)
  else()
    composer_use_pch(${ARG_NAME} plain TEST)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
