"""What somebody did to an installed package: files, gates, and which patchset it amounts to."""
