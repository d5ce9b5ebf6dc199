# composer_plugin(NAME name SRCS … [DEPS …]): lib<name>.so for the `plugins` of a job (docs/plugins.md). Of the project and of the installed package.
# It links nothing of Composer's: composer_worker, which loads it, has the symbols.
if(NOT TARGET Composer::plugin)
  add_library(composer_plugin_headers INTERFACE)
  add_library(Composer::plugin ALIAS composer_plugin_headers)
  set_target_properties(composer_plugin_headers PROPERTIES EXPORT_NAME plugin)
  target_include_directories(composer_plugin_headers INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/composer>)
  target_link_libraries(composer_plugin_headers INTERFACE $<BUILD_INTERFACE:composer_torch> $<INSTALL_INTERFACE:Composer::libtorch>
    absl::status absl::statusor absl::strings absl::str_format absl::time absl::span absl::flat_hash_map)
endif()

function(composer_plugin)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(${ARG_NAME} MODULE ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES PREFIX lib CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_link_libraries(${ARG_NAME} PRIVATE Composer::plugin ${ARG_DEPS})
  if(TARGET composer_interface)  # in Composer's own build
    add_dependencies(${ARG_NAME} composer_interface)
  endif()
endfunction()
