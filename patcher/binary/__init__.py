"""What binaries say about themselves, read as data: ELF sections and embedded GPU code."""
