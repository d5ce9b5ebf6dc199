# composer.pc: the flags of Composer::composer for build systems other than CMake. The libraries are static, so the file
# names all that they need, in the order in which targets need each other; LibTorch's place is the variable `libtorch`.
function(composer_collect target)
  if(TARGET ${target})
    get_target_property(real ${target} ALIASED_TARGET)
    if(real)
      set(target ${real})
    endif()
  endif()
  get_property(seen GLOBAL PROPERTY COMPOSER_PC_SEEN)
  if(target IN_LIST seen)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY COMPOSER_PC_SEEN ${target})
  if(NOT TARGET ${target})
    # A file, a flag, or a name; generator expressions are of the build tree.
    if(NOT target MATCHES "^\\$<|::@" AND NOT target MATCHES "^composer_")
      if(target MATCHES "^[A-Za-z]")
        string(REGEX REPLACE "^.*::" "" target "${target}")  # a target of another folder, such as pugixml::pugixml
        set(target -l${target})
      endif()
      set_property(GLOBAL APPEND PROPERTY COMPOSER_PC_LIBS ${target})
    endif()
    return()
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(imported ${target} IMPORTED)
  if(imported AND NOT type STREQUAL "INTERFACE_LIBRARY")
    foreach(place IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION_NONE IMPORTED_LOCATION IMPORTED_LOCATION_RELWITHDEBINFO)
      get_target_property(file ${target} ${place})
      if(file)
        break()
      endif()
    endforeach()
    set_property(GLOBAL APPEND PROPERTY COMPOSER_PC_LIBS ${file})
  elseif(NOT type STREQUAL "INTERFACE_LIBRARY")
    set_property(GLOBAL APPEND PROPERTY COMPOSER_PC_OWN -l${target})
  endif()
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  foreach(link ${links})
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
    composer_collect("${link}")
  endforeach()
endfunction()

foreach(library ${composer_embeddable})
  composer_collect(${library})
endforeach()
get_property(own GLOBAL PROPERTY COMPOSER_PC_OWN)
get_property(others GLOBAL PROPERTY COMPOSER_PC_LIBS)
list(FILTER others EXCLUDE REGEX "NOTFOUND|^$")
string(REPLACE "${LIBTORCH_ROOT}" "\${libtorch}" others "${others}")
list(TRANSFORM others REPLACE "^-?/usr/lib/(x86_64-linux-gnu/)?lib(.+)\\.(so|a)[.0-9]*$" "-l\\2")
list(REMOVE_DUPLICATES others)
list(JOIN own " " own)
list(JOIN others " " others)
file(WRITE ${PROJECT_BINARY_DIR}/composer.pc "# pkg-config --cflags --libs composer, for C++20. From the wheel, whose torch is pip's: --define-variable=libtorch=SITE-PACKAGES
prefix=\${pcfiledir}/../..
libtorch=${LIBTORCH_ROOT}
Name: composer
Description: The trainer, data, checkpoints and metrics of Composer in C++
Version: ${PROJECT_VERSION}
Cflags: -std=c++20 -I\${prefix}/include -I\${prefix}/include/composer -DC10_USE_GLOG -DUSE_C10D_GLOO -DNDEBUG -idirafter \${libtorch}/torch/include -idirafter \${libtorch}/torch/include/torch/csrc/api/include
Libs: -L\${pcfiledir}/../composer -Wl,--start-group ${own} -Wl,--end-group ${others} -Wl,--allow-shlib-undefined -Wl,-rpath,\${libtorch}/torch/lib
")
install(FILES ${PROJECT_BINARY_DIR}/composer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
