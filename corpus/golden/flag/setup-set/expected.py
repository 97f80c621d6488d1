ARCHS = {"8.0", "9.0", "12.0"}
flags = []
if cuda >= (12, 8):
    flags += ["-gencode=arch=compute_100a,code=sm_100a"]
    flags.extend(('-lineinfo', ('-O3')))
