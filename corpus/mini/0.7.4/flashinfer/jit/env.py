import pathlib

FLASHINFER_CSRC_DIR = pathlib.Path(__file__).resolve().parents[1] / "data" / "csrc"
FLASHINFER_INCLUDE_DIR = pathlib.Path(__file__).resolve().parents[1] / "data" / "include"
