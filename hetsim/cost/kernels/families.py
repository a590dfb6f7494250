"""Families of networks: those that share an architecture, whatever their size and input."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FAMILIES = (
    ("bert", "bert|electra"),
    ("clip text and gpt", "clip_text|gpt"),
    ("mobilevit and hybrids", "mobilevit|efficientformer|fastvit|levit|segformer"),
    ("vit", "vit_|deit|beit|vision_transformer"),
    ("swin", "swin"),
    ("efficientnet", "efficientnet|mixnet"),
    ("mobilenet", "mobilenet|mnasnet|proxylessnas"),
    ("shufflenet", "shufflenet|nanodet"),
    ("resnet", "resnet|resnext|regnet"),
    ("vgg", "(?<!rep)vgg|alexnet"),
    ("repvgg", "repvgg"),
    ("inception", "inception|googlenet"),
    ("squeezenet", "squeezenet"),
    ("densenet", "densenet|vovnet"),
    ("ghostnet", "ghostnet"),
    ("convnext", "convnext"),
    ("yolo", "yolo"),
    ("unet", "unet"),
    ("super resolution", "espcn|quicksrnet|esrgan"),
    ("whisper", "whisper"),
)
_PATTERNS = tuple((family, re.compile(pattern)) for family, pattern in _FAMILIES)


def family_of(network: str) -> str:
    """Return the family of the network called `network`; the name itself where it has none.

    Detectors and segmenters are of the family of their backbone: that is where their kernels are.

    >>> family_of("bert_large_384"), family_of("ncnn_mobilenet_yolo"), family_of("hrnet_w18")
    ('bert', 'mobilenet', 'hrnet_w18')
    """
    return next((family for family, named in _PATTERNS if named.search(network)), network)


def groups_of(networks: Iterable[str]) -> dict[str, str]:
    """Return what each network is left out with: its family, or it alone where there is but one.

    >>> groups_of(["bert_base_384", "bert_large_384"])
    {'bert_base_384': 'bert_base_384', 'bert_large_384': 'bert_large_384'}
    """
    families = {name: family_of(name) for name in networks}
    if len(set(families.values())) > 1:
        return families
    return {name: name for name in families}
