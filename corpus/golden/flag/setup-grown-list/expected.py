ARCHS = {"8.0", "9.0"}
flags = []
if cuda >= (12, 8):
    flags += ["-gencode=arch=compute_100a,code=sm_100a", "-gencode=arch=compute_120a,code=sm_120a"]
    flags.extend(('-lineinfo', ('-O3')))
