# cmake --install, and find_package(Composer) for programs that embed the trainer: Composer::composer.
include(CMakePackageConfigHelpers)

get_property(composer_embeddable GLOBAL PROPERTY COMPOSER_PUBLIC_LIBRARIES)
add_library(composer_all INTERFACE)
set_target_properties(composer_all PROPERTIES EXPORT_NAME composer)
target_link_libraries(composer_all INTERFACE ${composer_embeddable})

install(TARGETS composer)
install(TARGETS composer_all ${composer_embeddable} EXPORT ComposerTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/composer)
install(EXPORT ComposerTargets NAMESPACE Composer:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Composer)
foreach(folder base storage checkpoint trainer)
  install(DIRECTORY ${folder} DESTINATION include/composer FILES_MATCHING PATTERN "*.h")
endforeach()
configure_package_config_file(cmake/ComposerConfig.cmake.in ${PROJECT_BINARY_DIR}/ComposerConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Composer)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ComposerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ComposerConfig.cmake ${PROJECT_BINARY_DIR}/ComposerConfigVersion.cmake cmake/FindLibTorch.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Composer)
