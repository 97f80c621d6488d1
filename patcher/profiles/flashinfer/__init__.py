"""What is known of FlashInfer: its JIT modules, their units, and who calls them."""

from patcher.profiles.flashinfer.profile import FlashInfer

__all__ = ["FlashInfer"]
