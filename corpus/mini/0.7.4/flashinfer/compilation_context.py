class CompilationContext:
    COMMON_NVCC_FLAGS = []
    TARGETS = {(9, "0a"), (10, "0a"), (12, "0a")}

    def get_nvcc_flags_list(self, supported_major_versions=None):
        return [
            f"-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}"
            for major, minor in sorted(self.TARGETS)
            if supported_major_versions is None or major in supported_major_versions
        ] + self.COMMON_NVCC_FLAGS


current_compilation_context = CompilationContext()
