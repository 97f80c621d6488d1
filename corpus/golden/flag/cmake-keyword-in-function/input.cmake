function(kernels)
  set_gencode_flags_for_srcs(
    SRCS "${SRCS}"
    CUDA_ARCHS 9.0a)
endfunction()
macro(others)
  set_gencode_flags_for_srcs(SRCS "${SRCS}" CUDA_ARCHS "9.0a")
endmacro()
