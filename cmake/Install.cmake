# cmake --install, and find_package(Composer): Composer::composer for programs that embed the trainer, composer_plugin() for plugins.
include(CMakePackageConfigHelpers)

get_property(composer_embeddable GLOBAL PROPERTY COMPOSER_PUBLIC_LIBRARIES)
add_library(composer_all INTERFACE)
add_library(Composer::composer ALIAS composer_all)
set_target_properties(composer_all PROPERTIES EXPORT_NAME composer)
target_link_libraries(composer_all INTERFACE ${composer_embeddable})

install(TARGETS composer)
install(TARGETS composer_all composer_plugin_headers ${composer_embeddable} EXPORT ComposerTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/composer)
install(EXPORT ComposerTargets NAMESPACE Composer:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Composer)
foreach(folder base net storage data checkpoint trainer tracking)
  install(DIRECTORY ${folder} DESTINATION include/composer FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY views/read DESTINATION include/composer/views FILES_MATCHING PATTERN "*.h")
install(DIRECTORY include/composer ${PROJECT_BINARY_DIR}/generated/composer DESTINATION include FILES_MATCHING PATTERN "*.h")
install(FILES config/plugin_note.h DESTINATION include/composer/config)
install(FILES job/plugin/plugin.h job/plugin/plugin_config.h job/plugin/plugin_registry.h DESTINATION include/composer/job/plugin)
install(FILES LICENSE NOTICE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# LibTorch beside the programs, so that the tree may be moved and the sources deleted: cmake --install build --component libtorch
file(GLOB wheel_licenses ${LIBTORCH_ROOT}/*.dist-info)
set(own_libtorch ${CMAKE_INSTALL_LIBDIR}/composer/libtorch)
install(DIRECTORY ${LIBTORCH_ROOT}/torch/lib ${LIBTORCH_ROOT}/torch/include DESTINATION ${own_libtorch}/torch
  COMPONENT libtorch EXCLUDE_FROM_ALL USE_SOURCE_PERMISSIONS)
install(DIRECTORY ${LIBTORCH_ROOT}/nvidia ${wheel_licenses} DESTINATION ${own_libtorch}
  COMPONENT libtorch EXCLUDE_FROM_ALL USE_SOURCE_PERMISSIONS)
configure_package_config_file(cmake/ComposerConfig.cmake.in ${PROJECT_BINARY_DIR}/ComposerConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Composer)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ComposerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ComposerConfig.cmake ${PROJECT_BINARY_DIR}/ComposerConfigVersion.cmake cmake/FindLibTorch.cmake
  cmake/ComposerPlugin.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Composer)
include(${CMAKE_CURRENT_LIST_DIR}/PkgConfig.cmake)
