# ccache, with what it needs to know to cache precompiled headers and to hit from another clone.
find_program(COMPOSER_CCACHE ccache)
if(COMPOSER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
          CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 ${COMPOSER_CCACHE})
endif()
