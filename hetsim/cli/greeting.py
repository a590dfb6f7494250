"""What a bare ``hetsim`` says: what it is for, and three commands to copy."""

from __future__ import annotations

COMMANDS = (
    (
        "hetsim compare zoo:inception_v1 --platform rock-5b",
        "Does it pay to split GoogLeNet over a board's CPU, NPU and GPU?",
    ),
    (
        "hetsim run zoo:inception_v1 --platform rock-5b --executor threads",
        "Run such a split for real: are the outputs the same to the last bit?",
    ),
    (
        "hetsim devices query rockchip-rk3588-npu zoo:inception_v1",
        "Which ops does the NPU take, and why not the rest?",
    ),
)
"""Commands that need nothing but hetsim, and the question that each answers."""


def greeting() -> str:
    """Return the text; no line is longer than 80 characters, and commands stand alone on theirs."""
    lines = ["Where should each part of an ONNX model run, on a machine of unlike devices?", ""]
    for command, question in COMMANDS:
        lines += [f"  {question}", f"    {command}", ""]
    lines += [
        "Your own: an .onnx file in place of zoo:NAME (hetsim zoo list), and a platform",
        "of the catalog (hetsim devices list) or a YAML file.",
        "All commands: hetsim --help. Tab completion: hetsim completion --help.",
    ]
    return "\n".join(lines)
