"""Fashion-MNIST, 70,000 images of clothes, from Debian's package dataset-fashion-mnist."""

import gzip
import pathlib

import numpy as np
import torch

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")

# Mean and standard deviation of the training images' pixels, the usual normalization.
_MEAN, _DEVIATION = 0.2860, 0.3530


def is_installed() -> bool:
    return (FOLDER / "train-images-idx3-ubyte.gz").exists()


def load(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The images (n, 1, 28, 28) as bytes and the labels (n,) of "train" or "t10k"."""
    images = _read_idx(FOLDER / f"{part}-images-idx3-ubyte.gz")
    labels = _read_idx(FOLDER / f"{part}-labels-idx1-ubyte.gz")
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels).long()


def normalized(images: torch.Tensor) -> torch.Tensor:
    """Converts bytes to normalized float32."""
    return images.float().div_(255).sub_(_MEAN).div_(_DEVIATION)


def _read_idx(path: pathlib.Path) -> np.ndarray:
    # Two zero bytes, the type (8: unsigned byte), the number of dimensions, then each dimension as
    # a big-endian integer; the rest is data.
    with gzip.open(path) as file:
        data = file.read()
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an idx file of bytes")
    dimensions = data[3]
    shape = np.frombuffer(data, ">u4", dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()
