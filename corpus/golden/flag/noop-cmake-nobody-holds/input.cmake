# archs "12.0a" in a comment
cuda_archs_loose_intersection(SCALED_MM_ARCHS "9.0a;" "${CUDA_ARCHS}")
if(CUDA_VERSION VERSION_GREATER_EQUAL 13.0)
  cuda_archs_loose_intersection(SCALED_MM_ARCHS "12.0f" "${CUDA_ARCHS}")
else()
  cuda_archs_loose_intersection( SCALED_MM_ARCHS  "12.0a"
                                 "${CUDA_ARCHS}" )  # no 12.1
endif()
