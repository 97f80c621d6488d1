set(KERNEL_FLAGS
    "-O3"
    # "-gencode=arch=compute_120a,code=sm_120a" one day
    "-gencode=arch=compute_90a,code=sm_90a"   # Hopper
    "-gencode=arch=compute_120a,code=sm_120a"
    # end
)
