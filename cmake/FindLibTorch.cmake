# composer::torch = the PyPI torch wheel as it lies under LIBTORCH_ROOT (the folder that holds torch/ and nvidia/).
# Not the wheel's own TorchConfig: that asks for the CUDA toolkit and puts old protobuf headers first.
set(LIBTORCH_ROOT "${PROJECT_SOURCE_DIR}/.deps/libtorch" CACHE PATH "Folder with the unpacked torch wheel (torch/, nvidia/)")
if(NOT EXISTS ${LIBTORCH_ROOT}/torch/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch not found at ${LIBTORCH_ROOT}: run ./dev setup, pass -DLIBTORCH_ROOT=…, or build without it (-DCOMPOSER_TORCH=OFF).")
endif()
set(COMPOSER_TORCH_LIB ${LIBTORCH_ROOT}/torch/lib)

add_library(composer_torch_headers INTERFACE)
# After everything else: the wheel ships old google/protobuf headers.
target_compile_options(composer_torch_headers INTERFACE
  "SHELL:-idirafter ${LIBTORCH_ROOT}/torch/include"
  "SHELL:-idirafter ${LIBTORCH_ROOT}/torch/include/torch/csrc/api/include")
# C10_USE_GLOG: else LOG silently changes owner with include order. NDEBUG: without it classes such as at::RecordFunction have
# members that the wheel's code does not know.
target_compile_definitions(composer_torch_headers INTERFACE C10_USE_GLOG USE_C10D_GLOO NDEBUG)

add_library(composer_torch INTERFACE)
add_library(composer::torch ALIAS composer_torch)
target_link_libraries(composer_torch INTERFACE composer_torch_headers
  ${COMPOSER_TORCH_LIB}/libtorch_cpu.so ${COMPOSER_TORCH_LIB}/libc10.so)
# libtorch_cpu's own RPATH finds libgomp, cudart and cupti at run time; the linker need not resolve them.
target_link_options(composer_torch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${COMPOSER_TORCH_LIB})
